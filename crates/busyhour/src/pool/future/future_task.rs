//! A future that is an entity of its own. See README.md, "Futures".

use std::{
    any::Any,
    future::Future,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Wake, Waker},
    thread,
};

use super::join::{self, JoinError, JoinHandle, JoinState, Joinable};
use crate::{
    pool::{
        Unfinished,
        context::{self, SelfWake, in_turn_of},
        entity::{Entity, Runs, ShareCell, Token},
        shared::Shared,
        worker::TimeSlice,
    },
    run_queue::Class,
    stats::SerializerStats,
    sync::{
        UnsafeCell,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

/// Spawns `future` as an entity of `class`.
pub(in crate::pool) fn spawn_as<F>(
    pool: &Arc<Shared>,
    class: Class,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    pool.thread_context().count_spawned();
    let outcome = Arc::new(JoinState::default());
    let future_task = Arc::new(FutureTask {
        share: ShareCell::new::<FutureTask<F>>(pool.new_sched_state(class)),
        pool: Arc::clone(pool),
        progress: AtomicU8::new(ASLEEP),
        is_aborted: AtomicBool::new(false),
        future: UnsafeCell::new(Some(Box::pin(future))),
        outcome: Arc::clone(&outcome),
    });
    if pool.admits() {
        future_task.wake_by_ref();
    } else {
        pool.thread_context().count_rejected();
    }
    let joinable: Weak<dyn Joinable> = Arc::<FutureTask<F>>::downgrade(&future_task);
    JoinHandle::new(outcome, joinable)
}

/// The future and its state. Only the holder of the token accesses the future.
#[repr(C)]
struct FutureTask<F: Future> {
    share: ShareCell,
    pool: Arc<Shared>,
    progress: AtomicU8,
    is_aborted: AtomicBool,
    future: UnsafeCell<Option<Pin<Box<F>>>>,
    outcome: Arc<JoinState<F::Output>>,
}

/// There is no token: the next wake creates it.
const ASLEEP: u8 = 0;
/// The token is in a queue, or on its way there.
const QUEUED: u8 = 1;
/// The holder of the token polls, or has polled and was queued again.
const POLLING: u8 = 2;
/// Like `POLLING`, and another thread woke it meanwhile: it will be queued
/// again.
const WOKEN: u8 = 3;
/// The future was dropped.
const DONE: u8 = 4;

// SAFETY: `progress` makes one token at a time, and only its holder reaches the
// future, which may change threads.
unsafe impl<F: Future + Send> Sync for FutureTask<F> where F::Output: Send {}
// SAFETY: as above; all else in it is shared freely.
unsafe impl<F: Future + Send> Send for FutureTask<F> where F::Output: Send {}

impl<F> FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Creates the token, unless it exists or is no longer needed. By a pointer and not by a
    /// reference to an `Arc`, for which the wake of a future that wakes itself would have to
    /// store one.
    ///
    /// # Safety
    ///
    /// - `this` is that of an `Arc`, to which the caller has a reference.
    #[inline(never)]
    unsafe fn wake_from_elsewhere(this: *const Self) {
        // SAFETY: by contract.
        let task = unsafe { &*this };
        if step_of_wake(&task.progress) == ASLEEP {
            // SAFETY: by contract; one more reference is counted for the token. There is no
            // other token: the future task was asleep, and is queued now.
            let token = unsafe {
                Arc::increment_strong_count(this);
                Token::new(Arc::from_raw(this))
            };
            task.schedule(token);
        }
    }

    /// Queues the token, or ends the future if no worker will run it any more.
    fn schedule(&self, token: Token) {
        if self.pool.is_sealed() {
            return self.end(JoinError::Dropped);
        }
        self.pool.thread_context().count_pushed();
        self.pool.thread_context().schedule(token);
    }

    /// Polls once; the caller holds the token.
    #[inline(always)]
    fn poll(&self, token: &Token) -> Polled {
        begin_poll(&self.progress);
        if self.is_aborted.load(Ordering::Acquire) {
            return Polled::aborted();
        }
        let waker = self.borrowed_waker(token);
        let mut context = Context::from_waker(&waker);
        let self_wake = SelfWake::expect(std::ptr::from_ref(self).addr());
        let polled = self.future.with_mut(|future| {
            // SAFETY: the token is here, so nobody else reaches the future.
            let future = unsafe { &mut *future };
            let future = future.as_mut()?;
            let poll = || future.as_mut().poll(&mut context);
            Some(self.pool.in_poll_context(poll))
        });
        match polled {
            Some(Poll::Pending) if self_wake.came() => Polled::Yielded,
            Some(Poll::Pending) => Polled::Pending,
            Some(Poll::Ready(output)) => {
                self.end_with(Ok(output));
                Polled::Ready
            }
            None => Polled::Ready,
        }
    }

    /// A waker without a reference of its own: while it is lent, the token's
    /// reference is enough.
    fn borrowed_waker(&self, token: &Token) -> ManuallyDrop<Waker> {
        let this = token.as_ptr().cast::<Self>();
        // SAFETY: the token is this future task's, so the pointer is that of an `Arc`
        // of it, which lives as long as the token; `ManuallyDrop` keeps its
        // count as it is.
        ManuallyDrop::new(Waker::from(unsafe { Arc::from_raw(this) }))
    }

    /// Ends the future; the caller holds the token. `error` becomes the result
    /// if there is none yet.
    fn end(&self, error: JoinError) {
        self.progress.store(DONE, Ordering::Release);
        self.end_with(Err(error));
    }

    fn end_with(&self, result: Result<F::Output, JoinError>) {
        // SAFETY: the caller holds the token, so nobody else reaches the future.
        let future = unsafe { self.take_future() };
        join::end(&self.pool, future, &self.outcome, result);
    }

    /// Whether it must be queued again.
    #[inline(always)]
    fn run_once(&self, token: &Token, turn: &mut TimeSlice<'_, '_>) -> bool {
        debug_assert!(self.pool.is_outside_of_biased_locks());
        let polled = catch_unwind(AssertUnwindSafe(|| self.poll(token)));
        if let Ok(Polled::Yielded) = polled {
            // The word stays as it is: the next poll must see the last write to it.
            turn.end_task_and_push(&self.pool);
            return true;
        }
        self.end_turn(polled, token, turn)
    }

    /// What follows a poll that did not yield; whether the future must be queued again. Cold,
    /// so that a poll that yielded needs no jump.
    #[cold]
    fn end_turn(
        &self,
        polled: thread::Result<Polled>,
        token: &Token,
        turn: &mut TimeSlice<'_, '_>,
    ) -> bool {
        let context = turn.thread_context(&self.pool);
        if polled.is_err() {
            // Its payload is the handle's.
            context.count_panic(Box::new(()));
        }
        context.end_task();
        match polled {
            Ok(Polled::Yielded) => unreachable!("its turn has ended already"),
            Ok(Polled::Pending) => return self.fall_asleep(token, turn),
            Ok(Polled::Ready) => self.end(JoinError::Aborted),
            Err(payload) => self.end(JoinError::panicked(payload)),
        }
        turn.charge(token);
        false
    }

    /// Gives the token up, unless the future was woken meanwhile.
    fn fall_asleep(&self, token: &Token, turn: &mut TimeSlice<'_, '_>) -> bool {
        turn.charge(token);
        let is_woken = !end_of_poll(&self.progress);
        if is_woken {
            self.pool.thread_context().count_pushed();
        }
        is_woken
    }
}

impl<F: Future> FutureTask<F> {
    /// # Safety
    ///
    /// - Nobody else reaches the future meanwhile.
    unsafe fn take_future(&self) -> Option<Pin<Box<F>>> {
        // SAFETY: by contract.
        self.future
            .with_mut(|future| unsafe { &mut *future }.take())
    }
}

/// How the begin of a poll changes the word. After a poll that yielded it is
/// still `POLLING`, and need not be written: a wake that this load misses has
/// left `WOKEN`, which the end of the poll will find.
#[inline]
fn begin_poll(progress: &AtomicU8) {
    if progress.load(Ordering::Relaxed) != POLLING {
        let before = progress.swap(POLLING, Ordering::AcqRel);
        debug_assert!(matches!(before, QUEUED | WOKEN), "who polls has the token");
    }
}

/// How a wake changes the word; returns the old value. Every path writes the
/// word, so the next poll sees what was done before the wake.
#[inline]
fn step_of_wake(progress: &AtomicU8) -> u8 {
    let mut seen = progress.load(Ordering::Relaxed);
    loop {
        let next = match seen {
            ASLEEP => QUEUED,
            POLLING => WOKEN,
            other => other,
        };
        match progress.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(before) => return before,
            Err(now) => seen = now,
        }
    }
}

/// How the end of a poll that is pending changes the word; returns whether the
/// future task sleeps now. If not, it was woken meanwhile and must be queued
/// again; the word stays as it is, so that the next poll reads what the last
/// wake wrote.
#[inline]
fn end_of_poll(progress: &AtomicU8) -> bool {
    progress
        .compare_exchange(POLLING, ASLEEP, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

enum Polled {
    Ready,
    /// It waits for a wake.
    Pending,
    /// It woke itself, on this thread.
    Yielded,
}

impl Polled {
    /// Cold, so that other polls need no jump.
    #[cold]
    fn aborted() -> Self {
        Self::Ready
    }
}

impl<F> Wake for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        if !context::note_self_wake(Arc::as_ptr(self).addr()) {
            // SAFETY: it is that of the caller's `Arc`.
            unsafe { Self::wake_from_elsewhere(Arc::as_ptr(self)) };
        }
    }
}

impl<F> Joinable for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// The result is known at once; the future is dropped in its next turn.
    fn abort(self: Arc<Self>) {
        self.is_aborted.store(true, Ordering::Release);
        self.wake_by_ref();
        drop(self.outcome.fill(Err(JoinError::Aborted)));
    }

    fn wake_now(self: Arc<Self>) {
        self.wake();
    }

    fn pool(&self) -> &Arc<Shared> {
        &self.pool
    }

    fn entity(self: Arc<Self>) -> Option<Arc<dyn Entity>> {
        Some(self)
    }
}

// SAFETY: it is `repr(C)`, begins with the share of its type, and `spawn` puts
// it into an `Arc`.
unsafe impl<F> Runs for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// One poll per turn: a future that yields wants others to run.
    fn run(&self, token: &Token, turn: &mut TimeSlice<'_, '_>) -> bool {
        turn.count_started(&self.pool);
        in_turn_of(token.entity_ref(), || self.run_once(token, turn))
    }
}

impl<F> Entity for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn name(&self) -> String {
        "(future)".to_owned()
    }

    fn stats(&self) -> SerializerStats {
        SerializerStats {
            name: self.name(),
            ..SerializerStats::default()
        }
    }

    fn unfinished(&self) -> Option<Unfinished> {
        None
    }

    fn abandon(&self) -> u64 {
        self.pool.thread_context().count_abandoned(1);
        self.end(JoinError::Dropped);
        1
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<F: Future> Drop for FutureTask<F> {
    /// No waker is left that could wake it.
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        let future = unsafe { self.take_future() };
        join::end(&self.pool, future, &self.outcome, Err(JoinError::Dropped));
        self.pool.thread_context().count_freed();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc as LoomArc;

    /// Only the word: how a wake and the end of a poll change it, and an event
    /// that the wake announces. Forbidden: the event has happened, the future
    /// task sleeps, and no token was created.
    struct ModelWord {
        progress: AtomicU8,
        event: AtomicBool,
    }

    impl ModelWord {
        /// Whether the waker created the token.
        fn wake(&self) -> bool {
            self.event.store(true, Ordering::Relaxed);
            step_of_wake(&self.progress) == ASLEEP
        }

        /// One poll that waits for the event, by the holder of the token;
        /// returns whether the event happened, or `None` if the future task
        /// fell asleep.
        fn poll(&self) -> Option<bool> {
            begin_poll(&self.progress);
            let came = self.event.load(Ordering::Relaxed);
            if !came && end_of_poll(&self.progress) {
                return None;
            }
            Some(came)
        }
    }

    #[test]
    fn loom_a_future_sleeps_through_no_wake() {
        check(QUEUED);
    }

    /// Its previous poll yielded.
    #[test]
    fn loom_a_future_that_yielded_sleeps_through_no_wake() {
        check(POLLING);
    }

    fn check(progress: u8) {
        loom::model(move || {
            let word = LoomArc::new(ModelWord {
                progress: AtomicU8::new(progress),
                event: AtomicBool::new(false),
            });
            let waker = {
                let word = LoomArc::clone(&word);
                loom::thread::spawn(move || word.wake())
            };
            let mut polled = word.poll();
            if polled == Some(false) {
                // It was woken during the poll and is queued again.
                polled = word.poll();
            }
            let made_token = waker.join().unwrap();
            assert_eq!(
                polled.is_none(),
                made_token,
                "exactly one of the two goes on"
            );
            if made_token {
                assert_eq!(word.poll(), Some(true), "the wake's event is seen");
            }
        });
    }
}
