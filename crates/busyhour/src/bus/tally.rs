use super::{Event, consumer::Subscriber, item::Item, panics::Panics};
use std::{mem, sync::Arc};

/// What became of an event's deliveries.
///
/// The two that a publisher is told are not neighbours, so that they are read
/// one by one: read as a pair right after one of them was written, they would
/// have to wait until that has reached the cache.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) delivered: u64,
    pub(super) conflated: u64,
    pub(super) lost: u64,
}

/// What one shard holds and has done.
#[derive(Clone, Copy, Default)]
pub(super) struct ShardStats {
    pub(super) counts: Counts,
    pub(super) published: u64,
    pub(super) refused: u64,
    pub(super) cached_count: u64,
    pub(super) retired_count: u64,
    pub(super) lagging_count: u64,
}

/// What a publish did.
pub(super) struct Tally<E: Event> {
    pub(super) counts: Counts,
    /// The version of the event in the cache.
    pub(super) version: u64,
    /// Since which version its key, or the one that was cleared, has its slot.
    pub(super) born: u64,
    /// The topic has no room for another key.
    pub(super) refused: bool,
    /// What is to do when no lock is held; usually nothing.
    afterwards: Option<Box<Afterwards<E>>>,
}

/// Dropping it does what is to do, so that nobody is forgotten when a callback
/// or a predicate panics.
struct Afterwards<E: Event> {
    wake: Vec<Arc<Subscriber<E>>>,
    drop: Vec<Item<E>>,
}

/// Where one offer is counted: for the shard, and for the publisher.
///
/// One by one rather than as a difference afterwards: the processor cannot
/// read two counters at once that were written a moment before, and waits.
pub(super) struct Books<'a, E: Event> {
    pub(super) counts: &'a mut Counts,
    pub(super) tally: &'a mut Tally<E>,
}

impl<E: Event> Books<'_, E> {
    #[inline(always)]
    pub(super) fn delivered(&mut self) {
        self.counts.delivered += 1;
        self.tally.counts.delivered += 1;
    }

    pub(super) fn lost(&mut self) {
        self.counts.lost += 1;
        self.tally.counts.lost += 1;
    }

    pub(super) fn conflated(&mut self) {
        self.counts.conflated += 1;
        self.tally.counts.conflated += 1;
    }
}

impl<E: Event> Tally<E> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            counts: Counts::default(),
            version: 0,
            born: 0,
            refused: false,
            afterwards: None,
        }
    }

    fn afterwards(&mut self) -> &mut Afterwards<E> {
        self.afterwards.get_or_insert_with(|| {
            let (wake, drop) = (Vec::new(), Vec::new());
            Box::new(Afterwards { wake, drop })
        })
    }

    /// Keeps what an event took the place of, until no lock is held.
    pub(super) fn drop_later(&mut self, replaced: impl IntoIterator<Item = Item<E>>) {
        self.afterwards().drop.extend(replaced);
    }

    #[cold]
    pub(super) fn wake(&mut self, subscriber: &Arc<Subscriber<E>>) {
        // The user's code that this thread runs before may publish, and must
        // not wait for a turn that is sent after it.
        if subscriber.mailbox().blocks() {
            subscriber.mailbox().expect_sending();
        }
        self.afterwards().wake.push(Arc::clone(subscriber));
    }

    /// Wakes whom it gave something to do until now. No lock may be held.
    pub(super) fn wake_so_far(&mut self) {
        drop(self.afterwards.take());
    }

    /// Wakes whom the publish gave something to do. No lock may be held.
    #[inline(always)]
    pub(super) fn wake_all(self) {
        match self.afterwards {
            None => mem::forget(self),
            Some(_) => drop(self),
        }
    }
}

impl<E: Event> Drop for Afterwards<E> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        for subscriber in mem::take(&mut self.wake) {
            if subscriber.mailbox().blocks() {
                subscriber.mailbox().sent();
            }
            panics.catch(|| subscriber.wake());
        }
        for replaced in self.drop.drain(..) {
            panics.drop(replaced);
        }
    }
}
