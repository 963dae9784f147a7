//! Deadlines in order, alone: for programs with a loop and a clock of their own.

use crate::{
    edge::{Failure, Out, OutArray, borrow, borrow_mut, give, guard, quietly, release},
    result::bh_result,
};
use busyhour::{
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};
use std::ffi::c_void;

/// Pointers of the program, each with a deadline in nanoseconds of whatever clock: in exact order by deadline, then by
/// insertion. It has no lock: calls for the same queue must not run at the same time.
pub struct bh_timer_queue {
    /// C owns what the entries point to.
    queue: TimerQueue<*mut c_void>,
}

/// An entry that was due.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_due_entry {
    /// What was added.
    pub entry: *mut c_void,
    /// When it was due.
    pub deadline_ns: u64,
}

/// Makes an empty queue.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_new(out: *mut *mut bh_timer_queue) -> bh_result {
    guard(|| {
        let queue = TimerQueue::new();
        give(Out::required(out, "out")?, bh_timer_queue { queue });
        Ok(())
    })
}

/// Frees the queue, not what its entries point to.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_free(queue: *mut bh_timer_queue) {
    quietly((), || drop(release(queue)));
}

/// Adds an entry; it may be due already, and `UINT64_MAX` is due only then. `out_handle`, which may be NULL, identifies it
/// while it is in the queue, and no other entry ever; it is never 0. The queue holds fewer than 2^30 entries.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_add(
    queue: *mut bh_timer_queue,
    deadline_ns: u64,
    entry: *mut c_void,
    out_handle: *mut u64,
) -> bh_result {
    guard(|| {
        let queue = &mut borrow_mut(queue, "queue")?.queue;
        let handle = queue.add(Instant::from_nanos(deadline_ns), entry);
        Out::optional(out_handle).write(handle.to_bits());
        Ok(())
    })
}

/// Takes an entry out; `BH_NOT_FOUND` if it has left before. `out_entry` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_cancel(
    queue: *mut bh_timer_queue,
    handle: u64,
    out_entry: *mut *mut c_void,
) -> bh_result {
    guard(|| {
        let queue = &mut borrow_mut(queue, "queue")?.queue;
        let entry = queue.cancel(QueueHandle::from_bits(handle));
        Out::optional(out_entry).write(entry.ok_or_else(gone)?);
        Ok(())
    })
}

/// Gives an entry another deadline, behind those that have it already; `BH_NOT_FOUND` if it has left before.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_reschedule(
    queue: *mut bh_timer_queue,
    handle: u64,
    deadline_ns: u64,
) -> bh_result {
    guard(|| {
        let queue = &mut borrow_mut(queue, "queue")?.queue;
        let deadline = Instant::from_nanos(deadline_ns);
        let moved = queue.reschedule(QueueHandle::from_bits(handle), deadline);
        moved.then_some(()).ok_or_else(gone)
    })
}

/// Takes the earliest entries whose deadlines are not after `now_ns`, in order, at most `room` of them. `out_count` says how
/// many; 0 if none is due.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_drain_due(
    queue: *mut bh_timer_queue,
    now_ns: u64,
    out_entries: *mut bh_due_entry,
    room: usize,
    out_count: *mut usize,
) -> bh_result {
    guard(|| {
        let mut due = OutArray::required(out_entries, room, "out_entries")?;
        let out_count = Out::required(out_count, "out_count")?;
        let queue = &mut borrow_mut(queue, "queue")?.queue;
        let now = Instant::from_nanos(now_ns);
        while !due.is_full()
            && let Some((deadline, entry)) = queue.pop_due(now)
        {
            due.push(bh_due_entry {
                entry,
                deadline_ns: deadline.as_nanos(),
            });
        }
        out_count.write(due.len());
        Ok(())
    })
}

/// Takes the earliest entry whose deadline is not after `now_ns` out of the order, but keeps it: `bh_timer_queue_reschedule`
/// with its handle puts it back, `bh_timer_queue_cancel` ends it. `BH_NOT_FOUND` if none is due.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_hold_due(
    queue: *mut bh_timer_queue,
    now_ns: u64,
    out_due: *mut bh_due_entry,
    out_handle: *mut u64,
) -> bh_result {
    guard(|| {
        let (out_due, out_handle) = (
            Out::required(out_due, "out_due")?,
            Out::required(out_handle, "out_handle")?,
        );
        let queue = &mut borrow_mut(queue, "queue")?.queue;
        let held = queue.hold_due(Instant::from_nanos(now_ns));
        let (deadline, handle) = held.ok_or_else(|| Failure::not_found("no entry is due"))?;
        out_due.write(bh_due_entry {
            entry: *queue.get(handle).ok_or_else(gone)?,
            deadline_ns: deadline.as_nanos(),
        });
        out_handle.write(handle.to_bits());
        Ok(())
    })
}

/// The deadline of the earliest entry; `UINT64_MAX` if there is none, and for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_next_deadline(queue: *const bh_timer_queue) -> u64 {
    quietly(u64::MAX, || {
        borrow(queue, "queue")
            .ok()
            .and_then(|queue| queue.queue.next_deadline())
            .map_or(u64::MAX, Instant::as_nanos)
    })
}

/// An entry and its deadline, `UINT64_MAX` while it is held; `BH_NOT_FOUND` if it has left. Both outputs may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_get(
    queue: *const bh_timer_queue,
    handle: u64,
    out_entry: *mut *mut c_void,
    out_deadline_ns: *mut u64,
) -> bh_result {
    guard(|| {
        let queue = &borrow(queue, "queue")?.queue;
        let handle = QueueHandle::from_bits(handle);
        let entry = queue.get(handle).ok_or_else(gone)?;
        let deadline = queue.deadline(handle);
        Out::optional(out_entry).write(*entry);
        Out::optional(out_deadline_ns).write(deadline.map_or(u64::MAX, Instant::as_nanos));
        Ok(())
    })
}

/// The number of entries; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timer_queue_len(queue: *const bh_timer_queue) -> usize {
    quietly(0, || {
        borrow(queue, "queue").map_or(0, |queue| queue.queue.len())
    })
}

#[cold]
#[inline(never)]
fn gone() -> Failure {
    Failure::not_found("the entry has left the queue")
}
