//! A watcher as one of the watchers of what it watches, and one that is told of those.
//!
//! Who watches a list of resources (RFC 4662) watches each resource on it that he is told of, in
//! the package and until the time of his subscription. He is found by the feed of the resource:
//! its hubs are the lists that have it. A hub is complete when it follows all of its feeds, and
//! he has joined it by then, so whoever makes a list of watchers later finds him; and he looks
//! for those that were made before when he hears that his hub is complete.

use super::{
    Inner, StateSubscription, Watcher, resource_feeds::FeedKey, watcher_context::WatcherContext,
    watcher_infos::InfoKey,
};
use busyhour::bus::Name;
use busyhour_registrar::watch::{End, Package, ResourceList, ResourceStanding, State};
use std::{collections::HashMap, sync::Arc};

impl Watcher {
    pub(super) fn watchers_feed(
        self: &Arc<Self>,
        context: &Arc<WatcherContext>,
        device: &Name,
        package: Package,
    ) -> StateSubscription {
        let infos = &context.watchers.infos;
        let watched = package.watched().unwrap_or(Package::Presence);
        let place = infos.join(watched, device);
        if place.needs_filling {
            for watcher in context.watchers_of(watched, device) {
                let state = watcher.lock();
                if watcher.watches(&state, watched, device) {
                    place.note(state.subscription.listed(watcher.id));
                }
            }
            place.is_filled();
        }
        // Published before it listens, and so replayed.
        let _ = place.info();
        let feed = self.listen(infos.topic(watched), device.clone(), State::Watchers);
        StateSubscription::Watchers(feed, place)
    }

    fn watches(&self, state: &Inner, package: Package, device: &Name) -> bool {
        let subscription = &state.subscription;
        let is_on = |list: &ResourceList| entries_of(list).any(|entry| entry == device);
        let is_watched = match &state.feed {
            Some(StateSubscription::List(hub)) => is_on(hub.list()),
            Some(_) => subscription.device() == device,
            None => false,
        };
        is_watched && !state.is_over && subscription.package() == package
    }

    /// One that is told of watchers has been refreshed, and is told all of them: as they are
    /// now. What the bus still has for it is then no news.
    pub(super) fn renew_info(&self, state: &mut Inner) {
        if let Some(StateSubscription::Watchers(_, place)) = &state.feed {
            let info = place.info().map(State::Watchers);
            state.subscription.state_is(info);
        }
    }

    /// Tells those who watch the watchers of its resources that it is one, or was refreshed.
    pub(super) fn list(&self, context: &WatcherContext, state: &Inner) {
        let infos = &context.watchers.infos;
        if !infos.are_any() {
            return;
        }
        for key in self.asked_about(context, state) {
            infos.lives(&key, || state.subscription.listed(self.id));
        }
    }

    /// Tells them that it has ended.
    pub(super) fn unlist(&self, context: &WatcherContext, state: &Inner, end: End) {
        let infos = &context.watchers.infos;
        if !infos.are_any() {
            return;
        }
        for key in self.asked_about(context, state) {
            infos.ended(&key, self.id, end);
        }
    }

    /// What it watches, as far as somebody may watch the watchers of that: each resource of its list
    /// that it is told of, or the one that it subscribed to.
    fn asked_about(
        &self,
        context: &WatcherContext,
        state: &Inner,
    ) -> impl Iterator<Item = InfoKey> {
        let entries = match &state.feed {
            Some(StateSubscription::List(hub)) => Some(entries_of(hub.list())),
            _ => None,
        };
        let is_alone = entries.is_none() && self.resource_hash.is_some();
        let alone = is_alone.then(|| state.subscription.device());
        let package = state.subscription.package();
        let resources = entries.into_iter().flatten().chain(alone);
        let asked = resources.filter(move |it| context.watchers.infos.may_have(package, it));
        asked.map(move |resource| (package, resource.clone()))
    }

    /// Its list is another one now: it does not watch any more what was on the old one only, or
    /// may not.
    pub(super) fn leave_entries(
        &self,
        context: &WatcherContext,
        (old, new): (&ResourceList, &ResourceList),
        package: Package,
    ) {
        let infos = &context.watchers.infos;
        if !infos.are_any() {
            return;
        }
        let standings = new.resources.iter();
        let standings = standings.map(|listed| (&listed.resource, listed.standing));
        let standings: HashMap<_, _> = standings.collect();
        for entry in entries_of(old) {
            let end = match standings.get(entry) {
                Some(ResourceStanding::Watched) => continue,
                Some(ResourceStanding::Rejected) => End::Rejected,
                Some(ResourceStanding::NotFound) => End::NoResource,
                None => End::Unsubscribed,
            };
            infos.ended(&(package, entry.clone()), self.id, end);
        }
    }
}

impl WatcherContext {
    /// Who may watch a resource in a package, alone or on a list.
    fn watchers_of(&self, package: Package, resource: &Name) -> Vec<Arc<Watcher>> {
        let mut watchers = self.watchers.of(package, resource);
        let key = self.feed_key(package, resource);
        let Some(feed) = self.resource_feeds.find_feed(&key) else {
            return watchers;
        };
        for (hub, _) in feed.lists() {
            if hub.package() == package {
                watchers.extend(hub.watchers());
            }
        }
        watchers
    }

    /// The state of what a feed listens to, if there is one.
    pub(super) fn state_of(&self, key: &FeedKey) -> Option<State> {
        let address = match key {
            FeedKey::Mailbox(mailbox) => return self.mailboxes.get(mailbox).map(State::Mailbox),
            FeedKey::Line(address) => address,
        };
        let user = self.accounts.account_of(address);
        let is_extension = self.hints.contain(user);
        let extension = is_extension.then(|| self.hints.topic().get(&Name::new(user)));
        let device = || self.devices.topics.states.get(address).map(State::Device);
        extension.flatten().map(State::Extension).or_else(device)
    }

    /// What to listen to for a resource.
    pub(super) fn feed_key(&self, package: Package, resource: &Name) -> FeedKey {
        match package {
            Package::MessageSummary => {
                let user = self.accounts.account_of(resource);
                FeedKey::Mailbox(self.mailboxes.of(user))
            }
            _ => FeedKey::Line(resource.clone()),
        }
    }
}

/// The resources of a list whose states are told.
fn entries_of(list: &ResourceList) -> impl Iterator<Item = &Name> {
    let is_told = |standing| standing == ResourceStanding::Watched;
    let told = list
        .resources
        .iter()
        .filter(move |one| is_told(one.standing));
    told.map(|one| &one.resource)
}
