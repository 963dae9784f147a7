//! One resource that is watched, alone or on lists: it listens to the bus, keeps the last state that it was delivered, and
//! passes on that this is another one. The state itself is read where it is told, from here and not from the topic: a
//! subscription may be delivered an event a moment before a lookup in the topic finds it, and who had looked in between would
//! never learn of it.

use super::{
    Watcher,
    list_hub::ListHub,
    resource_feeds::{FeedKey, ResourceFeeds},
    watcher_context::WatcherContext,
};
use crate::lock::lock;
use busyhour::{
    bus::{self, Delivery, Event, Name, Topic},
    serializer::Serializer,
    task::{Executor, Task},
};
use busyhour_registrar::watch::{DeviceState, ExtensionState, Mailbox, State};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

/// A resource, who watches it, and the lists that have it. A subscription on the bus takes a kilobyte, so the watchers of a
/// resource share one.
pub(in crate::server) struct ResourceFeed {
    key: FeedKey,
    feeds: Weak<ResourceFeeds>,
    context: Weak<WatcherContext>,
    serializer: Serializer,
    followers: Mutex<Followers>,
    known: Mutex<DeliveredState>,
    /// A turn that tells is on its way.
    is_turn_pushed: AtomicBool,
    subscription: Mutex<Option<BusSubscription>>,
}

/// What the feed was delivered.
#[derive(Default)]
struct DeliveredState {
    /// Counts the subscriptions: what an earlier one still delivers is no news.
    turn: u64,
    /// This subscription has delivered a state; before, it is one of an earlier subscription.
    is_heard: bool,
    /// The state, or that there is none; nothing before the first delivery.
    state: Option<Option<State>>,
}

/// Whom the feed tells.
#[derive(Default)]
struct Followers {
    lists: Vec<Follower>,
    /// By their numbers: there may be many, of which one ends.
    watchers: BTreeMap<u64, Weak<Watcher>>,
}

/// The subscription on the bus. Dropping it ends it.
enum BusSubscription {
    Device(#[expect(dead_code, reason = "held for its drop")] bus::Subscription<DeviceState>),
    Mailbox(#[expect(dead_code, reason = "held for its drop")] bus::Subscription<Mailbox>),
    Extension(#[expect(dead_code, reason = "held for its drop")] bus::Subscription<ExtensionState>),
}

/// A list, and the place of the resource in it.
struct Follower {
    hub: Weak<ListHub>,
    place: u32,
}

impl ResourceFeed {
    /// The feed of this key, which listens when this returns.
    pub(super) fn open(context: &Arc<WatcherContext>, key: &FeedKey) -> Arc<Self> {
        let feeds = &context.resource_feeds;
        let make = |serializer| {
            Arc::new(Self {
                key: key.clone(),
                feeds: Arc::downgrade(feeds),
                context: Arc::downgrade(context),
                serializer,
                followers: Mutex::default(),
                known: Mutex::default(),
                is_turn_pushed: AtomicBool::new(false),
                subscription: Mutex::default(),
            })
        };
        let (feed, _) = feeds.feed(key, make);
        feed.listen(context);
        feed
    }

    pub(super) fn key(&self) -> &FeedKey {
        &self.key
    }

    /// A watcher is told from now on that the state may have changed; what it is now it has to read itself.
    pub(super) fn add_watcher(&self, watcher: &Arc<Watcher>) {
        let weak = Arc::downgrade(watcher);
        lock(&self.followers).watchers.insert(watcher.number, weak);
    }

    /// The last state, or that there is none; `None` before that is known.
    pub(super) fn state(&self) -> Option<Option<State>> {
        lock(&self.known).state.clone()
    }

    /// The watcher has ended.
    pub(super) fn remove_watcher(&self, watcher: &Watcher) {
        lock(&self.followers).watchers.remove(&watcher.number);
    }

    /// A list has this resource at this place from now on.
    pub(super) fn follow(&self, hub: &Arc<ListHub>, place: u32) {
        let hub = Arc::downgrade(hub);
        lock(&self.followers).lists.push(Follower { hub, place });
    }

    /// A list has ended.
    pub(super) fn leave(&self, hub: &Weak<ListHub>) {
        let lists = &mut lock(&self.followers).lists;
        lists.retain(|follower| !follower.hub.ptr_eq(hub));
        if lists.capacity() > 4 * lists.len().max(4) {
            lists.shrink_to_fit();
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
            // One subscribes after the other, so the one that is kept is the one whose deliveries count.
            let mut subscription = lock(&feed.subscription);
            let new = feed.subscribe(&context);
            let old = subscription.replace(new);
            drop(subscription);
            drop(old);
        });
        // Refused only when the server ends.
        let _ = self.serializer.execute_unbounded(restart);
    }

    /// A hint that comes or goes before the subscription tells nobody of this feed, so it is looked for again after that.
    fn subscribe(self: &Arc<Self>, context: &Arc<WatcherContext>) -> BusSubscription {
        loop {
            let is_extension = self.is_extension(context);
            let subscription = self.subscribe_to(context, is_extension);
            if self.is_extension(context) == is_extension {
                return subscription;
            }
        }
    }

    fn is_extension(&self, context: &WatcherContext) -> bool {
        match &self.key {
            FeedKey::Line(address) => context.hints.contain(context.accounts.account_of(address)),
            FeedKey::Mailbox(_) => false,
        }
    }

    fn subscribe_to(
        self: &Arc<Self>,
        context: &Arc<WatcherContext>,
        is_extension: bool,
    ) -> BusSubscription {
        match &self.key {
            FeedKey::Line(address) if is_extension => {
                let extension = Name::new(context.accounts.account_of(address));
                let topic = context.hints.topic();
                BusSubscription::Extension(self.attach(topic, extension, State::Extension))
            }
            FeedKey::Line(address) => {
                let topic = &context.devices.topics.states;
                let listen = || self.attach(topic, address.clone(), State::Device);
                let devices = &context.devices;
                BusSubscription::Device(devices.subscribe_with_snapshot(address, listen))
            }
            FeedKey::Mailbox(mailbox) => {
                let topic = context.mailboxes.topic();
                BusSubscription::Mailbox(self.attach(topic, mailbox.clone(), State::Mailbox))
            }
        }
    }

    fn attach<E: Event<Key = Name>>(
        self: &Arc<Self>,
        topic: &Topic<E>,
        key: Name,
        wrap: fn(E) -> State,
    ) -> bus::Subscription<E> {
        let turn = {
            let mut known = lock(&self.known);
            (known.turn, known.is_heard) = (known.turn + 1, false);
            known.turn
        };
        let feed = Arc::downgrade(self);
        // There is one key, whose newest event replaces one that waits, so one place is enough.
        let subscription = topic.subscribe().key(key).replay().conflate().capacity(1);
        // Without an executor, so that a watcher is told after one wait for a worker and not after two.
        subscription.name(self.describe()).start(move |delivery| {
            let Some(feed) = feed.upgrade() else { return };
            let state = match delivery {
                Delivery::Event(event, _) => Some(wrap(event.clone())),
                Delivery::Removed(..) => None,
                Delivery::Replayed => return feed.nothing_more_is_known(turn),
                // The cache brings what was lost.
                Delivery::Lost(_) => return,
            };
            feed.learn(turn, state);
        })
    }

    /// What it listens to, for people.
    fn describe(&self) -> String {
        match &self.key {
            FeedKey::Line(address) => format!("state of {address}"),
            FeedKey::Mailbox(mailbox) => format!("mailbox {mailbox}"),
        }
    }

    fn learn(self: &Arc<Self>, turn: u64, state: Option<State>) {
        let mut known = lock(&self.known);
        if known.turn == turn {
            (known.is_heard, known.state) = (true, Some(state));
            drop(known);
            self.tell_soon();
        }
    }

    /// The replay is over: what was not in it does not exist.
    fn nothing_more_is_known(self: &Arc<Self>, turn: u64) {
        if !lock(&self.known).is_heard {
            self.learn(turn, None);
        }
    }

    /// Tells few on the thread that publishes, which may hold the lock of a device; many, and lists, whose watchers may be many, in a
    /// turn of their own.
    fn tell_soon(self: &Arc<Self>) {
        if lock(&self.followers).are_few() {
            return self.tell();
        }
        if self.is_turn_pushed.swap(true, Ordering::AcqRel) {
            return;
        }
        let feed = self.clone();
        let tell = Task::labelled(&"to many watchers", move || {
            // What changes from here on has a turn of its own.
            feed.is_turn_pushed.swap(false, Ordering::AcqRel);
            feed.tell();
        });
        // Refused only when the server ends.
        let _ = self.serializer.execute_unbounded(tell);
    }

    fn tell(&self) {
        for watcher in self.watchers() {
            watcher.push_look();
        }
        for (hub, place) in self.lists() {
            hub.changed(place);
        }
    }

    /// To be dropped under no lock, as what is [listed](Self::lists).
    fn watchers(&self) -> Vec<Arc<Watcher>> {
        let followers = lock(&self.followers);
        followers
            .watchers
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// The lists that have this resource, and where. To be dropped under no lock: the last one
    /// to let go of a hub ends it.
    pub(super) fn lists(&self) -> Vec<(Arc<ListHub>, u32)> {
        let followers = lock(&self.followers);
        let alive = |follower: &Follower| Some((follower.hub.upgrade()?, follower.place));
        followers.lists.iter().filter_map(alive).collect()
    }
}

impl Followers {
    fn are_few(&self) -> bool {
        self.lists.is_empty() && self.watchers.len() <= FEW
    }
}

impl Drop for ResourceFeed {
    fn drop(&mut self) {
        if let Some(feeds) = self.feeds.upgrade() {
            feeds.forget_feed(&self.key);
        }
    }
}

/// So many are told while the lock of a device is held.
const FEW: usize = 16;
