//! What a thread knows about the task it is running.

use std::{cell::Cell, ptr, sync::Arc};

use super::{
    entity::{Entity, EntityRef, ShareCell},
    future::{Look, StepBudget},
    queue::Runnable,
    shared::Shared,
    worker::Worker,
};
use crate::{
    run_queue::{Class, RunQueue, SchedState},
    sync::{zeroed, zeroed_thread_local},
};

zeroed_thread_local! {
    static THREAD_LOCALS: ThreadLocals;
}

/// What this thread works for: the pool, which lives until it is removed here;
/// the worker slot, if the thread is a worker; and the entity whose task it
/// runs.
struct ThreadLocals {
    pool: Cell<*const Shared>,
    /// Null if the thread is no worker.
    worker: Cell<*const Worker>,
    /// Null for plain tasks; a special address, not an entity's, while an
    /// inline runner collects.
    entity: Cell<*const ShareCell>,
    /// The entity that pays for the worker's turn, whose token this thread
    /// holds; null if the worker's plain tasks pay. It differs from `entity`
    /// while a task waits and runs another entity's tasks.
    payer: Cell<*const ShareCell>,
    /// The future that this thread polls (its address, which is never
    /// dereferenced, and one more if it woke itself); 0 for none.
    future_task: Cell<usize>,
    yield_requested: Cell<bool>,
    budget: StepBudget,
}

zeroed!(ThreadLocals {
    pool,
    worker,
    entity,
    payer,
    future_task,
    yield_requested,
    budget
});

impl ThreadLocals {
    fn become_worker(&self, pool: *const Shared, worker: *const Worker) {
        self.pool.set(pool);
        self.worker.set(worker);
        self.entity.set(ptr::null());
        self.payer.set(ptr::null());
    }

    /// Names the entity whose task runs, and that pays for it.
    #[inline(always)]
    fn set_turn(&self, entity: *const ShareCell) {
        self.entity.set(entity);
        self.payer.set(entity);
    }
}

/// While this lives, wakes of the future from its own poll are recorded here,
/// which costs less than an atomic. A thread polls one such future at a time, except
/// inside of [`OuterTurn::hide`].
pub(super) struct SelfWake;

impl SelfWake {
    #[inline]
    pub(super) fn expect(future_task: usize) -> Self {
        THREAD_LOCALS.with(|locals| {
            debug_assert_eq!(locals.future_task.get(), 0, "turns do not nest");
            locals.future_task.set(future_task);
        });
        Self
    }

    /// Whether the future woke itself.
    #[inline]
    pub(super) fn came(&self) -> bool {
        THREAD_LOCALS.with(|locals| locals.future_task.get() & WOKE_ITSELF != 0)
    }
}

impl Drop for SelfWake {
    #[inline(always)]
    fn drop(&mut self) {
        THREAD_LOCALS.with(|locals| locals.future_task.set(0));
    }
}

/// Records a wake of the future that this thread polls now; `false` if it polls
/// another future or none.
#[inline]
pub(super) fn note_self_wake(future_task: usize) -> bool {
    THREAD_LOCALS.with(|locals| {
        let is_own = locals.future_task.get() & !WOKE_ITSELF == future_task;
        if is_own {
            locals.future_task.set(future_task | WOKE_ITSELF);
        }
        is_own
    })
}

/// Whether this thread polls a future that is an entity; then a turn is one
/// poll.
#[inline]
pub(super) fn polls_future_task() -> bool {
    THREAD_LOCALS.with(|locals| locals.future_task.get() != 0)
}

/// Requests the end of the turn.
#[inline]
pub(super) fn request_yield() {
    THREAD_LOCALS.with(|locals| locals.yield_requested.set(true));
}

/// Whether the end of the turn was requested.
#[inline(always)]
pub(super) fn is_yield_requested() -> bool {
    THREAD_LOCALS.with(|locals| locals.yield_requested.get())
}

/// Clears the request, because a new turn begins.
#[inline(always)]
pub(super) fn clear_yield_request() {
    THREAD_LOCALS.with(|locals| {
        locals.yield_requested.set(false);
        locals.budget.renew();
    });
}

/// Consumes one step of the budget; returns whether the budget is used up, and
/// then renews it.
#[inline]
pub(super) fn consume_budget() -> bool {
    THREAD_LOCALS.with(|locals| locals.budget.spend(look_at_the_clock))
}

fn look_at_the_clock() -> Option<Look> {
    let pool = current_pool()?;
    let since = pool.thread_context().now();
    let now = pool.clock.now();
    Some(Look { now, since })
}

/// Whether this thread works for a pool.
#[inline]
pub(super) fn is_in_a_pool() -> bool {
    THREAD_LOCALS.with(|locals| !locals.pool.get().is_null())
}

/// Makes this thread the worker with this number.
///
/// # Safety
///
/// - Until `leave_worker`, no other thread is this worker of the pool.
pub(super) unsafe fn become_worker(pool: &Shared, number: usize) {
    let worker = &raw const pool.workers[number];
    THREAD_LOCALS.with(|locals| locals.become_worker(pool, worker));
}

pub(super) fn leave_worker() {
    THREAD_LOCALS.with(|locals| locals.become_worker(ptr::null(), ptr::null()));
}

/// Makes this thread the worker with this number while `f` runs.
///
/// # Safety
///
/// - Meanwhile no other thread is this worker of the pool.
pub(super) unsafe fn as_worker<R>(pool: &Shared, number: usize, f: impl FnOnce() -> R) -> R {
    let worker = &raw const pool.workers[number];
    let _outer = THREAD_LOCALS.with(|locals| InsidePool {
        entity: locals.entity.replace(ptr::null()),
        place: Some((locals.pool.replace(pool), locals.worker.replace(worker))),
    });
    let _outer_turn = OuterTurn::hide();
    f()
}

/// Runs `f`, which takes one turn of `pool`, wherever this thread is.
pub(super) fn simulating<R>(pool: &Shared, f: impl FnOnce() -> R) -> R {
    let _outer_turn = OuterTurn::hide();
    within(pool, None, f)
}

/// Runs `f`, which runs tasks of `entity` in its turn, for which the entity pays: the
/// thread works for the entity's pool, and is in no task.
#[inline(always)]
pub(crate) fn in_turn_of<R>(entity: EntityRef<'_>, f: impl FnOnce() -> R) -> R {
    THREAD_LOCALS.with(|locals| {
        debug_assert!(locals.entity.get().is_null(), "turns do not nest");
        debug_assert!(locals.payer.get().is_null(), "turns do not nest");
        locals.set_turn(entity.as_ptr());
    });
    let _between_turns = BetweenTurns;
    f()
}

/// Makes this thread be in no task, for which nobody pays, when it is dropped: before the
/// turn puts the token back, which others may take then.
struct BetweenTurns;

impl Drop for BetweenTurns {
    #[inline(always)]
    fn drop(&mut self) {
        THREAD_LOCALS.with(|locals| locals.set_turn(ptr::null()));
    }
}

/// Forgets the entity that pays for the turn, which was charged: the worker's plain
/// tasks pay for what else it does.
#[inline(always)]
pub(super) fn forget_payer() {
    THREAD_LOCALS.with(|locals| locals.payer.set(ptr::null()));
}

/// Whether an entity pays for what this thread does.
pub(super) fn has_payer() -> bool {
    THREAD_LOCALS.with(|locals| !locals.payer.get().is_null())
}

/// The scheduling state of an entity that this thread, which works for the
/// worker of `queue`, creates during the turn of another one; `None` if no
/// entity pays for the turn.
pub(super) fn fork_payer(queue: &RunQueue<Runnable>, class: Class) -> Option<SchedState> {
    let payer = THREAD_LOCALS.with(|locals| locals.payer.get());
    // SAFETY: it is null, or `in_turn_of` put it there, and takes it away before
    // the turn gives the token up, which keeps the entity.
    let payer = unsafe { EntityRef::from_ptr(payer) }?;
    // SAFETY: as above, so the token is on this thread; the turn lends the share
    // to nobody while a task runs.
    Some(unsafe { payer.fork(queue, class) })
}

/// Runs `f`, whose pushes wake no worker, except pushes of a task that it runs.
pub(super) fn collecting<R>(f: impl FnOnce() -> R) -> R {
    let _outer = THREAD_LOCALS.with(|locals| InsidePool {
        entity: locals.entity.replace(collects()),
        place: None,
    });
    f()
}

/// Whether this thread collects for `pool`, outside of any task.
pub(super) fn collects_for(pool: &Shared) -> bool {
    is_inside(pool) && is_collecting()
}

pub(super) fn is_collecting() -> bool {
    THREAD_LOCALS.with(|locals| ptr::eq(locals.entity.get(), collects()))
}

/// An address at which there is no entity.
fn collects() -> *const ShareCell {
    (&raw const COLLECTING).cast()
}

/// The worker slot of this thread, if it is a worker of `pool`. Only this
/// thread may use the reference.
#[inline(always)]
pub(super) fn worker_of(pool: &Shared) -> Option<&Worker> {
    THREAD_LOCALS.with(|locals| {
        if !ptr::eq(locals.pool.get(), pool) {
            return None;
        }
        // SAFETY: it is null, or `become_worker` or `as_worker` took it from this pool, whose
        // places live as long as the pool.
        unsafe { locals.worker.get().as_ref() }
    })
}

/// Whether this thread runs a task of `pool`, or collects for it.
#[inline(always)]
pub(crate) fn is_inside(pool: &Shared) -> bool {
    THREAD_LOCALS.with(|locals| ptr::eq(locals.pool.get(), pool))
}

/// Runs `f` inside `pool`, as `entity` or as plain tasks.
#[inline(always)]
pub(crate) fn within<R>(pool: &Shared, entity: Option<EntityRef<'_>>, f: impl FnOnce() -> R) -> R {
    let _inside = THREAD_LOCALS.with(|locals| {
        let is_same = ptr::eq(locals.pool.get(), pool);
        let entity = entity.map_or(ptr::null(), EntityRef::as_ptr);
        let outer = InsidePool {
            entity: locals.entity.replace(entity),
            place: (!is_same).then(|| (locals.pool.get(), locals.worker.get())),
        };
        if !is_same {
            locals.pool.set(pool);
            locals.worker.set(ptr::null());
        }
        outer
    });
    f()
}

/// Runs `f`, which runs one more task, as a part of this thread's current task.
/// A thread that collects has no current task; it leaves the collecting state
/// meanwhile.
pub(super) fn as_part_of_the_task<R>(pool: &Shared, f: impl FnOnce() -> R) -> R {
    debug_assert!(is_inside(pool));
    match is_collecting() {
        true => within(pool, None, f),
        false => f(),
    }
}

/// The pool that this thread works for.
pub(super) fn current_pool() -> Option<Arc<Shared>> {
    let pool = THREAD_LOCALS.with(|locals| locals.pool.get());
    // SAFETY: it is null, or `become_worker`, `as_worker` or `within` put it
    // there, whose caller keeps the pool until it is taken away again.
    unsafe { pool.as_ref() }.and_then(Shared::to_arc)
}

/// The entity whose task this thread runs.
pub(crate) fn current_entity() -> Option<Arc<dyn Entity>> {
    if is_collecting() {
        return None;
    }
    let entity = THREAD_LOCALS.with(|locals| locals.entity.get());
    // SAFETY: it is null, or `within` put it there, borrows it until `InsidePool`
    // is dropped, and we are between the two.
    unsafe { EntityRef::from_ptr(entity) }.map(EntityRef::to_arc)
}

/// Restores the outer values when it is dropped, also when a task unwinds.
struct InsidePool {
    entity: *const ShareCell,
    /// The outer pool and worker slot, if this thread enters another pool.
    place: Option<(*const Shared, *const Worker)>,
}

impl Drop for InsidePool {
    #[inline(always)]
    fn drop(&mut self) {
        THREAD_LOCALS.with(|locals| {
            locals.entity.set(self.entity);
            if let Some((pool, worker)) = self.place {
                locals.pool.set(pool);
                locals.worker.set(worker);
            }
        });
    }
}

/// The payer of the outer pool's turn, the future that is polled there, and whether the end
/// of that turn was requested; restored when this is dropped.
struct OuterTurn {
    payer: *const ShareCell,
    future_task: usize,
    yield_requested: bool,
}

impl OuterTurn {
    fn hide() -> Self {
        THREAD_LOCALS.with(|locals| Self {
            payer: locals.payer.replace(ptr::null()),
            future_task: locals.future_task.replace(0),
            yield_requested: locals.yield_requested.replace(false),
        })
    }
}

impl Drop for OuterTurn {
    fn drop(&mut self) {
        THREAD_LOCALS.with(|locals| {
            locals.payer.set(self.payer);
            locals.future_task.set(self.future_task);
            locals.yield_requested.set(self.yield_requested);
        });
    }
}

/// Beside the address of a future that is polled, which is even: it woke itself.
const WOKE_ITSELF: usize = 1;
const _: () = assert!(align_of::<ShareCell>() > WOKE_ITSELF);
/// Its address marks a thread that collects.
static COLLECTING: u64 = 0;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{
        clock::{Clock, UnixTime},
        pool::{TaskPool, yield_now},
    };
    use std::{future::poll_fn, sync::mpsc, task::Poll, thread, time::Duration};

    /// A limit that only a failing test reaches.
    const LONG: Duration = Duration::from_secs(60);

    /// Notes whether an entity pays, in the turn where it is called, and in the plain task
    /// that the worker runs after that turn.
    type Note = Box<dyn FnOnce() + Send>;

    /// Both, with one worker, in a turn that `begin` begins.
    fn pays(begin: impl FnOnce(&TaskPool, Note)) -> (bool, bool) {
        let pool = TaskPool::builder().workers(1).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let same_pool = pool.clone();
        let note = move || {
            let in_turn = has_payer();
            let tell = move || sender.send((in_turn, has_payer())).unwrap();
            same_pool.push(tell).unwrap();
        };
        begin(&pool, Box::new(note));
        receiver.recv_timeout(LONG).unwrap()
    }

    /// The token is queued by then, and another worker may run the entity, or free it.
    #[test]
    fn nobody_pays_once_a_future_has_yielded() {
        let both = pays(|pool, note| {
            let yields = async {
                note();
                yield_now().await;
            };
            drop(pool.spawn_as(Class::default(), yields));
        });
        assert_eq!(both, (true, false));
    }

    #[test]
    fn nobody_pays_once_a_future_was_woken_in_its_poll() {
        let both = pays(|pool, note| {
            let mut note = Some(note);
            let woken = poll_fn(move |context| {
                let Some(note) = note.take() else {
                    return Poll::Ready(());
                };
                let waker = context.waker().clone();
                thread::spawn(|| waker.wake()).join().unwrap();
                note();
                Poll::Pending
            });
            drop(pool.spawn_as(Class::default(), woken));
        });
        assert_eq!(both, (true, false));
    }

    #[test]
    fn nobody_pays_once_a_future_has_ended() {
        let ready = pays(|pool, note| drop(pool.spawn_as(Class::default(), async { note() })));
        assert_eq!(ready, (true, false));
        let panicked = pays(|pool, note| {
            let panics = async {
                note();
                panic!("on purpose");
            };
            drop(pool.spawn_as(Class::default(), panics));
        });
        assert_eq!(panicked, (true, false));
    }

    #[test]
    fn nobody_pays_once_a_serializer_waits_for_its_next_turn() {
        let both = pays(|pool, note| {
            let calls = pool.serializer("calls").build().unwrap();
            let same_calls = calls.clone();
            let has_more = move || {
                note();
                same_calls.push(|| ()).unwrap();
                request_yield();
            };
            calls.push(has_more).unwrap();
        });
        assert_eq!(both, (true, false));
    }

    /// An entity of the other pool must not share the counter of one of this pool, and a turn
    /// there does not take back what this turn has requested.
    #[test]
    fn a_turn_is_hidden_from_another_pool() {
        let clock = Clock::simulated(UnixTime::from_secs(0));
        let other = TaskPool::builder().workers(1).clock(clock).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let in_turn = move || {
            while other.stats().idle_worker_count < 1 {
                thread::sleep(Duration::from_millis(1));
            }
            let mut seen = Vec::new();
            request_yield();
            seen.push((has_payer(), is_yield_requested()));
            let look = || seen.push((has_payer(), is_yield_requested()));
            other.inline_runner().run(look);
            seen.push((has_payer(), is_yield_requested()));
            sender.send(seen).unwrap();
        };
        let pool = TaskPool::builder().workers(1).build().unwrap();
        pool.serializer("calls")
            .build()
            .unwrap()
            .push(in_turn)
            .unwrap();
        let seen = receiver.recv_timeout(LONG).unwrap();
        assert_eq!(seen, [(true, true), (false, false), (true, true)]);
    }
}
