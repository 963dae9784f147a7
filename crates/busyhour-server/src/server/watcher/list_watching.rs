//! What a watcher of a list does beside one of a single resource: it finds out which resources
//! the list has, and hears from their hub what has changed.

use super::{
    StateSubscription, Watcher, list_hub::ListHub, resource_feeds::HubKey,
    watcher_context::WatcherContext,
};
use busyhour::task::{Executor, Task};
use busyhour_registrar::watch::{End, ListEntry, Package, ResourceList, ResourceStates};
use std::sync::{Arc, atomic::Ordering};

/// The resources of a list, as a SUBSCRIBE has found them.
pub(in crate::server) struct ResolvedList {
    pub(in crate::server) list: ResourceList,
    /// How often lists had changed before.
    pub(in crate::server) changes: u64,
}

/// Places of a list whose resources have changed, until the watcher's turn.
#[derive(Default)]
pub(super) struct ChangedPlaces {
    places: Vec<u32>,
    /// A turn that takes them is on its way.
    is_turn_pushed: bool,
}

impl ChangedPlaces {
    /// Each place is kept once, whenever there are twice as many as the list can have: so this
    /// costs a change the same, and is never longer than that.
    fn push(&mut self, place: u32, list_len: usize) {
        if self.places.len() >= 2 * list_len.max(8) {
            self.places.sort_unstable();
            self.places.dedup();
        }
        self.places.push(place);
    }
}

impl Watcher {
    /// Begins to watch its list, which was resolved a moment ago if it is given.
    pub(super) fn start_list(self: &Arc<Self>, context: &Arc<WatcherContext>) {
        let resolved = self.lock().resolved.take();
        let changes = match &resolved {
            Some(resolved) => resolved.changes,
            None => context.watchers.list_changes(),
        };
        match resolved {
            Some(resolved) => self.watch_list(context, Arc::new(resolved.list)),
            None => self.resolve_list(context),
        }
        // A list that has changed since it was looked up may have told this watcher so before it
        // began with what there was then.
        if context.watchers.list_changes() != changes {
            self.push_resolve_list();
        }
        context.revoke(self);
    }

    /// The address that it watches is a list from now on, which wants another subscription. What
    /// is told of no list goes on, and what has not begun looks for itself when it does.
    pub(super) fn end_for_list(self: &Arc<Self>) {
        let has_begun = self.lock().feed.is_some();
        if has_begun && is_told_of_lists(self.package()) {
            self.push_end(End::Deactivated);
        }
    }

    /// Finds out again which resources the list has, and watches those. Before it has begun, nothing may
    /// be told, and it looks for itself when it does.
    pub(in crate::server) fn push_resolve_list(self: &Arc<Self>) {
        let watcher = self.clone();
        let resolve = move || {
            let has_begun = watcher.lock().resolved.is_none();
            if let Some(context) = watcher.context.upgrade().filter(|_| has_begun) {
                watcher.resolve_list(&context);
            }
        };
        // Refused only when the server ends.
        let _ = self
            .strand
            .execute_unbounded(Task::labelled(&"another list", resolve));
    }

    fn resolve_list(self: &Arc<Self>, context: &Arc<WatcherContext>) {
        let state = self.lock();
        let subscription = &state.subscription;
        let (uri, recipients) = (subscription.device().clone(), subscription.recipients());
        let (package, account) = (subscription.package(), subscription.account());
        let recipients = recipients.map(|recipients| &**recipients);
        let list = context.resolve_list(&uri, recipients, package, account);
        drop(state);
        match list {
            Ok(list) => self.watch_list(context, Arc::new(list)),
            Err(_) => self.push_end(End::NoResource),
        }
    }

    fn watch_list(self: &Arc<Self>, context: &Arc<WatcherContext>, list: Arc<ResourceList>) {
        let recipients = self.lock().subscription.recipients().cloned();
        self.note_lamps(context, lamps_of(&list, recipients.as_deref()));
        let package = self.package();
        let hub = ListHub::open(context, HubKey { package, list });
        let mut state = self.lock();
        let is_same =
            matches!(&state.feed, Some(StateSubscription::List(known)) if Arc::ptr_eq(known, &hub));
        if state.is_over || is_same {
            return;
        }
        let before = state.feed.replace(StateSubscription::List(hub.clone()));
        if let Some(StateSubscription::List(before)) = &before {
            self.leave_entries(context, (before.list(), hub.list()), package);
        }
        drop(state);
        if let Some(StateSubscription::List(before)) = before {
            before.leave(self);
        }
        hub.join(self);
        // Whoever has ended it meanwhile did not find it among the hub's watchers.
        if self.lock().is_over {
            hub.leave(self);
        }
    }

    /// The states of all resources are on the bus.
    pub(super) fn list_is_complete(self: &Arc<Self>, hub: &Arc<ListHub>) {
        let (watcher, hub) = (self.clone(), hub.clone());
        let tell = move || {
            watcher.with(|context, state| {
                let is_its = matches!(&state.feed, Some(StateSubscription::List(its)) if Arc::ptr_eq(its, &hub));
                if is_its {
                    let states: Arc<dyn ResourceStates> = hub.clone();
                    state.subscription.list_is(hub.list().clone(), states);
                    watcher.list(context, state);
                }
            });
        };
        // Refused only when the server ends.
        let _ = self.strand.execute_unbounded(Task::labelled(&"list", tell));
    }

    /// The resource at this place of the list may have another state. One turn on the strand
    /// takes all that have changed until it runs.
    pub(super) fn resource_changed(self: &Arc<Self>, place: u32) {
        let list_len = self.lamps.load(Ordering::Relaxed) as usize;
        let mut changed = self.changed_places();
        changed.push(place, list_len);
        let needs_turn = !std::mem::replace(&mut changed.is_turn_pushed, true);
        drop(changed);
        if !needs_turn {
            return;
        }
        let watcher = self.clone();
        let tell = move || {
            watcher.with(|context, state| {
                let mut changed = watcher.changed_places();
                changed.is_turn_pushed = false;
                let places = std::mem::take(&mut changed.places);
                drop(changed);
                let conflated = state.subscription.resources_changed(places);
                context.watchers.counters.conflated.add(conflated);
            });
        };
        // Refused only when the server ends.
        let _ = self
            .strand
            .execute_unbounded(Task::labelled(&"resources", tell));
    }

    /// Charges its subscriber for so many resources in place of those before, whether or not
    /// there is room: it has watched the list before, and the list has changed.
    fn note_lamps(&self, context: &WatcherContext, count: u64) {
        let before = self.lamps.swap(count, Ordering::Relaxed);
        let lamps = &context.resource_feeds.lamps;
        lamps.give_back(self.holder, before);
        lamps.take_anyway(self.holder, count);
    }

    /// The subscription has ended.
    pub(in crate::server) fn forget_lamps(&self, context: &WatcherContext) {
        let count = self.lamps.swap(0, Ordering::Relaxed);
        context.resource_feeds.lamps.give_back(self.holder, count);
    }
}

/// Whether a list may be watched in a package; of registrations and watchers everybody sees only his
/// own.
pub(in crate::server) fn is_told_of_lists(package: Package) -> bool {
    package != Package::Registration && package.watched().is_none()
}

/// What a subscription to a list is charged for: its resources, or what it keeps of a list that
/// its SUBSCRIBE brought, where long names take more.
pub(in crate::server) fn lamps_of(list: &ResourceList, recipients: Option<&[ListEntry]>) -> u64 {
    let kept_len = |entry: &ListEntry| entry.uri.len() + entry.name.as_ref().map_or(0, String::len);
    let kept: usize = recipients.into_iter().flatten().map(kept_len).sum();
    list.resources.len().max(kept / LAMP_BYTES) as u64
}

/// About what one resource takes in a subscription.
const LAMP_BYTES: usize = 64;
