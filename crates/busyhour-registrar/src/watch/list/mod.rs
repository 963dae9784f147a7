//! Lists of resources: many states in one subscription (RFC 4662), lists that a
//! SUBSCRIBE brings with it (RFC 5367), and what a watcher of a list is told.

pub(in crate::watch) mod resource_list;
pub(in crate::watch) mod expansion;
pub(in crate::watch) mod recipients;
pub(in crate::watch) mod index_queue;
pub(in crate::watch) mod list_form;
pub(in crate::watch) mod rlmi;
pub(in crate::watch) mod list_view;
