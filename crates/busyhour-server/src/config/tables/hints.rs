use super::entry::{Reported, TableEntry};
use crate::server::{HintConfig, HintRefusal};
use busyhour_registrar::Domains;
use std::collections::HashSet;

/// A `[[hint]]` as written. Whether it is valid depends on `sip.domains`, too. A field
/// that is `None` has a mistake, which was reported.
#[derive(Debug, Clone)]
pub(in crate::config) struct WrittenHint {
    extension: Option<String>,
    devices: Option<Vec<String>>,
}

/// Reads a `[[hint]]`; `extensions` are the earlier ones.
pub(in crate::config) fn read(
    entry: &mut TableEntry<'_>,
    extensions: &mut HashSet<String>,
) -> WrittenHint {
    let extension = entry.required("extension", TableEntry::text);
    let extension = extension.and_then(|extension| match extensions.insert(extension.clone()) {
        true => Ok(extension),
        false => Err(entry.mistake(format!("hint `{extension}` already exists"))),
    });
    let devices: Result<_, Reported> = entry.required("devices", TableEntry::texts);
    WrittenHint {
        extension: extension.ok(),
        devices: devices.ok(),
    }
}

impl WrittenHint {
    /// The hint, if nothing in it is missing.
    pub(in crate::config) fn whole(&self) -> Option<HintConfig> {
        Some(HintConfig {
            extension: self.extension.clone()?,
            devices: self.devices.clone()?,
        })
    }

    /// Every mistake in the hint, for a server with these domains.
    pub(in crate::config) fn mistakes(&self, domains: &Domains) -> Vec<String> {
        let hint = HintConfig {
            extension: self.extension.clone().unwrap_or_default(),
            devices: self.devices.clone().unwrap_or_default(),
        };
        let was_written = |refusal: &HintRefusal| match refusal {
            HintRefusal::Extension => self.extension.is_some(),
            _ => self.devices.is_some(),
        };
        let name = match self.extension {
            Some(ref extension) => format!("hint `{extension}`"),
            None => "hint".into(),
        };
        let refusals = hint.refusals(domains).into_iter().filter(was_written);
        refusals
            .map(|refusal| format!("{name}: {refusal}"))
            .collect()
    }
}

pub(in crate::config) const FIELDS: &[&str] = &["extension", "devices"];
