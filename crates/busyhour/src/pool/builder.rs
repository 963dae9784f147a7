use std::{fmt, num::NonZeroUsize, sync::Arc, thread, time::Duration};

use super::{
    Hook, PoolAlert, PoolAlertHook, TaskPool, future::PollContext, shared::Shared, worker::may_use,
};
use crate::{clock::Clock, run_queue::Thresholds};

/// How a push from outside the pool chooses a worker.
///
/// ```
/// use busyhour::pool::{Selector, TaskPool};
///
/// let pool = TaskPool::builder().workers(2).selector(Selector::LeastFull).build().unwrap();
/// assert_eq!(pool.push_wait(|| 6 * 7), Ok(42));
/// ```
#[doc(alias = "ast_taskpool_selector")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Selector {
    /// Always the same worker for the same pushing thread: best throughput.
    #[default]
    Default,
    /// The worker with the fewest waiting tasks.
    LeastFull,
    /// One worker after the other.
    Sequential,
}

/// Why a pool could not be built.
///
/// ```
/// use busyhour::pool::{PoolBuildError, TaskPool};
///
/// let contradicts_itself = TaskPool::builder().minimum(3).workers(2).maximum(1).build();
/// assert!(matches!(contradicts_itself, Err(PoolBuildError::WorkerCounts { minimum: 3, .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolBuildError {
    /// The worker counts contradict each other.
    WorkerCounts {
        /// The requested minimum.
        minimum: usize,
        /// The requested initial count.
        workers: usize,
        /// The requested maximum.
        maximum: usize,
        /// The maximum number of workers in a pool.
        limit: usize,
    },
    /// The run queues' thresholds contradict each other.
    Thresholds {
        /// Up to so many entities a run queue would stay sorted.
        sorted_max: usize,
        /// With so many left it would become sorted again.
        sorted_again: usize,
        /// The most that a sorted run queue can hold.
        limit: usize,
    },
    /// The name cannot be a thread's name.
    Name(String),
    /// The watermarks contradict each other.
    Watermarks {
        /// The low one.
        low: usize,
        /// The high one.
        high: usize,
    },
    /// A processor given to [`affinity`](TaskPoolBuilder::affinity) does not
    /// exist, or this process may not use it.
    Affinity(usize),
    /// The operating system refused a thread.
    Thread(std::io::Error),
}

impl fmt::Display for PoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkerCounts {
                limit,
                minimum,
                workers,
                maximum,
            } => write!(
                f,
                "workers must satisfy minimum ≤ workers ≤ maximum and 1 ≤ maximum ≤ {limit}, got {minimum} ≤ {workers} ≤ {maximum}"
            ),
            Self::Thresholds {
                limit,
                sorted_again,
                sorted_max,
            } => write!(
                f,
                "a run queue's thresholds must satisfy sorted_again < sorted_max ≤ {limit}, got {sorted_again} and {sorted_max}"
            ),
            Self::Name(name) => {
                write!(f, "a pool's name must not contain a NUL byte, got {name:?}")
            }
            Self::Watermarks { low, high } => write!(
                f,
                "a pool's watermarks must satisfy low < high, got {low} and {high}"
            ),
            Self::Affinity(number) => write!(
                f,
                "workers cannot be kept on processor {number}: it does not exist or is not for this process"
            ),
            Self::Thread(error) => write!(f, "cannot start a worker thread: {error}"),
        }
    }
}

impl std::error::Error for PoolBuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for PoolBuildError {
    fn from(error: std::io::Error) -> Self {
        Self::Thread(error)
    }
}

/// Options of a [`TaskPool`]; every option has a sensible default.
#[doc(alias = "ast_taskpool_options")]
#[derive(Clone)]
#[must_use]
pub struct TaskPoolBuilder {
    pub(super) name: String,
    workers: Option<usize>,
    minimum: Option<usize>,
    maximum: Option<usize>,
    pub(super) auto_increment: usize,
    pub(super) growth_threshold: usize,
    pub(super) idle_timeout: Duration,
    pub(super) selector: Selector,
    pub(super) on_thread_start: Option<Hook>,
    pub(super) on_thread_stop: Option<Hook>,
    pub(super) poll_context: Option<PollContext>,
    pub(super) capacity: usize,
    pub(super) clock: Clock,
    pub(super) processors: Vec<usize>,
    /// Those of the run queues: `sorted_max` and `sorted_again`.
    asked_thresholds: (usize, usize),
    pub(super) thresholds: Thresholds,
    /// The low and the high watermark.
    pub(super) marks: Option<(usize, usize)>,
    pub(super) alert_hooks: Vec<PoolAlertHook>,
}

impl TaskPoolBuilder {
    pub(super) fn new() -> Self {
        Self {
            name: "busyhour".to_owned(),
            workers: None,
            minimum: None,
            maximum: None,
            auto_increment: 1,
            growth_threshold: 200,
            idle_timeout: Duration::from_secs(20),
            selector: Selector::Default,
            on_thread_start: None,
            on_thread_stop: None,
            poll_context: None,
            capacity: DEFAULT_CAPACITY,
            clock: Clock::machine(),
            processors: Vec::new(),
            asked_thresholds: (
                Thresholds::DEFAULT.sorted_max(),
                Thresholds::DEFAULT.sorted_again(),
            ),
            thresholds: Thresholds::DEFAULT,
            marks: None,
            alert_hooks: Vec::new(),
        }
    }

    /// Names the pool; its threads are called `name-0`, `name-1`, … The system
    /// may show only the first 15 bytes. [`build`](Self::build) refuses a name
    /// with a NUL byte.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Workers at the start; default: the number of processors that this
    /// process may use.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// Minimum number of workers, kept even when idle; default: the initial
    /// count. With 0 the last worker may end, too, and the next push starts one;
    /// then the initial count may be 0 as well. If the system refuses that
    /// thread, the push fails with [`Reason::ShutDown`], and a serializer that
    /// was to run drops its tasks and counts them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(0).minimum(0).maximum(2);
    /// let pool = pool.idle_timeout(Duration::from_millis(1)).build().unwrap();
    /// assert_eq!(pool.stats().worker_count, 0);
    /// pool.push_wait(|| ()).unwrap();
    /// while pool.stats().worker_count > 0 {
    ///     std::thread::yield_now();
    /// }
    /// ```
    ///
    /// [`Reason::ShutDown`]: crate::task::Reason::ShutDown
    pub fn minimum(mut self, count: usize) -> Self {
        self.minimum = Some(count);
        self
    }

    /// Maximum number of workers; default: the initial count, so that the pool
    /// does not grow.
    pub fn maximum(mut self, count: usize) -> Self {
        self.maximum = Some(count);
        self
    }

    /// Number of workers added each time the pool grows; default 1.
    pub fn auto_increment(mut self, count: usize) -> Self {
        self.auto_increment = count.max(1);
        self
    }

    /// A push lets the pool grow if more tasks and serializers than this wait
    /// for any worker; default 200.
    pub fn growth_threshold(mut self, tasks: usize) -> Self {
        self.growth_threshold = tasks;
        self
    }

    /// How long a worker above the minimum may be idle before it ends; default
    /// 20 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// How a push from outside chooses a worker; default [`Selector::Default`].
    pub fn selector(mut self, selector: Selector) -> Self {
        self.selector = selector;
        self
    }

    /// Called on each worker's thread before its first task.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_thread_start = Some(Arc::new(hook));
        self
    }

    /// Called on each worker's thread after its last task.
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_thread_stop = Some(Arc::new(hook));
        self
    }

    /// Runs each poll and each drop of a future inside `context`, which calls
    /// its argument once: with the handle of a runtime that has a reactor, the
    /// futures of this pool may use its sockets and timers. That runtime must
    /// be running meanwhile. Tasks that are no futures run outside of it.
    ///
    /// A future whose context panics, or does not call its argument, counts as
    /// one that panicked.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::pool::TaskPool;
    ///
    /// let tokio = tokio::runtime::Builder::new_multi_thread()
    ///     .worker_threads(1)
    ///     .enable_all()
    ///     .build()
    ///     .unwrap();
    /// let handle = tokio.handle().clone();
    /// let pool = TaskPool::builder()
    ///     .workers(1)
    ///     .poll_context(move |poll| {
    ///         let _inside = handle.enter();
    ///         poll();
    ///     })
    ///     .build()
    ///     .unwrap();
    /// let sleeps = pool.spawn(async { tokio::time::sleep(Duration::from_millis(1)).await });
    /// assert_eq!(sleeps.wait(), Ok(()));
    /// ```
    #[doc(alias("enter", "reactor", "tokio handle"))]
    pub fn poll_context(
        mut self,
        context: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.poll_context = Some(Arc::new(context));
        self
    }

    /// How many plain tasks may wait in the pool; default 2^20, about a
    /// million.
    ///
    /// A push counts those of all workers only if the one that it goes to has
    /// its share (the capacity divided by the maximum of workers), since the
    /// count of each worker is another cache line. A worker without tasks takes
    /// some from another, which then has room for a share again; what is on
    /// its way is counted nowhere. So while workers take tasks from each other
    /// more may wait, but never twice as many and 256 for each worker that is
    /// about to take some. While none does, the bound is exact.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.capacity = tasks;
        self
    }

    /// The clock that measures waiting and running times; default: the
    /// machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Keeps each worker on one of these processors, in turns: worker 0 on the
    /// first, and so on from the beginning again. Default: the system decides.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let nowhere = TaskPool::builder().workers(1).affinity(&[99_999]).build();
    /// assert!(nowhere.is_err());
    /// ```
    pub fn affinity(mut self, processors: &[usize]) -> Self {
        self.processors = processors.to_vec();
        self
    }

    /// The lengths at which each worker's run queue changes its structure:
    /// sorted up to `sorted_max` runnable entities, and again when
    /// `sorted_again` are left; default 16 and 8. They change what a switch
    /// costs, never what runs next.
    pub fn run_queue_thresholds(mut self, sorted_max: usize, sorted_again: usize) -> Self {
        self.asked_thresholds = (sorted_max, sorted_again);
        self
    }

    /// Calls `hook` when at least `high` tasks and serializers wait in the whole
    /// pool, and again when at most `low` do; the two alternate. A queue that is
    /// long for a moment only may be missed: it is counted for as many pushes as
    /// there are workers once, and whenever a worker reads the clock.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use busyhour::{pool::TaskPool, task::Watermark};
    ///
    /// let (sender, alerts) = mpsc::channel();
    /// let pool = TaskPool::builder().workers(1);
    /// let pool = pool.on_alert(0, 100, move |alert| sender.send(alert.mark).unwrap());
    /// let pool = pool.build().unwrap();
    /// let (go, gone) = mpsc::channel::<()>();
    /// pool.push(move || _ = gone.recv()).unwrap();
    /// (0..200).for_each(|_| pool.push(|| ()).unwrap());
    /// assert_eq!(alerts.recv(), Ok(Watermark::High));
    /// drop(go);
    /// assert_eq!(alerts.recv(), Ok(Watermark::Low));
    /// ```
    #[doc(alias = "ast_taskprocessor_alert_set_levels")]
    pub fn on_alert(
        mut self,
        low: usize,
        high: usize,
        hook: impl Fn(&PoolAlert) + Send + Sync + 'static,
    ) -> Self {
        self.alert_hooks.push(Arc::new(hook));
        self.watermarks(low, high)
    }

    /// Sets watermarks without a hook, for [`PoolStats`]: it shows whether the
    /// queue is too long, and how often it was.
    ///
    /// [`PoolStats`]: crate::stats::PoolStats
    pub fn watermarks(mut self, low: usize, high: usize) -> Self {
        self.marks = Some((low, high));
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// [`PoolBuildError::WorkerCounts`] if the counts contradict each other,
    /// [`PoolBuildError::Thresholds`] if those do,
    /// [`PoolBuildError::Watermarks`] if those do,
    /// [`PoolBuildError::Name`] if the name contains a NUL byte,
    /// [`PoolBuildError::Affinity`] if this process may not use one of the
    /// processors, [`PoolBuildError::Thread`] if the system refuses a thread;
    /// then no thread is left behind.
    pub fn build(mut self) -> Result<TaskPool, PoolBuildError> {
        let counts = self.counts()?;
        self.thresholds = self.checked_thresholds()?;
        if let Some((low, high)) = self.marks.filter(|(low, high)| low >= high) {
            return Err(PoolBuildError::Watermarks { low, high });
        }
        if self.name.contains('\0') {
            return Err(PoolBuildError::Name(self.name));
        }
        if let Some(refused) = self.processors.iter().find(|number| !may_use(**number)) {
            return Err(PoolBuildError::Affinity(*refused));
        }
        let pool = TaskPool::from_shared(Shared::new(self, counts, None));
        pool.shared().start()?;
        Ok(pool)
    }

    pub(super) fn build_simulated(self, seed: u64) -> TaskPool {
        let counts = WorkerCounts {
            initial: 0,
            minimum: 0,
            maximum: 0,
        };
        TaskPool::from_shared(Shared::new(self, counts, Some(seed)))
    }

    fn checked_thresholds(&self) -> Result<Thresholds, PoolBuildError> {
        let (sorted_max, sorted_again) = self.asked_thresholds;
        Thresholds::new(sorted_max, sorted_again).ok_or(PoolBuildError::Thresholds {
            sorted_max,
            sorted_again,
            limit: Thresholds::LIMIT,
        })
    }

    fn counts(&self) -> Result<WorkerCounts, PoolBuildError> {
        let workers = self.workers.unwrap_or_else(available_parallelism);
        let counts = WorkerCounts {
            initial: workers,
            minimum: self.minimum.unwrap_or(workers),
            maximum: self.maximum.unwrap_or(workers),
        };
        counts.check()
    }
}

/// Worker counts that do not contradict each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerCounts {
    pub(super) initial: usize,
    pub(super) minimum: usize,
    pub(super) maximum: usize,
}

impl WorkerCounts {
    /// The number of worker slots: as many threads again may stand in for
    /// workers that are blocked.
    pub(super) fn places(&self) -> usize {
        2 * self.maximum
    }

    fn check(self) -> Result<Self, PoolBuildError> {
        let ordered = self.minimum <= self.initial
            && self.initial <= self.maximum
            && (1..=WORKERS_MAX).contains(&self.maximum);
        ordered.then_some(self).ok_or(PoolBuildError::WorkerCounts {
            minimum: self.minimum,
            workers: self.initial,
            maximum: self.maximum,
            limit: WORKERS_MAX,
        })
    }
}

fn available_parallelism() -> usize {
    thread::available_parallelism().map_or(2, NonZeroUsize::get)
}

/// The maximum number of workers in a pool.
pub(super) const WORKERS_MAX: usize = 1024;

/// 64 MiB of tasks.
const DEFAULT_CAPACITY: usize = 1 << 20;
