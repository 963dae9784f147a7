//! Lists that contain themselves. A request cannot make one, but two nodes can that set two lists at the
//! same time; then the entry that leads back is as good as absent.

use super::lists::ListTable;
use busyhour_registrar::Domains;
use std::collections::{BTreeMap, BTreeSet};

/// The lists that contain themselves, and those that lead from one loop to another.
pub(super) fn in_loops(table: &ListTable, domains: &Domains) -> BTreeSet<String> {
    let mut inner: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut outer: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, list) in table {
        let entries = list.entries.iter();
        let names = entries.map(|entry| domains.account_of(&entry.uri));
        for (found, _) in names.filter_map(|found| table.get_key_value(found)) {
            inner.entry(name).or_default().insert(found);
            outer.entry(found).or_default().insert(name);
        }
    }
    // Whoever contains no list is in no loop, and then is not there for those that contain it; the
    // same the other way.
    peel(&mut inner, &mut outer);
    peel(&mut outer, &mut inner);
    inner.into_keys().map(str::to_owned).collect()
}

/// Takes away all from which nothing leads on, until there is none.
fn peel<'n>(
    leads_to: &mut BTreeMap<&'n str, BTreeSet<&'n str>>,
    leads_from: &mut BTreeMap<&'n str, BTreeSet<&'n str>>,
) {
    let is_end = |name: &&&str| !leads_to.contains_key(**name);
    let mut ends: Vec<&str> = leads_from.keys().filter(is_end).copied().collect();
    while let Some(end) = ends.pop() {
        for before in leads_from.remove(end).unwrap_or_default() {
            let Some(rest) = leads_to.get_mut(before) else {
                continue;
            };
            rest.remove(end);
            if rest.is_empty() {
                leads_to.remove(before);
                ends.push(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::settings::lists::StoredList;
    use busyhour_registrar::watch::ListEntry;
    use std::sync::Arc;

    fn loops_of(lists: &[(&str, &[&str])]) -> Vec<String> {
        let entry = |name: &&str| ListEntry {
            uri: format!("sip:{name}@example.com"),
            name: None,
        };
        let list = |(name, entries): &(&str, &[&str])| {
            let entries: Vec<_> = entries.iter().map(entry).collect();
            let list = StoredList {
                title: None,
                entries: entries.into(),
                is_configured: false,
            };
            ((*name).to_owned(), Arc::new(list))
        };
        let table = lists.iter().map(list).collect();
        let domains = Domains::new(["example.com".to_owned()]);
        in_loops(&table, &domains).into_iter().collect()
    }

    #[test]
    fn only_lists_that_lead_back_are_found() {
        assert!(loops_of(&[("a", &["b", "x"]), ("b", &["c", "c"]), ("c", &["x"])]).is_empty());
        assert_eq!(loops_of(&[("a", &["a"])]), ["a"]);
        let two = [
            ("a", &["b"][..]),
            ("b", &["a", "x"]),
            ("outside", &["a"]),
            ("within", &[]),
        ];
        assert_eq!(loops_of(&two), ["a", "b"]);
        let between = [
            ("a", &["a", "m"][..]),
            ("m", &["z", "leaf"]),
            ("z", &["z"]),
            ("leaf", &["x"]),
        ];
        assert_eq!(loops_of(&between), ["a", "m", "z"]);
    }
}
