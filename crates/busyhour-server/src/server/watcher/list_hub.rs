//! A list and what its watchers share: the feeds of its resources, and who is to be told.

use super::{
    Watcher,
    resource_feed::ResourceFeed,
    resource_feeds::{FeedKey, HubKey, ResourceFeeds},
    watcher_context::WatcherContext,
};
use busyhour::{
    serializer::Serializer,
    task::{Executor, Task},
};
use busyhour_registrar::watch::{Package, ResourceList, ResourceStanding, ResourceStates, State};
use std::{
    fmt::{self, Debug, Formatter},
    sync::{Arc, Mutex, MutexGuard, Weak},
};

/// A list with watchers.
pub(in crate::server) struct ListHub {
    key: HubKey,
    table: Weak<ResourceFeeds>,
    context: Weak<WatcherContext>,
    serializer: Serializer,
    itself: Weak<Self>,
    state: Mutex<HubState>,
}

#[derive(Default)]
struct HubState {
    feeds: Vec<Arc<ResourceFeed>>,
    /// The state of each resource is on the bus.
    is_complete: bool,
    watchers: Vec<Weak<Watcher>>,
}

impl ListHub {
    /// The hub of a list. A new one begins to listen to the resources, on a serializer and in
    /// portions, since there may be thousands.
    pub(super) fn open(context: &Arc<WatcherContext>, key: HubKey) -> Arc<Self> {
        let make = |key, serializer| {
            Arc::new_cyclic(|itself| Self {
                key,
                table: Arc::downgrade(&context.resource_feeds),
                context: Arc::downgrade(context),
                serializer,
                itself: itself.clone(),
                state: Mutex::default(),
            })
        };
        let (hub, is_new) = context.resource_feeds.hub(key, make);
        if is_new {
            hub.push_portion(0);
        }
        hub
    }

    pub(super) fn list(&self) -> &Arc<ResourceList> {
        &self.key.list
    }

    /// A watcher is told when all resources are known, and of what changes.
    pub(super) fn join(self: &Arc<Self>, watcher: &Arc<Watcher>) {
        let mut state = self.lock();
        state.watchers.push(Arc::downgrade(watcher));
        let is_complete = state.is_complete;
        drop(state);
        if is_complete {
            watcher.list_is_complete(self);
        }
    }

    /// A watcher has ended, or watches another list.
    pub(super) fn leave(&self, watcher: &Watcher) {
        let mut state = self.lock();
        let is_other = |known: &Weak<Watcher>| !std::ptr::eq(known.as_ptr(), watcher);
        state.watchers.retain(is_other);
        if state.watchers.capacity() > 4 * state.watchers.len().max(4) {
            state.watchers.shrink_to_fit();
        }
    }

    /// The resource at this place may have another state.
    pub(super) fn changed(&self, place: u32) {
        for watcher in self.watchers() {
            watcher.resource_changed(place);
        }
    }

    /// In which package the resources are watched.
    pub(super) fn package(&self) -> Package {
        self.key.package
    }

    /// Who has joined.
    pub(super) fn watchers(&self) -> Vec<Arc<Watcher>> {
        let state = self.lock();
        state.watchers.iter().filter_map(Weak::upgrade).collect()
    }

    fn push_portion(&self, from: usize) {
        let hub = self.itself.clone();
        let open = Task::labelled(&"resources of a list", move || {
            if let Some(hub) = hub.upgrade() {
                hub.open_portion(from);
            }
        });
        // Refused only when the server ends.
        let _ = self.serializer.execute_unbounded(open);
    }

    fn open_portion(self: &Arc<Self>, from: usize) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let resources = &self.key.list.resources;
        let to = resources.len().min(from + PORTION_LEN);
        for place in from..to {
            let Some(key) = self.feed_key(&context, place) else {
                continue;
            };
            let feed = ResourceFeed::open(&context, &key);
            feed.follow(self, place as u32);
            self.lock().feeds.push(feed);
        }
        if to < resources.len() {
            return self.push_portion(to);
        }
        self.lock().is_complete = true;
        for watcher in self.watchers() {
            watcher.list_is_complete(self);
        }
    }

    /// What to listen to for a resource; `None` if its state is not told.
    fn feed_key(&self, context: &WatcherContext, place: usize) -> Option<FeedKey> {
        let listed = &self.key.list.resources[place];
        if listed.standing != ResourceStanding::Watched {
            return None;
        }
        Some(context.feed_key(self.key.package, &listed.resource))
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl ResourceStates for ListHub {
    fn state(&self, place: usize) -> Option<State> {
        let context = self.context.upgrade()?;
        let resource = &self.key.list.resources.get(place)?.resource;
        let key = context.feed_key(self.key.package, resource);
        let feed = context.resource_feeds.find_feed(&key);
        let known = feed.and_then(|feed| feed.state());
        known.unwrap_or_else(|| context.state_of(&key))
    }
}

impl Debug for ListHub {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListHub").field(&self.key.list.uri).finish()
    }
}

impl Drop for ListHub {
    fn drop(&mut self) {
        let feeds = std::mem::take(&mut self.lock().feeds);
        for feed in feeds {
            feed.leave(&self.itself);
        }
        if let Some(table) = self.table.upgrade() {
            table.forget_hub(&self.key);
        }
    }
}

/// A portion takes less than a millisecond, in which other lists of its serializer wait.
const PORTION_LEN: usize = 64;
