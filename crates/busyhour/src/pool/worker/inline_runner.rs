//! A thread of the host that works for the pool between its own waits. See
//! README.md, "Inline runners".

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    turn_runner::TurnRunner,
    worker_thread::{CurrentWorker, Worker},
};
use crate::{
    clock::Instant,
    pool::{TaskPool, context, shared::Shared},
    sync::{Mutex, fences, lock},
};

/// A thread of the host that runs, on itself, what it pushes.
///
/// A thread that waits for packets and pushes a task for each one wakes a
/// worker each time while there is little traffic. Waking a thread costs
/// several times what a short task does. An inline runner runs the task on the
/// thread that pushed it. It has a slot in the pool like a worker: its tasks
/// are counted, charged, and waited for by a shutdown, and workers can take the
/// tasks that it does not get to.
///
/// ```
/// use std::{sync::mpsc, thread};
/// use busyhour::pool::TaskPool;
///
/// let pool = TaskPool::builder().workers(2).build().unwrap();
/// let calls = pool.serializer("calls").build().unwrap();
/// let mut inline_runner = pool.inline_runner();
/// while pool.stats().idle_worker_count < 2 {
///     thread::yield_now();
/// }
/// let (sender, receiver) = mpsc::channel();
/// inline_runner.run(|| calls.push(move || sender.send(thread::current().id()).unwrap()).unwrap());
/// assert_eq!(receiver.try_recv(), Ok(thread::current().id()));
/// ```
#[doc(alias("caller runs", "CallerRunsPolicy"))]
pub struct InlineRunner {
    shared: Arc<Shared>,
    /// `None` in a simulation, and if all slots are taken.
    place: Option<usize>,
    /// Until then the workers run everything.
    rests_until: Instant,
    /// An inline runner is a thread.
    _not_send: PhantomData<*const ()>,
}

impl fmt::Debug for InlineRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineRunner")
            .field("pool", &self.shared.name)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl TaskPool {
    /// Makes this thread an inline runner of the pool. It does not keep the
    /// pool alive. At most eight inline runners have a slot at the same time;
    /// any further one, and every one of a simulated pool, leaves its tasks to
    /// the workers.
    pub fn inline_runner(&self) -> InlineRunner {
        let shared = Arc::clone(self.shared());
        InlineRunner {
            place: match shared.is_simulated() {
                true => None,
                false => shared.workers.inline_runners.take_slot(),
            },
            shared,
            rests_until: Instant::ZERO,
            _not_send: PhantomData,
        }
    }
}

impl InlineRunner {
    /// Calls `collect`, which may push to the pool and its serializers, then
    /// runs the pushed tasks on this thread, for about 200 µs and until the end
    /// of the current turn.
    ///
    /// If `collect` pushed more than one task, a worker is woken for the
    /// others. While no worker sleeps, the workers run everything, as with
    /// pushes from any other thread. The same holds for a tenth of a second
    /// after an inline run of more than a millisecond, since this thread could
    /// not wait for its own input meanwhile.
    ///
    /// `collect` must not wait for a task that it pushed, except with
    /// `push_wait`: the task may be left to this very thread. It must not block
    /// for long either, since a shutdown waits for it. Inside a task of the
    /// pool, and once a shutdown has begun, `run` only calls `collect`.
    ///
    /// # Panics
    ///
    /// If `collect` panics; the workers then run what it pushed. A panic of a
    /// task ends only that task, and is counted.
    pub fn run(&mut self, collect: impl FnOnce()) {
        match self.place {
            Some(number) if self.may_begin() => self.run_at(number, collect),
            _ => collect(),
        }
    }

    /// Whether a push would have to wake a worker, and this thread may do the
    /// work instead.
    fn may_begin(&self) -> bool {
        let shared = &*self.shared;
        let rests = self.rests_until > Instant::ZERO && shared.clock.now() < self.rests_until;
        let is_of_use = shared.lifecycle.is_open() && shared.workers.sleepers.should_wake();
        is_of_use && !rests && !shared.is_inside()
    }

    fn run_at(&mut self, number: usize, collect: impl FnOnce()) {
        let shared = Arc::clone(&self.shared);
        let inline_run = InlineRun::begin(&shared, number);
        if !shared.lifecycle.is_open() {
            // A shutdown began at this moment, and may have seen the inline
            // run.
            drop(inline_run);
            return collect();
        }
        // SAFETY: the place is this inline runner's alone, and the inline runner stays on its thread.
        let ran = unsafe { context::as_worker(&shared, number, || inline_run.run(collect)) };
        drop(inline_run);
        if ran > LONG {
            self.rests_until = shared.clock.now() + REST;
        }
    }
}

impl Drop for InlineRunner {
    fn drop(&mut self) {
        if let Some(number) = self.place {
            self.shared.workers.inline_runners.leave(number);
        }
    }
}

/// An inline run: a shutdown waits for its end, as for a worker's.
struct InlineRun<'a> {
    shared: &'a Shared,
    worker: &'a Worker,
}

impl<'a> InlineRun<'a> {
    /// After this the caller must read the phase.
    fn begin(shared: &'a Shared, number: usize) -> Self {
        let worker = &shared.workers[number];
        worker.is_at_work.store(true, Ordering::SeqCst);
        fences::light();
        Self { shared, worker }
    }

    /// Runs on the thread that is this worker; returns how long it took from
    /// the first task on.
    fn run(&self, collect: impl FnOnce()) -> Duration {
        let Some(current) = CurrentWorker::of(self.shared) else {
            return Duration::ZERO;
        };
        // What is pushed counts as waiting from now on.
        self.worker.gauges.set_now(self.shared.clock.now());
        context::collecting(collect);
        if self.worker.waiting_len() > 1 {
            self.shared.thread_context().wake_a_worker();
        }
        let mut turn_runner = TurnRunner::begin(self.shared, current);
        let began = turn_runner.now();
        loop {
            turn_runner.begin_turn();
            let is_over = turn_runner.now() - began > RUN_MAX || self.shared.is_sealed();
            if is_over || !turn_runner.run_next() {
                break;
            }
        }
        turn_runner.end();
        turn_runner.now() - began
    }
}

impl Drop for InlineRun<'_> {
    /// What is left is the workers'. Notifies a shutdown that waits for this
    /// inline run; seals the pool if its last handle is gone.
    fn drop(&mut self) {
        let (lifecycle, workers) = (&self.shared.lifecycle, &self.shared.workers);
        if self.worker.waiting_len() > 0 {
            self.shared.wake_or_start_one();
        }
        self.worker.is_at_work.store(false, Ordering::SeqCst);
        fences::light();
        if !lifecycle.is_open() {
            lifecycle.after_falling_asleep(workers.sleepers.asleep_len(), workers);
            lifecycle.notify_end();
        }
    }
}

/// Which of the inline runners' slots are taken. They follow the workers'
/// slots.
#[derive(Debug)]
pub(in crate::pool) struct InlineRunners {
    pub(super) first: usize,
    is_taken: Mutex<[bool; INLINE_RUNNERS_MAX]>,
}

impl InlineRunners {
    pub(in crate::pool) fn new(first: usize) -> Self {
        Self {
            first,
            is_taken: Mutex::new([false; INLINE_RUNNERS_MAX]),
        }
    }

    fn take_slot(&self) -> Option<usize> {
        let mut is_taken = lock(&self.is_taken);
        let index = is_taken.iter().position(|is_taken| !is_taken)?;
        is_taken[index] = true;
        Some(self.first + index)
    }

    fn leave(&self, number: usize) {
        lock(&self.is_taken)[number - self.first] = false;
    }
}

/// How many inline runners have a slot.
pub(in crate::pool) const INLINE_RUNNERS_MAX: usize = 8;
/// For about this long the inline runner's own input has to wait.
const RUN_MAX: Duration = Duration::from_micros(200);
const LONG: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_millis(100);

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::{
        pool::phase::{Phase, PhaseCell},
        sync::atomic::AtomicBool,
    };
    use loom::sync::Arc;

    #[derive(Default)]
    struct ModelRunner {
        is_at_work: AtomicBool,
        ran: AtomicBool,
        told: AtomicBool,
    }

    /// The forbidden outcomes: a shutdown saw no inline run, and yet a task is
    /// run afterwards; or it saw one, and is never notified of its end.
    #[test]
    fn loom_a_shutdown_sees_an_inline_run_or_is_seen() {
        loom::model(|| {
            let phase = Arc::new(PhaseCell::open());
            let place = Arc::new(ModelRunner::default());
            let inline_runner = {
                let (phase, place) = (Arc::clone(&phase), Arc::clone(&place));
                loom::thread::spawn(move || inline_run(&phase, &place))
            };
            phase.enter(Phase::Draining);
            fences::heavy();
            let is_quiet = !place.is_at_work.load(Ordering::SeqCst);
            let ran = place.ran.load(Ordering::SeqCst);
            inline_runner.join().unwrap();
            if is_quiet {
                assert_eq!(
                    place.ran.load(Ordering::SeqCst),
                    ran,
                    "a task ran after quiet"
                );
            } else {
                assert!(place.told.load(Ordering::SeqCst), "nobody tells of the end");
            }
        });
    }

    /// As `InlineRun` does it.
    fn inline_run(phase: &PhaseCell, place: &ModelRunner) {
        place.is_at_work.store(true, Ordering::SeqCst);
        fences::light();
        if phase.is_open() {
            place.ran.store(true, Ordering::SeqCst);
        }
        place.is_at_work.store(false, Ordering::SeqCst);
        fences::light();
        if !phase.is_open() {
            place.told.store(true, Ordering::SeqCst);
        }
    }
}
