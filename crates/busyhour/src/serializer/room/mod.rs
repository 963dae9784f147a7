//! Futures that wait for room in a serializer's queue, and the places kept for
//! them. See README.md of the serializers, "Waiting for room".

mod permit;
mod room_queue;

pub use permit::{Permit, Reserve};
pub(super) use room_queue::RoomQueue;

use super::{Serializer, StatefulSerializer, core::Core, state::SerializerState};
use crate::{
    pool::PushError,
    sync::SpinGuard,
    task::{Overflow, Reason, Rejected, Task},
};
use std::{future::Future, sync::Arc, task::Waker};

impl Serializer {
    /// Waits, without blocking the thread, until the queue has room, and keeps
    /// a place there for one task, whatever the overflow policy is.
    ///
    /// Places are given in the order in which futures began to wait, and before
    /// threads that wait in [`push`](Self::push). If the future is dropped, it
    /// leaves no place behind; so does a [`Permit`] that is dropped.
    ///
    /// # Errors
    ///
    /// [`PushError::ShutDown`] once the pool or the group is shutting down.
    /// [`PushError::Full`] if this is awaited in an [exclusive
    /// section](Self::spawn_exclusive) that the queue cannot get room before.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").capacity(1).build().unwrap();
    /// let pushed = pool.spawn(async move {
    ///     let first = calls.reserve().await?;
    ///     assert!(calls.try_push(|| ()).is_err(), "the place is kept");
    ///     first.push(|| println!("first"))?;
    ///     calls.push_async(|| println!("second")).await
    /// });
    /// pushed.wait().unwrap().unwrap();
    /// ```
    #[doc(alias("permit", "semaphore", "back pressure", "poll_ready"))]
    pub fn reserve(&self) -> Reserve {
        Reserve::new(Arc::clone(&self.core))
    }

    /// Keeps a place in the queue for one task, if there is room now and nobody
    /// waits for it, whatever the overflow policy is. Nothing has to be made for
    /// a task that is refused.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`], or [`PushError::ShutDown`] once the pool or the
    /// group is shutting down. Both are counted as rejected.
    ///
    /// ```
    /// use busyhour::pool::{PushError, TaskPool};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").capacity(1).build().unwrap();
    /// let place = calls.try_reserve().unwrap();
    /// assert_eq!(calls.try_reserve().unwrap_err(), PushError::Full);
    /// let message = "made only when there is a place for it".to_owned();
    /// place.push(move || println!("{message}")).unwrap();
    /// ```
    #[doc(alias("try_acquire", "load shedding"))]
    pub fn try_reserve(&self) -> Result<Permit, PushError> {
        self.core.keep_place()?;
        Ok(Permit::new(Arc::clone(&self.core)))
    }

    /// Waits, without blocking the thread, until the queue has room, then
    /// queues `f`; see [`reserve`](Self::reserve).
    ///
    /// If the future is dropped before it is ready, `f` was not queued and is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Those of [`reserve`](Self::reserve).
    #[doc(alias("send", "send_async"))]
    pub fn push_async<F>(&self, f: F) -> impl Future<Output = Result<(), PushError>> + use<F>
    where
        F: FnOnce() + Send + 'static,
    {
        let reserve = self.reserve();
        async move { reserve.await?.push(f) }
    }
}

impl<S: Send + 'static> StatefulSerializer<S> {
    /// See [`Serializer::push_async`].
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::reserve`].
    pub fn push_async<F>(&self, f: F) -> impl Future<Output = Result<(), PushError>> + use<S, F>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        self.serializer.push_async(self.task(f))
    }
}

/// How far a future has come that waits for room.
enum RoomOutcome {
    /// A place is kept for it.
    Granted,
    /// It waits under its ticket.
    Waiting,
    Closed,
}

impl Core {
    /// The future again, or it is refused and dropped because it would find no
    /// room now: that must cost less than to make a task of it.
    pub(super) fn check_room<F>(&self, future: F) -> Result<F, PushError> {
        let state = self.state.lock();
        let is_full = !state.has_room() && state.overflow != Overflow::DropOldest;
        let is_refused = is_full && !state.is_closed();
        drop(state);
        if !is_refused || !self.pool().admits() {
            return Ok(future);
        }
        self.count_refused();
        self.pool().isolate(|| drop(future));
        Err(PushError::Full)
    }

    /// Keeps a place, if there is one now and nobody waits for it.
    fn keep_place(&self) -> Result<(), PushError> {
        let mut state = self.state.lock();
        let is_open = !state.is_closed() && self.pool().admits();
        let is_kept = is_open && state.has_room() && state.rare().room.keep();
        drop(state);
        if is_kept {
            return Ok(());
        }
        self.count_refused();
        Err(match is_open {
            true => PushError::Full,
            false => PushError::ShutDown,
        })
    }

    fn count_refused(&self) {
        self.count(|named_state| &named_state.rejected, 1);
        self.pool().thread_context().count_rejected();
    }

    /// `waker` is woken when there is a place, unless there is one now. `ticket`
    /// is that of the future, once it waits.
    fn poll_room(&self, ticket: &mut Option<u64>, waker: Waker) -> RoomOutcome {
        let mut state = self.state.lock();
        if state.is_closed() || !self.pool().admits() {
            drop(state);
            return RoomOutcome::Closed;
        }
        let has_room = state.has_room();
        let room = &mut state.rare().room;
        let (outcome, unused) = match ticket {
            None if has_room && room.keep() => (RoomOutcome::Granted, Some(waker)),
            None => {
                *ticket = Some(room.wait(waker));
                (RoomOutcome::Waiting, None)
            }
            Some(ticket) => match room.still_waits(*ticket, waker) {
                Ok(replaced) => (RoomOutcome::Waiting, Some(replaced)),
                Err(waker) => (RoomOutcome::Granted, Some(waker)),
            },
        };
        drop(state);
        // Foreign code.
        drop(unused);
        outcome
    }

    /// Gives up a ticket, or the place that it has got.
    fn leave_room(&self, ticket: u64) {
        let mut state = self.state.lock();
        let waker = state.rare().room.leave(ticket);
        self.leave(state);
        drop(waker);
    }

    /// Gives a kept place back.
    fn give_place_back(&self) {
        let mut state = self.state.lock();
        state.rare().room.give_back();
        self.leave(state);
    }

    /// Queues a task in a kept place.
    fn push_in_place(self: &Arc<Self>, task: Task) -> Result<(), Rejected> {
        let pushing = self.begin_push();
        let context = self.pool().thread_context();
        let now = context.now();
        let admitted = self.pool().admits();
        let mut state = self.state.lock();
        state.rare().room.give_back();
        if state.is_closed() || !admitted {
            self.leave(state);
            return Err(self.refuse(task, Reason::ShutDown));
        }
        state.append(now, || task);
        context.count_pushed();
        drop(pushing);
        self.after_change(state, context);
        Ok(())
    }

    /// The wakers of those that now have a place, or that wait in vain.
    pub(super) fn grant_room(state: &mut SpinGuard<'_, SerializerState>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        if !state.is_rare() {
            return wakers;
        }
        if state.is_closed() {
            return state.rare().room.end();
        }
        while state.has_room() {
            match state.rare().room.grant() {
                Some(waker) => wakers.push(waker),
                None => break,
            }
        }
        wakers
    }
}
