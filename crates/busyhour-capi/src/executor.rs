//! Where callbacks of timers and subscriptions run: in a pool, in a serializer, on the calling thread, or in an event loop
//! of the program.

use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, Process, Threaded, bh_drop_fn, give, guard, live,
        quietly, release,
    },
    pool::{bh_pool, bh_serializer},
    result::bh_result,
};
use busyhour::task::{Executor, Reason, Rejected, Task};
use std::{ffi::c_void, sync::Arc};

/// Something that runs tasks.
pub struct bh_executor {
    executor: Arc<dyn Executor>,
    process: Process,
}

/// A task that an executor of the program has taken and has to run or to free, once, on any thread.
pub struct bh_task {
    task: Task,
    process: Process,
}

/// Takes a task, to run it later with `bh_task_run`; a result other than 0 refuses it. A refused task still belongs to the
/// library. Any thread calls it. It must not block.
pub type bh_execute_fn =
    Option<unsafe extern "C-unwind" fn(task: *mut bh_task, data: *mut c_void) -> i32>;

/// Runs tasks at once, on the thread that delivers them: the one that calls `bh_timers_run_due`, or that publishes.
pub(crate) struct Inline;

struct OfProgram(Callback<unsafe extern "C-unwind" fn(*mut bh_task, *mut c_void) -> i32>);

impl Threaded for bh_task {
    fn process(&self) -> Process {
        self.process
    }
}

impl Threaded for bh_executor {
    fn process(&self) -> Process {
        self.process
    }
}

/// An executor that runs each task at once on the thread that delivers it.
#[unsafe(no_mangle)]
pub extern "C" fn bh_executor_inline(out: *mut *mut bh_executor) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(out, bh_executor::new(Arc::new(Inline)));
        Ok(())
    })
}

/// An executor that runs tasks on any worker of a pool, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn bh_executor_of_pool(
    pool: *const bh_pool,
    out: *mut *mut bh_executor,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(out, bh_executor::shared(&live(pool, "pool")?.pool));
        Ok(())
    })
}

/// An executor that runs tasks in the order of a serializer.
#[unsafe(no_mangle)]
pub extern "C" fn bh_executor_of_serializer(
    serializer: *const bh_serializer,
    out: *mut *mut bh_executor,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(
            out,
            bh_executor::shared(&live(serializer, "serializer")?.serializer),
        );
        Ok(())
    })
}

/// An executor of the program, for example its event loop. `drop` frees `data` when nothing delivers there any more, or at
/// once if the call fails.
#[unsafe(no_mangle)]
pub extern "C" fn bh_executor_new(
    execute: bh_execute_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut *mut bh_executor,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let execute = Callback::new(execute, data).ok_or_else(|| Failure::null("execute"))?;
        let out = Out::required(out, "out")?;
        give(out, bh_executor::new(Arc::new(OfProgram(execute))));
        Ok(())
    })
}

/// Gives the handle up; what delivers there already goes on.
#[unsafe(no_mangle)]
pub extern "C" fn bh_executor_free(executor: *mut bh_executor) {
    quietly((), || {
        if live(executor, "executor").is_ok() {
            drop(release(executor));
        }
    });
}

/// Runs a task that an executor of the program has taken, and frees it.
#[unsafe(no_mangle)]
pub extern "C" fn bh_task_run(task: *mut bh_task) -> bh_result {
    guard(|| {
        live(task, "task")?;
        let task = release(task).ok_or_else(|| Failure::null("task"))?;
        task.task.run();
        Ok(())
    })
}

/// Frees a task without running it.
#[unsafe(no_mangle)]
pub extern "C" fn bh_task_free(task: *mut bh_task) {
    quietly((), || {
        if live(task, "task").is_ok() {
            drop(release(task));
        }
    });
}

impl bh_executor {
    fn new(executor: Arc<dyn Executor>) -> Self {
        let process = Process::current();
        Self { executor, process }
    }

    fn shared<E: Executor + Clone + 'static>(executor: &E) -> Self {
        let shared = executor.to_shared();
        Self::new(shared.unwrap_or_else(|| Arc::new(executor.clone())))
    }
}

/// The executor of a handle; the inline one for NULL.
#[inline]
pub(crate) fn executor_of(handle: *const bh_executor) -> Outcome<Arc<dyn Executor>> {
    match handle.is_null() {
        true => Ok(Arc::new(Inline)),
        false => Ok(Arc::clone(&live(handle, "on")?.executor)),
    }
}

impl Executor for Inline {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

impl Executor for OfProgram {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        let offered = Box::into_raw(Box::new(bh_task {
            task,
            process: Process::current(),
        }));
        if self.0.call_with(offered) == 0 {
            return Ok(());
        }
        match release(offered) {
            Some(refused) => Err(Rejected {
                task: refused.task,
                reason: Reason::Full,
            }),
            None => Ok(()),
        }
    }

    fn name(&self) -> String {
        "program".to_owned()
    }
}
