//! What a lamp shows: the dialogs in the last NOTIFY.

use super::dialog::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A dialog as a watcher is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub state: String,
    /// The device holds the other side; the other side holds the device.
    pub holds: [bool; 2],
}

/// Each dialog of a document.
///
/// # Panics
///
/// If it has one twice.
pub fn dialogs_of(document: &str) -> BTreeMap<Name, Told> {
    let mut dialogs = BTreeMap::new();
    for (name, told) in elements(document) {
        let is_new = dialogs.insert(name.clone(), told).is_none();
        assert!(is_new, "{name:?} is told twice in\n{document}");
    }
    dialogs
}

/// Whether a document has a dialog twice.
pub fn tells_twice(document: &str) -> bool {
    let mut names = BTreeSet::new();
    elements(document).any(|(name, _)| !names.insert(name))
}

fn elements(document: &str) -> impl Iterator<Item = (Name, Told)> {
    document.split("<dialog ").skip(1).map(|element| {
        let element = element.split("</dialog>").next().unwrap();
        let attribute = |name: &str| {
            let (_, value) = element.split_once(&format!(" {name}=\""))?;
            Some(value.split_once('"')?.0.to_owned())
        };
        let name = Name {
            call_id: attribute("call-id").expect("a Call-ID"),
            local_tag: attribute("local-tag").unwrap_or_default(),
            remote_tag: attribute("remote-tag").unwrap_or_default(),
        };
        let (_, state) = element.split_once("<state>").expect("a state");
        let state = state.split_once('<').unwrap().0.to_owned();
        let is_silent = |side: &str| {
            let (_, rest) = element.split_once(&format!("<{side}>"))?;
            let (part, _) = rest.split_once(&format!("</{side}>"))?;
            Some(part.contains("pval=\"no\""))
        };
        let holds = ["local", "remote"].map(|side| is_silent(side) == Some(true));
        (name, Told { state, holds })
    })
}
