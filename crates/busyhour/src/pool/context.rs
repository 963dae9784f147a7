//! What a thread knows about the task it is running.

use std::{
    cell::Cell,
    marker::PhantomData,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{entity::Entity, shared::Shared};

thread_local! {
    static NUMBER: usize = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    static CONTEXT: Cell<Context> = const { Cell::new(Context::NONE) };
    /// The future that this thread polls (by address, never followed), and what it did.
    static POLL: Polling = const { Polling::none() };
    static GIVES_WAY: Cell<bool> = const { Cell::new(false) };
    static SPENT: Cell<u32> = const { Cell::new(0) };
}

/// The pool that this thread works for (by address, never followed), its
/// number if it is one of the workers, and the entity whose task it runs.
#[derive(Clone, Copy)]
struct Context {
    pool: *const Shared,
    number: usize,
    /// Null for plain tasks.
    entity: *const Arc<dyn Entity>,
}

impl Context {
    const NONE: Self = Self {
        pool: ptr::null(),
        number: NO_NUMBER,
        entity: ptr::null(),
    };
}

struct Polling {
    fiber: Cell<usize>,
    woke_itself: Cell<bool>,
}

impl Polling {
    const fn none() -> Self {
        Self {
            fiber: Cell::new(0),
            woke_itself: Cell::new(false),
        }
    }
}

/// While this lives, the future's wakes from its own poll are noted here,
/// which costs less than telling other threads.
pub(super) struct SelfWake {
    outer: (usize, bool),
}

impl SelfWake {
    #[inline]
    pub(super) fn expect(fiber: usize) -> Self {
        POLL.with(|poll| Self {
            outer: (poll.fiber.replace(fiber), poll.woke_itself.replace(false)),
        })
    }

    /// Whether the future woke itself.
    #[inline]
    pub(super) fn came(&self) -> bool {
        POLL.with(|poll| poll.woke_itself.get())
    }
}

impl Drop for SelfWake {
    fn drop(&mut self) {
        let (fiber, woke_itself) = self.outer;
        POLL.with(|poll| {
            poll.fiber.set(fiber);
            poll.woke_itself.set(woke_itself);
        });
    }
}

/// Notes a wake of the future that this thread polls now; `false` if it polls another or none.
#[inline]
pub(super) fn note_self_wake(fiber: usize) -> bool {
    POLL.with(|poll| {
        let is_own = poll.fiber.get() == fiber;
        if is_own {
            poll.woke_itself.set(true);
        }
        is_own
    })
}

/// Whether this thread polls a future that is an entity: then a turn is one poll.
#[inline]
pub(super) fn polls_a_fiber() -> bool {
    POLL.with(|poll| poll.fiber.get() != 0)
}

/// Asks for the end of the turn.
#[inline]
pub(super) fn give_way() {
    GIVES_WAY.set(true);
}

/// Whether the end of the turn was asked for.
#[inline(always)]
pub(super) fn gave_way() -> bool {
    GIVES_WAY.get()
}

/// A new turn begins.
#[inline(always)]
pub(super) fn forget_give_way() {
    GIVES_WAY.set(false);
}

/// One step of the budget; whether it is spent, which begins the next.
#[inline]
pub(super) fn spend_budget() -> bool {
    let spent = SPENT.get() + 1;
    let is_over = spent >= BUDGET;
    SPENT.set(if is_over { 0 } else { spent });
    is_over
}

/// Proof that this thread is a worker; it stays on the thread.
#[derive(Clone, Copy)]
pub(super) struct OnWorker {
    number: usize,
    _not_send: PhantomData<*const ()>,
}

impl OnWorker {
    #[inline(always)]
    pub(super) fn number(self) -> usize {
        self.number
    }
}

/// Makes this thread the worker with this number.
///
/// # Safety
///
/// - Until `leave_worker`, no other thread is this worker of the pool.
pub(super) unsafe fn become_worker(pool: &Shared, number: usize) {
    CONTEXT.set(Context {
        pool,
        number,
        entity: ptr::null(),
    });
}

pub(super) fn leave_worker() {
    CONTEXT.set(Context::NONE);
}

/// The proof, if this thread is a worker of `pool`.
#[inline(always)]
pub(super) fn worker_of(pool: &Shared) -> Option<OnWorker> {
    let context = CONTEXT.get();
    let is_worker = ptr::eq(context.pool, pool) && context.number != NO_NUMBER;
    is_worker.then_some(OnWorker {
        number: context.number,
        _not_send: PhantomData,
    })
}

/// Whether this thread runs a task of `pool`.
#[inline(always)]
pub(crate) fn is_inside(pool: &Shared) -> bool {
    ptr::eq(CONTEXT.get().pool, pool)
}

/// Runs `f` inside `pool`, as `entity` or as plain tasks.
#[inline(always)]
pub(crate) fn within<R>(
    pool: &Shared,
    entity: Option<&Arc<dyn Entity>>,
    f: impl FnOnce() -> R,
) -> R {
    let outer = CONTEXT.get();
    let is_same = ptr::eq(outer.pool, pool);
    CONTEXT.set(Context {
        pool,
        number: if is_same { outer.number } else { NO_NUMBER },
        entity: entity.map_or(ptr::null(), ptr::from_ref),
    });
    let _restore = Restore(outer);
    f()
}

/// The entity whose task this thread runs.
pub(crate) fn current_entity() -> Option<Arc<dyn Entity>> {
    let entity = CONTEXT.get().entity;
    // SAFETY: it is null, or `within` put it there, borrows it until `Restore`,
    // and we are between the two.
    unsafe { entity.as_ref() }.map(Arc::clone)
}

/// A number that is this thread's own, so that it keeps to one worker.
pub(super) fn thread_number() -> usize {
    NUMBER.with(|number| *number)
}

/// Puts the outer context back, also when a task unwinds.
struct Restore(Context);

impl Drop for Restore {
    #[inline(always)]
    fn drop(&mut self) {
        CONTEXT.set(self.0);
    }
}

static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
/// Steps of always-ready futures in a row.
const BUDGET: u32 = 128;
const NO_NUMBER: usize = usize::MAX;
