//! The lists that are of the whole cluster.

/// A list, and how pages of several nodes become one.
pub(super) struct AskedList {
    /// What its path ends with, and the name of its entries.
    pub(super) kind: &'static str,
    /// Which field says how many there are in all, if one does.
    pub(super) count: Option<&'static str>,
    pub(super) order: ListOrder,
    /// The length of a page, if none is given.
    pub(super) limit: usize,
    /// Whether `user` may be an address of record, which one node has.
    pub(super) is_by_address: bool,
    /// Whether a node without a lease says nothing: others may have what it has.
    pub(super) needs_lease: bool,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListOrder {
    /// By `aor`; all that have one are on one page.
    WholeAors,
    /// By the keys that come beside the entries, then by `aor`.
    Keys,
    /// By `id`.
    Ids,
    /// By this number, the largest first, and without further pages.
    Largest(&'static str),
}

pub(super) static LISTS: [AskedList; 5] = [
    AskedList {
        kind: "bindings",
        count: None,
        order: ListOrder::WholeAors,
        limit: 1000,
        is_by_address: true,
        needs_lease: true,
    },
    AskedList {
        kind: "devices",
        count: Some("match_count"),
        order: ListOrder::Keys,
        limit: 100,
        is_by_address: false,
        needs_lease: true,
    },
    AskedList {
        kind: "watchers",
        count: Some("match_count"),
        order: ListOrder::Ids,
        limit: 100,
        is_by_address: false,
        needs_lease: false,
    },
    AskedList {
        kind: "calls",
        count: Some("call_count"),
        order: ListOrder::Largest("since_ns"),
        limit: 1000,
        is_by_address: false,
        needs_lease: false,
    },
    AskedList {
        kind: "failures",
        count: None,
        order: ListOrder::Largest("at_unix_seconds"),
        limit: 1000,
        is_by_address: false,
        needs_lease: false,
    },
];
