//! Futures that wait for room in a mailbox. See README.md of the bus, "Room for
//! futures".

use super::{consumer::Subscriber, mailbox::Mailbox};
use crate::{
    bus::Event,
    pool::Section,
    sync::atomic::Ordering,
    task::{Executor, isolate},
};
use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    sync::Arc,
    task::{Poll, Waker},
};

/// Who waits, in the order of arrival, each with its waker until it is woken.
#[derive(Default)]
pub(super) struct RoomWaiters {
    by_ticket: BTreeMap<u64, Option<Waker>>,
    ticket_count: u64,
}

impl RoomWaiters {
    /// Waits behind the others, or goes on waiting; returns a replaced waker.
    fn wait(&mut self, ticket: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let ticket = *ticket.get_or_insert_with(|| {
            self.ticket_count += 1;
            self.ticket_count
        });
        self.by_ticket.insert(ticket, Some(waker)).flatten()
    }

    /// The waker of the first that was not woken yet.
    fn first(&mut self) -> Option<Waker> {
        self.by_ticket.values_mut().find_map(Option::take)
    }
}

impl<E: Event> Mailbox<E> {
    fn has_room_now(&self) -> bool {
        // This takes the lock: a change that was made under it before is seen,
        // and who makes one later sees that somebody waits.
        let _under_the_lock = self.is_scheduled();
        !self.is_full() || self.is_closed()
    }

    /// Wakes one future, after room was made. No lock may be held.
    #[cold]
    pub(super) fn wake_one(&self) {
        let waker = self.room_waiters.lock().first();
        if let Some(waker) = waker {
            let _panicked = isolate(|| waker.wake());
        }
    }
}

/// Waits for room in the mailbox of one subscriber, with a place among those
/// that wait until it is dropped.
pub(in crate::bus) struct RoomWait<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    ticket: Option<u64>,
}

impl<E: Event> RoomWait<E> {
    pub(in crate::bus) fn new(subscriber: Arc<Subscriber<E>>) -> Self {
        Self {
            subscriber,
            ticket: None,
        }
    }

    pub(in crate::bus) fn is_for(&self, subscriber: &Arc<Subscriber<E>>) -> bool {
        Arc::ptr_eq(&self.subscriber, subscriber)
    }

    /// `false` if the wait would never end.
    pub(in crate::bus) fn room(&mut self) -> impl Future<Output = bool> + Send + '_ {
        poll_fn(|context| self.poll(context.waker().clone()))
    }

    fn poll(&mut self, waker: Waker) -> Poll<bool> {
        let mailbox = self.subscriber.mailbox();
        if self.ticket.is_none() {
            mailbox.waiting_count.fetch_add(1, Ordering::SeqCst);
        }
        // An expression of its own, so that the old waker is dropped unlocked.
        let replaced = mailbox.room_waiters.lock().wait(&mut self.ticket, waker);
        drop(replaced);
        if mailbox.has_room_now() {
            return Poll::Ready(true);
        }
        match self.keeps_executor() || !self.subscriber.revive() {
            true => Poll::Ready(false),
            false => Poll::Pending,
        }
    }

    /// Whether an exclusive section that is polled now keeps the executor that
    /// would make room.
    fn keeps_executor(&self) -> bool {
        let executor = self.subscriber.executor();
        let Some(executor) = executor.filter(|_| Section::current().is_some()) else {
            return false;
        };
        let mut may_wait = false;
        executor.blocking(&mut || may_wait = true);
        !may_wait
    }
}

impl<E: Event> Drop for RoomWait<E> {
    /// Another one may use the room for which this one was woken.
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mailbox = self.subscriber.mailbox();
        let waker = mailbox.room_waiters.lock().by_ticket.remove(&ticket);
        drop(waker);
        mailbox.waiting_count.fetch_sub(1, Ordering::SeqCst);
        if mailbox.has_room_now() {
            mailbox.wake_one();
        }
    }
}
