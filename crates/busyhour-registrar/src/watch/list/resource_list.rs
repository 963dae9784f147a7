//! A list as its watchers see it: which resources it has, in which order.

use crate::watch::State;
use busyhour::bus::Name;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// One entry of a list, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListEntry {
    /// The URI of a resource or of another list.
    pub uri: String,
    /// What a panel shows for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A list without lists in it: what one subscription watches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceList {
    /// The URI that watchers subscribe to.
    pub uri: Box<str>,
    /// What a panel shows for the list.
    pub name: Option<Box<str>>,
    /// Its resources, each once.
    pub resources: Box<[ListedResource]>,
}

/// A resource of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListedResource {
    /// Its address of record; of a resource that is not here, its URI as it was written.
    pub resource: Name,
    /// What a panel shows for it.
    pub name: Option<Box<str>>,
    /// Whether this watcher is told its state.
    pub standing: ResourceStanding,
}

/// Whether a watcher is told the state of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceStanding {
    /// It is told.
    Watched,
    /// There is no such resource here (`noresource`).
    NotFound,
    /// This watcher may not see it (`rejected`).
    Rejected,
}

/// Where the states of a list's resources are: its watchers read them when they are told, so
/// that nobody keeps a second copy of them.
pub trait ResourceStates: Debug + Send + Sync {
    /// The last state of the resource at this place of the list; `None` if there is nothing to
    /// tell, as for a device that cannot be reached.
    fn state(&self, place: usize) -> Option<State>;
}
