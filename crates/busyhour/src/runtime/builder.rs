use std::{fmt, sync::Arc};

use super::{Components, Runtime, Simulation, queue_alert::Alerts};
use crate::{
    buffer::{self, BufferPool},
    bus::Registry,
    clock::{Clock, UnixTime},
    pool::{self, TaskPool},
    sync::Mutex,
    timer::{DriverError, Timers},
};

/// Why a runtime could not be built.
///
/// ```
/// use busyhour::{pool::PoolBuildError, runtime::{Runtime, RuntimeBuildError}};
///
/// let runtime = Runtime::builder().workers(usize::MAX).build();
/// let Err(RuntimeBuildError::Pool(error)) = runtime else { panic!("a runtime") };
/// assert!(matches!(error, PoolBuildError::WorkerCounts { .. }));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RuntimeBuildError {
    /// The worker pool could not be built.
    Pool(pool::PoolBuildError),
    /// The buffers could not be reserved.
    Buffers(buffer::Error),
    /// The timers' thread could not be started.
    Timers(DriverError),
}

impl fmt::Display for RuntimeBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(error) => error.fmt(f),
            Self::Buffers(error) => error.fmt(f),
            Self::Timers(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RuntimeBuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pool(error) => error.source(),
            Self::Buffers(error) => error.source(),
            Self::Timers(error) => error.source(),
        }
    }
}

impl From<pool::PoolBuildError> for RuntimeBuildError {
    fn from(error: pool::PoolBuildError) -> Self {
        Self::Pool(error)
    }
}

impl From<buffer::Error> for RuntimeBuildError {
    fn from(error: buffer::Error) -> Self {
        Self::Buffers(error)
    }
}

impl From<DriverError> for RuntimeBuildError {
    fn from(error: DriverError) -> Self {
        Self::Timers(error)
    }
}

/// Options of a [`Runtime`]; every one has a sensible default.
///
/// ```
/// use std::time::Duration;
/// use busyhour::runtime::Runtime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder().workers(2).build()?;
/// let answer = runtime.pool().push_wait(|| 6 * 7)?;
/// assert_eq!(answer, 42);
/// assert!(runtime.shutdown(Duration::from_secs(5)).is_clean());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct RuntimeBuilder {
    pool: pool::TaskPoolBuilder,
    clock: Clock,
    buffer_budget_bytes: Option<u64>,
    traced_one_in: Option<u32>,
}

impl RuntimeBuilder {
    pub(super) fn new() -> Self {
        Self {
            pool: TaskPool::builder(),
            clock: Clock::machine(),
            buffer_budget_bytes: None,
            traced_one_in: None,
        }
    }

    /// The number of worker threads; default: the processors that this process
    /// may use.
    pub fn workers(mut self, count: usize) -> Self {
        self.pool = self.pool.workers(count);
        self
    }

    /// Sets all options of the worker pool, replacing earlier ones.
    pub fn pool(mut self, options: pool::TaskPoolBuilder) -> Self {
        self.pool = options;
        self
    }

    /// Runs each poll of a future inside `context`, for example the handle of
    /// tokio's runtime; see
    /// [`TaskPoolBuilder::poll_context`](pool::TaskPoolBuilder::poll_context).
    pub fn poll_context(
        mut self,
        context: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.pool = self.pool.poll_context(context);
        self
    }

    /// The clock of all components; default: the machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The most bytes that live buffers may hold together; default: that of
    /// [`BufferPoolBuilder::budget_bytes`](buffer::BufferPoolBuilder::budget_bytes).
    pub fn buffer_budget(mut self, bytes: u64) -> Self {
        self.buffer_budget_bytes = Some(bytes);
        self
    }

    /// Captures where one in `count` buffers is opened; see
    /// [`BufferPoolBuilder::trace_one_in`](buffer::BufferPoolBuilder::trace_one_in).
    /// Default: none.
    pub fn trace_one_buffer_in(mut self, count: u32) -> Self {
        self.traced_one_in = Some(count);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// See [`RuntimeBuildError`].
    pub fn build(self) -> Result<Runtime, RuntimeBuildError> {
        let buffers = self.buffers()?;
        let pool = self.pool.clock(self.clock.clone()).build()?;
        let timers = Timers::builder().clock(self.clock.clone()).build();
        let driver = match self.clock.as_virtual() {
            // The program that advances the clock calls `run_due`.
            Some(_) => None,
            None => Some(timers.spawn_driver()?),
        };
        let topics = Registry::default();
        let components = Components {
            clock: self.clock,
            buffers,
            pool,
            timers,
            driver: Mutex::new(driver),
            topics,
            alerts: Alerts::default(),
            simulation: None,
        };
        Ok(components.into_runtime())
    }

    pub(super) fn build_simulated(self, seed: u64) -> Runtime {
        let clock = Clock::simulated(SIMULATION_START);
        let options = self.buffer_budget(SIMULATION_BUDGET_BYTES);
        let buffers = options.buffers().expect("64 MiB of address space");
        let pool = TaskPool::simulated(seed, clock.clone());
        let timers = Timers::builder().clock(clock.clone()).shards(1).build();
        let simulation = Simulation::new(seed, clock.clone(), pool.clone(), timers.clone());
        let topics = Registry::default();
        let components = Components {
            clock,
            buffers,
            pool,
            timers,
            driver: Mutex::new(None),
            topics,
            alerts: Alerts::default(),
            simulation: Some(simulation),
        };
        components.into_runtime()
    }

    fn buffers(&self) -> Result<BufferPool, buffer::Error> {
        let mut options = BufferPool::builder();
        if let Some(count) = self.traced_one_in {
            options = options.trace_one_in(count);
        }
        match self.buffer_budget_bytes {
            Some(bytes) => options.budget_bytes(bytes).build(),
            None => options.build(),
        }
    }
}

impl Components {
    fn into_runtime(self) -> Runtime {
        let components = Arc::new(self);
        let weak = Arc::downgrade(&components);
        // A task that waits in a simulation lets time pass if nothing else can
        // run.
        components.pool.set_idle_hook(move || {
            let components = weak.upgrade();
            let simulation = components.as_ref().and_then(|all| all.simulation.as_ref());
            simulation.is_some_and(Simulation::jump)
        });
        Runtime { components }
    }
}

const SIMULATION_BUDGET_BYTES: u64 = 64 << 20;
/// 2026-01-01 00:00:00 UTC: every simulation starts at this time.
const SIMULATION_START: UnixTime = UnixTime::from_secs(1_767_225_600);
