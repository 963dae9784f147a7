use super::entry::{Reported, TableEntry};
use crate::server::{ListConfig, ListRefusal};
use busyhour_registrar::Domains;
use std::collections::HashSet;

/// A `[[list]]` as written. Whether it is valid depends on `sip.domains`, too. A field that is
/// `None` has a mistake, which was reported.
#[derive(Debug, Clone)]
pub(in crate::config) struct WrittenList {
    name: Option<String>,
    title: Option<String>,
    entries: Option<Vec<String>>,
}

/// Reads a `[[list]]`; `names` are the earlier ones.
pub(in crate::config) fn read(
    entry: &mut TableEntry<'_>,
    names: &mut HashSet<String>,
) -> WrittenList {
    let name = entry.required("name", TableEntry::text);
    let name = name.and_then(|name| match names.insert(name.clone()) {
        true => Ok(name),
        false => Err(entry.mistake(format!("list `{name}` already exists"))),
    });
    let title = entry.text("title");
    let entries: Result<_, Reported> = entry.required("entries", TableEntry::texts);
    WrittenList {
        name: name.ok(),
        title: title.ok().flatten(),
        entries: entries.ok(),
    }
}

impl WrittenList {
    /// The list, if nothing in it is missing.
    pub(in crate::config) fn whole(&self) -> Option<ListConfig> {
        Some(ListConfig {
            name: self.name.clone()?,
            title: self.title.clone(),
            entries: self.entries.clone()?,
        })
    }

    /// Every mistake in the list, for a server with these domains. Those that several lists make
    /// together are found when the server starts.
    pub(in crate::config) fn mistakes(&self, domains: &Domains) -> Vec<String> {
        let list = ListConfig {
            name: self.name.clone().unwrap_or_default(),
            title: None,
            entries: self.entries.clone().unwrap_or_default(),
        };
        let was_written = |refusal: &ListRefusal| match refusal {
            ListRefusal::Name => self.name.is_some(),
            _ => self.entries.is_some(),
        };
        let name = match self.name {
            Some(ref name) => format!("list `{name}`"),
            None => "list".into(),
        };
        let refusals = list.refusals(domains).into_iter().filter(was_written);
        refusals
            .map(|refusal| format!("{name}: {refusal}"))
            .collect()
    }
}

pub(in crate::config) const FIELDS: &[&str] = &["name", "title", "entries"];
