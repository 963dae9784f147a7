use super::{
    Event,
    delivery::{Item, Subscriber},
    nodes::Parts,
    panics::Panics,
};
use std::{mem, sync::Arc};

/// Counts of an event's deliveries, by result.
///
/// The two that a publisher gets are not neighbours, so that the processor
/// reads them one by one. Read as a pair right after one of them was written,
/// they would have to wait until that write has reached the cache.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) delivered: u64,
    pub(super) conflated: u64,
    pub(super) lost: u64,
}

/// Statistics of one shard.
#[derive(Clone, Copy, Default)]
pub(super) struct ShardStats {
    pub(super) counts: Counts,
    pub(super) published: u64,
    pub(super) refused: u64,
    pub(super) cached_count: u64,
    pub(super) retired_count: u64,
    pub(super) lagging_count: u64,
}

/// The result of a publish, and the work that is left for after the lock.
pub(super) struct PublishResult<E: Event> {
    pub(super) counts: Counts,
    /// The version of the event in the cache.
    pub(super) version: u64,
    /// The version at which the key of the event or removal got its slot.
    pub(super) born: u64,
    /// The topic has no room for another key.
    pub(super) refused: bool,
    /// The key's last value is not the one that was expected: nothing was
    /// published.
    pub(super) is_outdated: bool,
    /// Work for when no lock is held; usually none.
    afterwards: AfterUnlock<E>,
}

/// Dropping it does the work, so that no subscriber is forgotten when a
/// callback or a predicate panics.
struct AfterUnlock<E: Event> {
    /// The first subscriber to wake. Mostly it is the only one, and needs no
    /// allocation.
    first: Option<Arc<Subscriber<E>>>,
    more: Option<Box<More<E>>>,
}

struct More<E: Event> {
    wake: Vec<Arc<Subscriber<E>>>,
    drop: Vec<Item<E>>,
    parts: Vec<Parts<E>>,
}

/// Counts one offer for the shard and for the publisher.
///
/// It increments counters one by one; it does not compute a difference
/// afterwards, since the processor cannot read two counters at once that were
/// written a moment before, and would wait.
pub(super) struct DeliveryCounters<'a, E: Event> {
    pub(super) counts: &'a mut Counts,
    pub(super) result: &'a mut PublishResult<E>,
}

impl<E: Event> DeliveryCounters<'_, E> {
    #[inline(always)]
    pub(super) fn delivered(&mut self) {
        self.counts.delivered += 1;
        self.result.counts.delivered += 1;
    }

    pub(super) fn lost(&mut self) {
        self.counts.lost += 1;
        self.result.counts.lost += 1;
    }

    pub(super) fn conflated(&mut self) {
        self.counts.conflated += 1;
        self.result.counts.conflated += 1;
    }
}

impl<E: Event> PublishResult<E> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            counts: Counts::default(),
            version: 0,
            born: 0,
            refused: false,
            is_outdated: false,
            afterwards: AfterUnlock::NOTHING,
        }
    }

    /// Keeps items that an event replaced, until no lock is held.
    pub(super) fn drop_later(&mut self, replaced: impl IntoIterator<Item = Item<E>>) {
        self.afterwards.more().drop.extend(replaced);
    }

    /// Keeps replaced lists of nodes' states, until no lock is held.
    pub(super) fn drop_parts_later(&mut self, parts: impl IntoIterator<Item = Parts<E>>) {
        self.afterwards.more().parts.extend(parts);
    }

    pub(super) fn wake(&mut self, subscriber: &Arc<Subscriber<E>>) {
        // User code that this thread runs before the wake-up may publish. It
        // must not wait for the turn, which this thread sends only afterwards.
        if subscriber.mailbox().blocks() {
            subscriber.mailbox().expect_sending();
        }
        let subscriber = Arc::clone(subscriber);
        match self.afterwards.first {
            None => self.afterwards.first = Some(subscriber),
            Some(_) => self.afterwards.more().wake.push(subscriber),
        }
    }

    /// Wakes the subscribers that got something to do so far. No lock may be
    /// held.
    pub(super) fn wake_so_far(&mut self) {
        drop(mem::replace(&mut self.afterwards, AfterUnlock::NOTHING));
    }

    /// Wakes the subscribers that got something to do. No lock may be held.
    #[inline(always)]
    pub(super) fn wake_all(self) {
        match self.afterwards.is_nothing() {
            true => mem::forget(self),
            false => drop(self),
        }
    }
}

impl<E: Event> AfterUnlock<E> {
    const NOTHING: Self = Self {
        first: None,
        more: None,
    };

    #[inline(always)]
    fn is_nothing(&self) -> bool {
        self.first.is_none() && self.more.is_none()
    }

    #[cold]
    fn more(&mut self) -> &mut More<E> {
        self.more.get_or_insert_with(|| {
            let (wake, drop, parts) = (Vec::new(), Vec::new(), Vec::new());
            Box::new(More { wake, drop, parts })
        })
    }

    #[inline(never)]
    fn do_all(&mut self) {
        let mut panics = Panics::default();
        let more = self.more.take();
        if let Some(first) = self.first.take() {
            wake(first, &mut panics);
        }
        if let Some(more) = more {
            more.do_all(&mut panics);
        }
    }
}

impl<E: Event> Drop for AfterUnlock<E> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_nothing() {
            self.do_all();
        }
    }
}

impl<E: Event> More<E> {
    #[cold]
    fn do_all(self, panics: &mut Panics) {
        for subscriber in self.wake {
            wake(subscriber, panics);
        }
        for replaced in self.drop {
            panics.drop(replaced);
        }
        for parts in self.parts {
            panics.drop(parts);
        }
    }
}

fn wake<E: Event>(subscriber: Arc<Subscriber<E>>, panics: &mut Panics) {
    if subscriber.mailbox().blocks() {
        subscriber.mailbox().sent();
    }
    panics.catch(|| subscriber.wake());
}
