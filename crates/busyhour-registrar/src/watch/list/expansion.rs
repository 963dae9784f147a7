//! A list that names other lists, written out.

use crate::watch::ListEntry;
use std::{collections::HashSet, hash::Hash, sync::Arc};

/// What an entry of a list stands for.
pub enum Entry<K> {
    /// A resource, by what tells it apart.
    Resource(K),
    /// Another list: its name, and its entries.
    List(K, Arc<[ListEntry]>),
}

/// A list has more resources than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the list has more than {0} resources, with those of the lists that it names")]
pub struct TooManyResources(pub usize);

/// The resources of `entries` in the order in which they come, each once, and those of the
/// lists among them in their place. Each list is read once: a second time it has nothing new,
/// and so a list that contains itself ends there. `is` says what an entry stands for.
///
/// # Errors
///
/// [`TooManyResources`] beyond `resources_max`; lists count as resources there, so that lists of
/// lists are bounded, too.
///
/// ```
/// use busyhour_registrar::watch::{Entry, ListEntry, expand};
/// use std::sync::Arc;
///
/// let entry = |uri: &str| ListEntry { uri: uri.into(), name: None };
/// let list: Arc<[_]> = [entry("sip:b"), entry("list"), entry("sip:c")].into();
/// let is = |entry: &ListEntry| match &*entry.uri {
///     "list" => Entry::List("list".to_owned(), list.clone()),
///     uri => Entry::Resource(uri.to_owned()),
/// };
/// let expanded = expand(&[entry("sip:a"), entry("list"), entry("sip:b")], 10, is).unwrap();
/// let uris: Vec<_> = expanded.iter().map(|(key, _)| key.as_str()).collect();
/// assert_eq!(uris, ["sip:a", "sip:b", "sip:c"]);
/// ```
pub fn expand<K: Clone + Eq + Hash>(
    entries: &[ListEntry],
    resources_max: usize,
    mut is: impl FnMut(&ListEntry) -> Entry<K>,
) -> Result<Vec<(K, Option<String>)>, TooManyResources> {
    let (mut seen, mut lists) = (HashSet::new(), HashSet::new());
    let mut resources = Vec::new();
    // What is left of each list that is being read, the innermost last; no recursion, since the
    // depth comes from outside.
    let mut open: Vec<(Arc<[ListEntry]>, usize)> = vec![(entries.into(), 0)];
    while let Some((list, next)) = open.last_mut() {
        let Some(entry) = list.get(*next).cloned() else {
            open.pop();
            continue;
        };
        *next += 1;
        match is(&entry) {
            Entry::Resource(key) if seen.insert(key.clone()) => resources.push((key, entry.name)),
            Entry::List(name, inner) if lists.insert(name.clone()) => open.push((inner, 0)),
            Entry::Resource(_) | Entry::List(..) => {}
        }
        if seen.len() + lists.len() > resources_max {
            return Err(TooManyResources(resources_max));
        }
    }
    Ok(resources)
}
