//! What calls of a C interface cost that checks nothing: the timer queue behind `extern "C"` functions, through which no
//! caller sees. `calls-only` calls them as a program calls a static library, `pointers-only` through a pointer in memory, as
//! a program calls a shared one.

use std::{ffi::c_void, hint::black_box, ptr};

use busyhour::{
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};
use kit::{Args, args::refuse, timers};

pub fn run<const BY_POINTER: bool>(scenario: &str, args: &Args) {
    match scenario {
        "timers" => timers::run(args, Timers::<BY_POINTER>::default),
        other => refuse(&format!("no scenario {other}")),
    }
}

struct Timers<const BY_POINTER: bool> {
    queue: Queue,
    add: Add,
    cancel: Cancel,
}

type Queue = TimerQueue<*mut c_void>;
type Add = extern "C" fn(&mut Queue, u64, *mut c_void, &mut u64) -> i32;
type Cancel = extern "C" fn(&mut Queue, u64, Option<&mut *mut c_void>) -> i32;

/// As `bh_due_entry`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DueEntry {
    entry: *mut c_void,
    deadline_ns: u64,
}

#[inline(never)]
extern "C" fn queue_add(
    queue: &mut Queue,
    deadline_ns: u64,
    entry: *mut c_void,
    out_handle: &mut u64,
) -> i32 {
    let handle = queue.add(Instant::from_nanos(deadline_ns), entry);
    *out_handle = handle.to_bits();
    0
}

#[inline(never)]
extern "C" fn queue_cancel(
    queue: &mut Queue,
    handle: u64,
    out_entry: Option<&mut *mut c_void>,
) -> i32 {
    let Some(entry) = queue.cancel(QueueHandle::from_bits(handle)) else {
        return 1;
    };
    if let Some(out_entry) = out_entry {
        *out_entry = entry;
    }
    0
}

#[inline(never)]
extern "C" fn queue_drain_due(
    queue: &mut Queue,
    now_ns: u64,
    out_entries: &mut [DueEntry; 64],
    out_count: &mut usize,
) -> i32 {
    let mut count = 0;
    for place in out_entries {
        let Some((deadline, entry)) = queue.pop_due(Instant::from_nanos(now_ns)) else {
            break;
        };
        let deadline_ns = deadline.as_nanos();
        *place = DueEntry { entry, deadline_ns };
        count += 1;
    }
    *out_count = count;
    0
}

impl<const BY_POINTER: bool> Default for Timers<BY_POINTER> {
    fn default() -> Self {
        Self {
            queue: Queue::new(),
            add: black_box(queue_add as Add),
            cancel: black_box(queue_cancel as Cancel),
        }
    }
}

impl<const BY_POINTER: bool> timers::Timers for Timers<BY_POINTER> {
    type Handle = u64;

    fn add(&mut self, deadline_ns: u64, id: u64) -> u64 {
        let add = if BY_POINTER { self.add } else { queue_add };
        let mut handle = 0;
        let result = add(&mut self.queue, deadline_ns, id as *mut c_void, &mut handle);
        assert_eq!(result, 0);
        handle
    }

    fn cancel(&mut self, handle: u64) -> bool {
        let cancel = if BY_POINTER {
            self.cancel
        } else {
            queue_cancel
        };
        cancel(&mut self.queue, handle, None) == 0
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        let none = DueEntry {
            entry: ptr::null_mut(),
            deadline_ns: 0,
        };
        let mut due = [none; 64];
        loop {
            let mut count = 0;
            queue_drain_due(&mut self.queue, u64::MAX, &mut due, &mut count);
            if count == 0 {
                return;
            }
            for due in &due[..count] {
                on_expire(due.deadline_ns, due.entry as u64);
            }
        }
    }

    fn len(&self) -> u64 {
        self.queue.len() as u64
    }
}
