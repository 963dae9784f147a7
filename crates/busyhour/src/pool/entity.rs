//! What a worker can run besides plain tasks.

use std::{any::Any, cell::UnsafeCell, marker::PhantomData, mem, ptr::NonNull, sync::Arc};

use super::{Unfinished, queue::Runnable, worker::TimeSlice};
use crate::{
    run_queue::{Class, Priority, QueueEnd, RealTimePriority, RunQueue, SchedState},
    stats::SerializerStats,
    sync::runtime::atomic::{AtomicU32, Ordering},
};

/// A queue of tasks that runs one at a time. Serializers are entities; the pool
/// knows them only by this trait, so that the dependency has one direction.
pub(crate) trait Entity: Any + Send + Sync {
    /// The name in diagnostics.
    fn name(&self) -> String;
    /// The statistics for the list of serializers.
    fn stats(&self) -> SerializerStats;
    /// The running task, if there is one and the entity has a name.
    fn unfinished(&self) -> Option<Unfinished>;
    /// Refuses all further tasks and drops the waiting ones; returns how many.
    fn abandon(&self) -> u64;
    /// For [`downcast`]. (Rust 1.85 does not know the supertrait's pointer by
    /// itself.)
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// An entity of a known type that a worker can run.
///
/// # Safety
///
/// - It is `repr(C)`, its first field is a [`ShareCell`] made for its own type,
///   and it lives in an `Arc`.
pub(crate) unsafe trait Runs: Entity + Sized {
    /// Runs tasks as long as `turn` allows. Returns `true` if there are more to
    /// run; otherwise the turn was charged and the token is used up.
    fn run(&self, token: &Token, turn: &mut TimeSlice<'_, '_>) -> bool;
}

/// The concrete entity behind the trait.
pub(crate) fn downcast<E: Entity>(entity: Arc<dyn Entity>) -> Option<Arc<E>> {
    entity.into_any().downcast().ok()
}

/// The right to run an entity, and its place in the run queues. An entity has
/// at most one; see README.md, "The token".
///
/// It holds a reference to the entity in one word. Tokens are moved often, and
/// larger values are moved through memory, where a processor that reads what it
/// has just written has to wait. Tokens are not `Sync`, so the owner of a token
/// is the only one to access the entity's share.
pub(crate) struct Token(NonNull<ShareCell>);

// SAFETY: entities may change threads, and nobody reaches the share but by the token.
unsafe impl Send for Token {}

impl Token {
    /// # Safety
    ///
    /// - No other token of `entity` exists, but one that is spent.
    #[inline(always)]
    pub(crate) unsafe fn new<E: Runs>(entity: Arc<E>) -> Self {
        // SAFETY: a pointer into an `Arc` is not null.
        Self(unsafe { NonNull::new_unchecked(Arc::into_raw(entity).cast_mut()) }.cast())
    }

    /// Runs the entity's tasks as long as `turn` allows; returns the token if
    /// there are more.
    #[inline(always)]
    pub(super) fn run(self, turn: &mut TimeSlice<'_, '_>) -> Option<Self> {
        let run = self.code().run;
        // SAFETY: the code is that of the entity's type.
        unsafe { run(self, turn) }
    }

    /// The entity, for the lifetime of the token.
    #[inline(always)]
    pub(crate) fn entity_ref(&self) -> EntityRef<'_> {
        EntityRef(self.0, PhantomData)
    }

    /// Drops the entity's tasks: the pool is sealed, so no worker will run them.
    #[cold]
    pub(super) fn abandon(&self) {
        self.entity().abandon();
    }

    fn entity(&self) -> &dyn Entity {
        // SAFETY: the token keeps the entity.
        unsafe { &*self.entity_ref().as_dyn() }
    }

    /// The entity's address, as in its `Arc`.
    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// Queues the entity for its next turn.
    #[inline(always)]
    pub(super) fn wake(self, queue: &mut RunQueue<Runnable>) {
        // SAFETY: the token, and with it the entity, goes into the queue, which
        // outlives the borrow and does not look into the token.
        let sched_state = unsafe { &mut (*self.share()).sched_state };
        self.cell().change_class(sched_state, queue);
        queue.wake(Runnable::Entity(self), sched_state, QueueEnd::Back);
    }

    /// Charges the entity, queues it again and takes out the next entity to
    /// run.
    #[inline(always)]
    pub(super) fn switch(self, queue: &mut RunQueue<Runnable>, ran_ns: u64) -> Runnable {
        // SAFETY: as in `wake`; the borrow is over before the next is run.
        let sched_state = unsafe { &mut (*self.share()).sched_state };
        self.cell().change_class(sched_state, queue);
        queue.switch_after(Runnable::Entity(self), sched_state, ran_ns)
    }

    /// Runs `work` on the entity's share of the workers; `work` must not access
    /// this token.
    #[inline(always)]
    pub(super) fn with_share<R>(&self, work: impl FnOnce(&mut Share) -> R) -> R {
        // SAFETY: there is one token, on this thread, and `work` does not come here.
        work(unsafe { &mut *self.share() })
    }

    #[inline(always)]
    fn share(&self) -> *mut Share {
        self.cell().share.get()
    }

    #[inline(always)]
    fn code(&self) -> &'static EntityCode {
        self.cell().code
    }

    #[inline(always)]
    fn cell(&self) -> &ShareCell {
        // SAFETY: the token keeps the entity, and the cell is its first field.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: the reference that the token held is given up, once.
        drop(unsafe { Arc::from_raw(self.entity_ref().as_dyn()) });
    }
}

/// A reference to an entity for `'a`, in one word.
#[derive(Clone, Copy)]
pub(crate) struct EntityRef<'a>(NonNull<ShareCell>, PhantomData<&'a ShareCell>);

impl<'a> EntityRef<'a> {
    pub(crate) fn of<E: Runs>(entity: &'a Arc<E>) -> Self {
        // SAFETY: a pointer into an `Arc` is not null.
        let entity = unsafe { NonNull::new_unchecked(Arc::as_ptr(entity).cast_mut()) };
        Self(entity.cast(), PhantomData)
    }

    /// Erases the lifetime, for storage in a thread-local.
    #[inline(always)]
    pub(super) fn as_ptr(self) -> *const ShareCell {
        self.0.as_ptr()
    }

    /// # Safety
    ///
    /// - `remembered` came from `as_ptr`, or is null, and the entity is alive.
    pub(super) unsafe fn from_ptr(remembered: *const ShareCell) -> Option<Self> {
        NonNull::new(remembered.cast_mut()).map(|cell| Self(cell, PhantomData))
    }

    /// The scheduling state of a child, which shares the entity's counter.
    ///
    /// # Safety
    ///
    /// - This thread holds the entity's token, and nothing borrows its share.
    pub(super) unsafe fn fork(self, queue: &RunQueue<Runnable>, class: Class) -> SchedState {
        // SAFETY: by contract.
        let share = unsafe { &mut *self.0.as_ref().share.get() };
        queue.fork(&mut share.sched_state, class)
    }

    /// A new `Arc` of the entity.
    pub(super) fn to_arc(self) -> Arc<dyn Entity> {
        let entity = self.as_dyn();
        // SAFETY: it is that of an `Arc`, which is alive; one more is counted for ours.
        unsafe {
            Arc::increment_strong_count(entity);
            Arc::from_raw(entity)
        }
    }

    #[inline(always)]
    fn as_dyn(self) -> *const dyn Entity {
        // SAFETY: the entity is there, the cell is its first field, and the
        // code is that of its type.
        unsafe { (self.0.as_ref().code.as_dyn)(self.0) }
    }
}

/// The methods of an entity whose type was erased.
#[derive(Debug)]
struct EntityCode {
    run: unsafe fn(Token, &mut TimeSlice<'_, '_>) -> Option<Token>,
    as_dyn: unsafe fn(NonNull<ShareCell>) -> *const dyn Entity,
}

impl EntityCode {
    /// # Safety
    ///
    /// - The token is one of an `E`.
    unsafe fn run<E: Runs>(token: Token, turn: &mut TimeSlice<'_, '_>) -> Option<Token> {
        let entity = token.0.cast::<E>().as_ptr();
        // SAFETY: by contract; the token keeps the entity meanwhile.
        if unsafe { &*entity }.run(&token, turn) {
            return Some(token);
        }
        mem::forget(token);
        // SAFETY: the reference that the token held is given up, once.
        drop(unsafe { Arc::from_raw(entity) });
        None
    }

    /// # Safety
    ///
    /// - `cell` is the first field of an `E`.
    unsafe fn as_dyn<E: Runs>(cell: NonNull<ShareCell>) -> *const dyn Entity {
        cell.cast::<E>().as_ptr()
    }
}

/// An entity's share of the workers.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pub(crate) sched_state: SchedState,
    /// Log2 of the number of tasks that it may run in a turn.
    pub(super) allowance_log2: u8,
}

/// Holds a [`Share`] inside the entity, accessible to the holder of the token,
/// with the methods of the entity's type.
#[derive(Debug)]
pub(crate) struct ShareCell {
    share: UnsafeCell<Share>,
    /// The class to change to, in one word; 0 for none. Any thread writes it;
    /// only the holder of the token takes it, before it queues the entity.
    new_class: AtomicU32,
    code: &'static EntityCode,
}

// SAFETY: only the holder of the entity's token, of which there is one, reaches the share.
unsafe impl Sync for ShareCell {}

impl ShareCell {
    /// The share of an `E`.
    pub(crate) fn new<E: Runs>(sched_state: SchedState) -> Self {
        let allowance_log2 = 0;
        Self {
            share: UnsafeCell::new(Share {
                sched_state,
                allowance_log2,
            }),
            new_class: AtomicU32::new(0),
            code: const {
                &EntityCode {
                    run: EntityCode::run::<E>,
                    as_dyn: EntityCode::as_dyn::<E>,
                }
            },
        }
    }

    /// Changes the class when the entity is queued next. Nothing else is read
    /// after the word, so it needs no order.
    pub(crate) fn set_class(&self, class: Class) {
        let word = match class {
            Class::Normal(priority) => u32::from(priority.get()),
            Class::RealTime(priority) => REAL_TIME + u32::from(priority.get()),
        };
        self.new_class.store(word, Ordering::Relaxed);
    }

    /// Moves the entity, which is not queued, to the class that was set last.
    #[inline(always)]
    fn change_class(&self, sched_state: &mut SchedState, queue: &RunQueue<Runnable>) {
        if self.new_class.load(Ordering::Relaxed) != 0 {
            self.take_class(sched_state, queue);
        }
    }

    /// The epochs until now count at the old priority.
    #[cold]
    fn take_class(&self, sched_state: &mut SchedState, queue: &RunQueue<Runnable>) {
        let word = self.new_class.swap(0, Ordering::Relaxed);
        let class = match word.checked_sub(REAL_TIME) {
            Some(priority) => Class::RealTime(RealTimePriority::new(priority as u8)),
            None => Class::Normal(Priority::new(word as u8)),
        };
        if sched_state.ran_on().is_some() {
            queue.sync_epoch(sched_state);
        }
        sched_state.set_class(class);
    }
}

/// Above every normal priority.
const REAL_TIME: u32 = 100;
