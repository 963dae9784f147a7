use super::{bh_pool, bh_serializer};
use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, Process, Threaded, bh_drop_fn, give, guard, live,
        quietly, release,
    },
    result::bh_result,
};
use busyhour::pool::{JoinError, JoinHandle};
use std::{
    borrow::Cow,
    ffi::c_void,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Lets a spawned task go on, from any thread.
pub struct bh_waker {
    waker: Waker,
    process: Process,
}

/// Waits for the result of a spawned task. One thread at a time uses it.
pub struct bh_join {
    handle: JoinHandle<u64>,
    process: Process,
}

/// A step of a spawned task. 0: it has to wait, and is called again after `waker` is woken, of which it keeps a
/// `bh_waker_clone`. Otherwise it is done, and what it has written to `result` goes to who joins it.
pub type bh_poll_fn = Option<
    unsafe extern "C-unwind" fn(waker: *const bh_waker, result: *mut u64, data: *mut c_void) -> i32,
>;

type PollCall = unsafe extern "C-unwind" fn(*const bh_waker, *mut u64, *mut c_void) -> i32;

impl Threaded for bh_waker {
    fn process(&self) -> Process {
        self.process
    }
}

impl Threaded for bh_join {
    fn process(&self) -> Process {
        self.process
    }
}

/// Runs `poll` on workers until it is done: a task that waits without keeping a worker. `drop` frees `data` after the last
/// step, when the task is aborted or nothing can wake it any more, or at once if the call fails. `out`, which waits for the
/// result, may be NULL. If the pool refuses the task, `bh_join_wait` says so.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_spawn(
    pool: *mut bh_pool,
    poll: bh_poll_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut *mut bh_join,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let stepped = Stepped::new(poll, data)?;
        join(live(pool, "pool")?.pool.spawn(stepped), out);
        Ok(())
    })
}

/// `bh_pool_spawn` whose steps are tasks of a serializer.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_spawn(
    serializer: *mut bh_serializer,
    poll: bh_poll_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut *mut bh_join,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let stepped = Stepped::new(poll, data)?;
        let serializer = &live(serializer, "serializer")?.serializer;
        join(serializer.spawn(stepped), out);
        Ok(())
    })
}

/// Waits until a spawned task is done, and frees the handle, whatever it returns. `BH_DROPPED` if it was aborted, refused or
/// dropped by a shutdown; `BH_DEADLOCK` if the wait would never end; `BH_STALLED` if nothing in a simulation can wake it.
/// `out_result` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_join_wait(join: *mut bh_join, out_result: *mut u64) -> bh_result {
    guard(|| {
        live(join, "join")?;
        let join = release(join).ok_or_else(|| Failure::null("join"))?;
        Out::optional(out_result).write(join.handle.wait()?);
        Ok(())
    })
}

/// Ends a spawned task before its next step, and frees its data. Nothing if it is done.
#[unsafe(no_mangle)]
pub extern "C" fn bh_join_abort(join: *mut bh_join) -> bh_result {
    guard(|| {
        live(join, "join")?.handle.abort();
        Ok(())
    })
}

/// 1 if the task is done, aborted or dropped, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_join_is_finished(join: *const bh_join) -> i32 {
    quietly(0, || {
        live(join, "join").map_or(0, |join| i32::from(join.handle.is_finished()))
    })
}

/// Gives the handle up; the task goes on.
#[unsafe(no_mangle)]
pub extern "C" fn bh_join_free(join: *mut bh_join) {
    quietly((), || {
        if live(join, "join").is_ok() {
            drop(release(join));
        }
    });
}

/// Another handle on the same waker, to keep beyond the step that got it. When the last one is freed of a task that waits, the
/// task is dropped, since nothing can wake it. A waker in the task's own data keeps it until it is woken or aborted.
#[unsafe(no_mangle)]
pub extern "C" fn bh_waker_clone(waker: *const bh_waker, out: *mut *mut bh_waker) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let waker = live(waker, "waker")?.waker.clone();
        give(out, bh_waker::new(waker));
        Ok(())
    })
}

/// Lets the task make its next step. Once for any number of calls before the step.
#[unsafe(no_mangle)]
pub extern "C" fn bh_waker_wake(waker: *const bh_waker) -> bh_result {
    guard(|| {
        live(waker, "waker")?.waker.wake_by_ref();
        Ok(())
    })
}

/// Frees a waker that `bh_waker_clone` made.
#[unsafe(no_mangle)]
pub extern "C" fn bh_waker_free(waker: *mut bh_waker) {
    quietly((), || {
        if live(waker, "waker").is_ok() {
            drop(release(waker));
        }
    });
}

/// The steps of C as a future.
struct Stepped(Callback<PollCall>);

impl Stepped {
    fn new(poll: bh_poll_fn, data: Data) -> Outcome<Self> {
        let poll = Callback::new(poll, data);
        poll.map(Self).ok_or_else(|| Failure::null("poll"))
    }
}

impl Future for Stepped {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let waker = bh_waker::new(context.waker().clone());
        let mut result = 0;
        match self.0.call_with_two(&raw const waker, &raw mut result) {
            0 => Poll::Pending,
            _ => Poll::Ready(result),
        }
    }
}

impl bh_waker {
    fn new(waker: Waker) -> Self {
        let process = Process::current();
        Self { waker, process }
    }
}

/// Gives the handle, if C wants it.
fn join(handle: JoinHandle<u64>, out: *mut *mut bh_join) {
    if !out.is_null() {
        let process = Process::current();
        give(Out::optional(out), bh_join { handle, process });
    }
}

impl From<JoinError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: JoinError) -> Self {
        let code = match error {
            JoinError::Deadlock(_) => bh_result::BH_DEADLOCK,
            JoinError::Panicked(_) => bh_result::BH_PANICKED,
            JoinError::Stalled => bh_result::BH_STALLED,
            _ => bh_result::BH_DROPPED,
        };
        Self::new(code, of_a_task(error))
    }
}

/// Why there is no result, in the words of the header: what Rust calls a future is a spawned task.
fn of_a_task(error: JoinError) -> Cow<'static, str> {
    match error {
        JoinError::Aborted => "the task was aborted before it was done".into(),
        JoinError::Dropped => {
            "the task was dropped before it was done: its pool refused it or was shut down, or no waker of it is left".into()
        }
        JoinError::Stalled => "nothing in the simulation can wake the task".into(),
        JoinError::Deadlock(cycle) => {
            format!("waiting would never end: {cycle}").replace("(future)", "(spawned task)").into()
        }
        error => error.to_string().into(),
    }
}
