//! What calls of a C interface cost that checks nothing: the timer queue and the pool behind `extern "C"` functions, through which no
//! caller sees. `calls-only` calls them as a program calls a static library, `pointers-only` through a pointer in memory, as
//! a program calls a shared one.

use std::{ffi::c_void, ptr};

use busyhour::{
    clock::Instant,
    pool::TaskPool,
    timer::{QueueHandle, TimerQueue},
};
use kit::{
    Args,
    args::refuse,
    tasks::{self, CallPool, Run},
    timers,
};

use crate::task_pool::Pool;

pub fn run<const BY_POINTER: bool>(scenario: &str, args: &Args) {
    match scenario {
        "timers" => timers::run(args, Timers::<BY_POINTER>::default),
        "pool-requeue" => tasks::requeue_calls(args, Called::<BY_POINTER>(Pool::start(args))),
        other => refuse(&format!("no scenario {other}")),
    }
}

#[derive(Default)]
struct Timers<const BY_POINTER: bool>(Queue);

type Queue = TimerQueue<*mut c_void>;

/// As `bh_due_entry`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DueEntry {
    entry: *mut c_void,
    deadline_ns: u64,
}

type Add = unsafe extern "C" fn(*mut Queue, u64, *mut c_void, *mut u64) -> i32;
type Cancel = unsafe extern "C" fn(*mut Queue, u64, *mut *mut c_void) -> i32;
type Push = unsafe extern "C" fn(*const TaskPool, Run, *mut c_void) -> i32;

static ADD: Add = queue_add;
static CANCEL: Cancel = queue_cancel;
static PUSH: Push = pool_push;

/// The function itself, or what its pointer in memory says.
fn linked<const BY_POINTER: bool, F: Copy>(function: F, pointer: &'static F) -> F {
    match BY_POINTER {
        // SAFETY: it is a reference.
        true => unsafe { ptr::read_volatile(pointer) },
        false => function,
    }
}

#[inline(never)]
unsafe extern "C" fn queue_add(
    queue: *mut Queue,
    deadline_ns: u64,
    entry: *mut c_void,
    out_handle: *mut u64,
) -> i32 {
    // SAFETY: the caller has the queue alone, and the output is its own.
    unsafe {
        *out_handle = (*queue)
            .add(Instant::from_nanos(deadline_ns), entry)
            .to_bits();
    }
    0
}

#[inline(never)]
unsafe extern "C" fn queue_cancel(
    queue: *mut Queue,
    handle: u64,
    out_entry: *mut *mut c_void,
) -> i32 {
    // SAFETY: as above.
    let cancelled = unsafe { (*queue).cancel(QueueHandle::from_bits(handle)) };
    match cancelled {
        Some(entry) if !out_entry.is_null() => {
            // SAFETY: as above.
            unsafe { *out_entry = entry };
            0
        }
        Some(_) => 0,
        None => 1,
    }
}

#[inline(never)]
unsafe extern "C" fn queue_drain_due(
    queue: *mut Queue,
    now_ns: u64,
    out_entries: *mut DueEntry,
    room: usize,
    out_count: *mut usize,
) -> i32 {
    let mut count = 0;
    // SAFETY: as above, and there is room for as many entries.
    unsafe {
        while count < room
            && let Some((deadline, entry)) = (*queue).pop_due(Instant::from_nanos(now_ns))
        {
            let deadline_ns = deadline.as_nanos();
            *out_entries.add(count) = DueEntry { entry, deadline_ns };
            count += 1;
        }
        *out_count = count;
    }
    0
}

impl<const BY_POINTER: bool> timers::Timers for Timers<BY_POINTER> {
    type Handle = u64;

    fn add(&mut self, deadline_ns: u64, id: u64) -> u64 {
        let add = linked::<BY_POINTER, Add>(queue_add, &ADD);
        let mut handle = 0;
        // SAFETY: the queue and the output are not used elsewhere.
        let result = unsafe { add(&mut self.0, deadline_ns, id as *mut c_void, &mut handle) };
        assert_eq!(result, 0);
        handle
    }

    fn cancel(&mut self, handle: u64) -> bool {
        let cancel = linked::<BY_POINTER, Cancel>(queue_cancel, &CANCEL);
        // SAFETY: as above.
        unsafe { cancel(&mut self.0, handle, ptr::null_mut()) == 0 }
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        let none = DueEntry {
            entry: ptr::null_mut(),
            deadline_ns: 0,
        };
        let mut due = [none; 64];
        loop {
            let mut count = 0;
            let (entries, room) = (due.as_mut_ptr(), due.len());
            // SAFETY: as above; `room` is how many entries there is room for.
            unsafe { queue_drain_due(&mut self.0, u64::MAX, entries, room, &mut count) };
            if count == 0 {
                return;
            }
            for due in &due[..count] {
                on_expire(due.deadline_ns, due.entry as u64);
            }
        }
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// A pool that gets a function and a pointer.
struct Called<const BY_POINTER: bool>(Pool);

struct Data(*mut c_void);

// SAFETY: what it leads to is `Send`, as `push` says.
unsafe impl Send for Data {}

impl Data {
    fn address(&self) -> *mut c_void {
        self.0
    }
}

#[inline(never)]
unsafe extern "C" fn pool_push(pool: *const TaskPool, run: Run, data: *mut c_void) -> i32 {
    let data = Data(data);
    // SAFETY: the pool exists until the process ends, and the function accepts its data.
    let pushed = unsafe { (*pool).push(move || run(data.address())) };
    i32::from(pushed.is_err())
}

impl<const BY_POINTER: bool> CallPool for Called<BY_POINTER> {
    fn push(&'static self, run: Run, data: *mut c_void) {
        let push = linked::<BY_POINTER, Push>(pool_push, &PUSH);
        // SAFETY: the pool exists until the process ends, and the function accepts its data.
        let result = unsafe { push(&self.0.0, run, data) };
        assert_eq!(result, 0);
    }
}
