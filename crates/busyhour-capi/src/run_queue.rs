//! The run queue of one worker, alone: for programs with threads of their own.

use crate::{
    edge::{Failure, Out, Outcome, borrow, borrow_mut, give, guard, quietly, release},
    pool::class,
    result::bh_result,
};
use busyhour::run_queue::{Class, Mode, QueueEnd, RunQueue, SchedState, Thresholds, WorkerId};
use std::time::Duration;

/// The runnable entities of one worker, and the order to run them in. It has no lock: calls for the same queue must not run
/// at the same time.
pub struct bh_run_queue {
    queue: RunQueue<u64>,
}

/// What a run queue knows of one entity. It must not be changed or freed while the entity is queued.
pub struct bh_sched_state {
    state: SchedState,
}

/// Makes an empty queue for worker number `worker`, which charges run time in units of `tick_ns`; 0: 100 µs.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_new(
    worker: u16,
    tick_ns: u64,
    out: *mut *mut bh_run_queue,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let worker = WorkerId::new(worker);
        let queue = match tick_ns {
            0 => RunQueue::new(worker),
            tick_ns => RunQueue::with_tick(worker, Duration::from_nanos(tick_ns)),
        };
        give(out, bh_run_queue { queue });
        Ok(())
    })
}

/// Makes an empty queue that has one sorted list up to `sorted_max` entities, at most 64, and again when `sorted_again` are left,
/// which is less; the rest as `bh_run_queue_new`. The order is the same.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_with_thresholds(
    worker: u16,
    tick_ns: u64,
    sorted_max: usize,
    sorted_again: usize,
    out: *mut *mut bh_run_queue,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let thresholds = Thresholds::new(sorted_max, sorted_again);
        let thresholds = thresholds.ok_or_else(|| {
            Failure::invalid("sorted_again is below sorted_max, and that at most 64")
        })?;
        let tick = match tick_ns {
            0 => RunQueue::<u64>::DEFAULT_TICK,
            tick_ns => Duration::from_nanos(tick_ns),
        };
        let queue = RunQueue::with_thresholds(WorkerId::new(worker), tick, thresholds);
        give(out, bh_run_queue { queue });
        Ok(())
    })
}

/// Frees the queue.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_free(queue: *mut bh_run_queue) {
    quietly((), || drop(release(queue)));
}

/// Makes the scheduling state of a new entity: its priority is 1 to 40, or 100 to 199 for real time; 0: 20.
#[unsafe(no_mangle)]
pub extern "C" fn bh_sched_state_new(priority: u32, out: *mut *mut bh_sched_state) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let state = SchedState::new(class(priority)?);
        give(out, bh_sched_state { state });
        Ok(())
    })
}

/// Frees the scheduling state.
#[unsafe(no_mangle)]
pub extern "C" fn bh_sched_state_free(state: *mut bh_sched_state) {
    quietly((), || drop(release(state)));
}

/// The ticks that the entity may still run in this epoch; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_sched_state_counter(state: *const bh_sched_state) -> u32 {
    quietly(0, || {
        borrow(state, "state").map_or(0, |state| u32::from(state.state.counter()))
    })
}

/// Its priority: 1 to 40, or 100 to 199 for real time; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_sched_state_priority(state: *const bh_sched_state) -> u32 {
    quietly(0, || {
        borrow(state, "state").map_or(0, |state| match state.state.class() {
            Class::Normal(priority) => u32::from(priority.get()),
            Class::RealTime(priority) => 100 + u32::from(priority.get()),
        })
    })
}

/// Gives an entity that is not queued another priority. `bh_run_queue_sync_epoch` first, or the epochs that it slept through
/// count at the new one.
#[unsafe(no_mangle)]
pub extern "C" fn bh_sched_state_set_priority(
    state: *mut bh_sched_state,
    priority: u32,
) -> bh_result {
    guard(|| {
        let class = class(priority)?;
        borrow_mut(state, "state")?.state.set_class(class);
        Ok(())
    })
}

/// The worker that it last ran on, or was first queued on; `BH_NOT_FOUND` before that.
#[unsafe(no_mangle)]
pub extern "C" fn bh_sched_state_ran_on(
    state: *const bh_sched_state,
    out_worker: *mut u16,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_worker, "out_worker")?;
        let worker = borrow(state, "state")?.state.ran_on();
        let none = || Failure::not_found("the entity has not been queued");
        out.write(worker.ok_or_else(none)?.get());
        Ok(())
    })
}

/// Its goodness on a worker, as defined by Linux 2.2: 1,000 + priority for real time, otherwise 0 if its counter is used up,
/// else counter + priority, and 15 more on the worker that it last ran on. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_sched_state_goodness(state: *const bh_sched_state, worker: u16) -> u32 {
    quietly(0, || {
        borrow(state, "state").map_or(0, |state| {
            u32::from(state.state.goodness(WorkerId::new(worker)))
        })
    })
}

/// Makes an entity runnable: behind its equals, or before them if `in_front` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_wake(
    queue: *mut bh_run_queue,
    entity: u64,
    state: *mut bh_sched_state,
    in_front: i32,
) -> bh_result {
    with(queue, state, |queue, state| {
        let end = match in_front {
            0 => QueueEnd::Back,
            _ => QueueEnd::Front,
        };
        queue.wake(entity, state, end);
        Ok(())
    })
}

/// Takes the entity with the greatest goodness; `BH_NOT_FOUND` if nothing is runnable.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_pick(queue: *mut bh_run_queue, out_entity: *mut u64) -> bh_result {
    guard(|| {
        let out = Out::required(out_entity, "out_entity")?;
        let picked = borrow_mut(queue, "queue")?.queue.pick();
        out.write(picked.ok_or_else(|| Failure::not_found("nothing is runnable"))?);
        Ok(())
    })
}

/// Charges an entity for the time that it ran, and queues it again behind its equals.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_put_back(
    queue: *mut bh_run_queue,
    entity: u64,
    state: *mut bh_sched_state,
    ran_ns: u64,
) -> bh_result {
    with(queue, state, |queue, state| {
        queue.put_back(entity, state, Duration::from_nanos(ran_ns));
        Ok(())
    })
}

/// `bh_run_queue_put_back` and `bh_run_queue_pick` in one step. The entity that is picked may be the same.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_switch(
    queue: *mut bh_run_queue,
    entity: u64,
    state: *mut bh_sched_state,
    ran_ns: u64,
    out_entity: *mut u64,
) -> bh_result {
    with(queue, state, |queue, state| {
        let out = Out::required(out_entity, "out_entity")?;
        out.write(queue.switch(entity, state, Duration::from_nanos(ran_ns)));
        Ok(())
    })
}

/// Charges an entity that has no more to do for the time that it ran.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_charge(
    queue: *mut bh_run_queue,
    state: *mut bh_sched_state,
    ran_ns: u64,
) -> bh_result {
    with(queue, state, |queue, state| {
        queue.charge(state, Duration::from_nanos(ran_ns));
        Ok(())
    })
}

/// Brings the counter of an entity up to date, before another worker takes it.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_sync_epoch(
    queue: *mut bh_run_queue,
    state: *mut bh_sched_state,
) -> bh_result {
    with(queue, state, |queue, state| {
        queue.sync_epoch(state);
        Ok(())
    })
}

/// Takes a queued entity out before its turn; `BH_NOT_FOUND` if it is not queued here.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_remove(
    queue: *mut bh_run_queue,
    entity: u64,
    state: *mut bh_sched_state,
) -> bh_result {
    with(queue, state, |queue, state| {
        let removed = queue.remove(&entity, state).map(|_| ());
        removed.ok_or_else(|| Failure::not_found(format!("entity {entity} is not queued here")))
    })
}

/// The scheduling state of an entity that the one of `parent` creates: the two share what the parent has left.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_fork(
    queue: *mut bh_run_queue,
    parent: *mut bh_sched_state,
    priority: u32,
    out: *mut *mut bh_sched_state,
) -> bh_result {
    with(queue, parent, |queue, parent| {
        let out = Out::required(out, "out")?;
        let state = queue.fork(parent, class(priority)?);
        give(out, bh_sched_state { state });
        Ok(())
    })
}

/// The number of the worker that it was made for; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_worker(queue: *const bh_run_queue) -> u16 {
    quietly(0, || {
        borrow(queue, "queue").map_or(0, |queue| queue.queue.worker().get())
    })
}

/// The number of runnable entities; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_len(queue: *const bh_run_queue) -> usize {
    quietly(0, || {
        borrow(queue, "queue").map_or(0, |queue| queue.queue.len())
    })
}

/// The number of epochs that have begun, modulo 2^32; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_epoch(queue: *const bh_run_queue) -> u32 {
    quietly(0, || {
        borrow(queue, "queue").map_or(0, |queue| queue.queue.epoch())
    })
}

/// 1 if the queue has a list for each goodness, 0 if it is short and sorted. The order is the same.
#[unsafe(no_mangle)]
pub extern "C" fn bh_run_queue_is_bucketed(queue: *const bh_run_queue) -> i32 {
    quietly(0, || {
        borrow(queue, "queue").map_or(0, |queue| i32::from(queue.queue.mode() == Mode::Bucketed))
    })
}

fn with(
    queue: *mut bh_run_queue,
    state: *mut bh_sched_state,
    body: impl FnOnce(&mut RunQueue<u64>, &mut SchedState) -> Outcome,
) -> bh_result {
    guard(|| {
        let queue = borrow_mut(queue, "queue")?;
        let state = borrow_mut(state, "state")?;
        body(&mut queue.queue, &mut state.state)
    })
}
