//! One resource of lists: it listens to the bus, and passes on that the state has changed. The
//! state itself is read where it is told.

use super::{
    StateSubscription,
    list_feeds::{FeedKey, ListFeeds},
    list_hub::ListHub,
    watcher_context::WatcherContext,
};
use crate::lock::lock;
use busyhour::{
    bus::{self, Event, Name, Topic},
    serializer::Serializer,
    task::{Executor, Task},
};
use std::sync::{Arc, Mutex, Weak};

/// A resource, and the lists that have it.
pub(in crate::server) struct ResourceFeed {
    key: FeedKey,
    feeds: Weak<ListFeeds>,
    context: Weak<WatcherContext>,
    serializer: Serializer,
    followers: Mutex<Vec<Follower>>,
    subscription: Mutex<Option<StateSubscription>>,
}

/// A list, and the place of the resource in it.
struct Follower {
    hub: Weak<ListHub>,
    place: u32,
}

impl ResourceFeed {
    /// The feed of this key, which listens when this returns.
    pub(super) fn open(context: &Arc<WatcherContext>, key: &FeedKey) -> Arc<Self> {
        let feeds = &context.list_feeds;
        let make = |serializer| {
            Arc::new(Self {
                key: key.clone(),
                feeds: Arc::downgrade(feeds),
                context: Arc::downgrade(context),
                serializer,
                followers: Mutex::default(),
                subscription: Mutex::default(),
            })
        };
        let (feed, _) = feeds.feed(key, make);
        feed.listen(context);
        feed
    }

    /// A list has this resource at this place from now on.
    pub(super) fn follow(&self, hub: &Arc<ListHub>, place: u32) {
        let hub = Arc::downgrade(hub);
        lock(&self.followers).push(Follower { hub, place });
    }

    /// A list has ended.
    pub(super) fn leave(&self, hub: &Weak<ListHub>) {
        let mut followers = lock(&self.followers);
        followers.retain(|follower| !follower.hub.ptr_eq(hub));
        if followers.capacity() > 4 * followers.len().max(4) {
            followers.shrink_to_fit();
        }
    }

    /// Listens if nobody has begun to. Whoever comes second waits for the first one.
    fn listen(self: &Arc<Self>, context: &Arc<WatcherContext>) {
        let mut subscription = lock(&self.subscription);
        if subscription.is_none() {
            *subscription = Some(self.subscribe(context));
        }
    }

    /// Listens to the topic that has its state now. Runs on its serializer, since whoever asks
    /// may hold a lock.
    pub(super) fn restart(self: &Arc<Self>) {
        let feed = self.clone();
        let restart = Task::labelled(&"another topic", move || {
            let Some(context) = feed.context.upgrade() else {
                return;
            };
            let new = feed.subscribe(&context);
            let old = lock(&feed.subscription).replace(new);
            drop(old);
            feed.tell();
        });
        // Refused only when the server ends.
        let _ = self.serializer.execute_unbounded(restart);
    }

    fn subscribe(self: &Arc<Self>, context: &Arc<WatcherContext>) -> StateSubscription {
        match &self.key {
            FeedKey::Line(address)
                if context.hints.contain(context.accounts.account_of(address)) =>
            {
                let extension = Name::new(context.accounts.account_of(address));
                StateSubscription::Extension(self.attach(context.hints.topic(), extension))
            }
            FeedKey::Line(address) => {
                let topic = &context.devices.topics.states;
                let listen = || self.attach(topic, address.clone());
                let devices = &context.devices;
                StateSubscription::Device(devices.subscribe_with_snapshot(address, listen))
            }
            FeedKey::Mailbox(mailbox) => {
                let feed = self.attach(context.mailboxes.topic(), mailbox.clone());
                StateSubscription::Mailbox(mailbox.clone(), feed)
            }
        }
    }

    fn attach<E: Event<Key = Name>>(
        self: &Arc<Self>,
        topic: &Topic<E>,
        key: Name,
    ) -> bus::Subscription<E> {
        let feed = Arc::downgrade(self);
        // There is one key, and its newest event replaces one that waits, so one place is enough.
        // What was before is read from the topic.
        let subscription = topic.subscribe().key(key).conflate().capacity(1);
        let subscription = subscription.name("lists").on(&self.serializer);
        subscription.start(move |_| {
            if let Some(feed) = feed.upgrade() {
                feed.tell();
            }
        })
    }

    fn tell(&self) {
        for (hub, place) in self.followers() {
            hub.changed(place);
        }
    }

    /// The lists that have this resource, and where. To be dropped under no lock: the last one
    /// to let go of a hub ends it.
    pub(super) fn followers(&self) -> Vec<(Arc<ListHub>, u32)> {
        let followers = lock(&self.followers);
        let alive = |follower: &Follower| Some((follower.hub.upgrade()?, follower.place));
        followers.iter().filter_map(alive).collect()
    }
}

impl Drop for ResourceFeed {
    fn drop(&mut self) {
        if let Some(feeds) = self.feeds.upgrade() {
            feeds.forget_feed(&self.key);
        }
    }
}
