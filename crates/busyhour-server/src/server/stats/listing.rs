//! Registered contacts and named things (accounts, mailboxes, hints) for people and
//! programs, a page at a time.

use busyhour::{bus::Name, clock::Instant};
use busyhour_registrar::Binding;
use std::{collections::BTreeMap, ops::Bound};

/// One page of bindings in the order of their addresses of record.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The bindings; those of one address of record are never parted.
    pub bindings: Vec<Listed>,
    /// Where the next page begins: after this address of record. `None` on the last page.
    pub next: Option<Box<str>>,
    /// When they were read.
    pub at: Instant,
}

/// A binding, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Canonical address of record.
    pub aor: Box<str>,
    /// The binding.
    pub binding: Binding,
}

/// One page of what has a name, in the order of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedPage<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins: after this name. `None` on the last page.
    pub next: Option<Name>,
}

impl<T> NamedPage<T> {
    /// At most `limit` of those behind the name `after`, as `view` shows them; with `domain`, only
    /// those of one.
    pub(in crate::server) fn of<V>(
        named: &BTreeMap<Name, V>,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
        view: impl Fn(&Name, &V) -> Option<T>,
    ) -> Self {
        let begin = after.map_or(Bound::Unbounded, |after| Bound::Excluded(Name::new(after)));
        let rest = named.range((begin, Bound::Unbounded));
        let mut rest = rest
            .filter(|(name, _)| domain.is_none_or(|domain| is_of_domain(name.as_str(), domain)));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let is_last = rest.next().is_none();
        let last = page.last().filter(|_| !is_last);
        Self {
            next: last.map(|(name, _)| (*name).clone()),
            items: page
                .into_iter()
                .filter_map(|(name, value)| view(name, value))
                .collect(),
        }
    }
}

/// Whether an address of record, or the name of an account, a mailbox or a hint, is of a domain.
pub(crate) fn is_of_domain(name: &str, domain: &str) -> bool {
    let host = name.rsplit_once('@').map(|(_, host)| host);
    host.and_then(|host| host.split([';', '?', ':']).next()) == Some(domain)
}
