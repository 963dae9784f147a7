use std::sync::Arc;

use super::{Runtime, Simulation, Stations};
use crate::{
    buffer::{self, BufferPool},
    bus::Registry,
    clock::{Clock, UnixTime},
    pool::{self, TaskPool},
};

/// Why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The worker pool could not be built.
    #[error(transparent)]
    Pool(#[from] pool::BuildError),
    /// The buffers could not be reserved.
    #[error(transparent)]
    Buffers(#[from] buffer::Error),
}

/// Options of a [`Runtime`]; every one has a sensible default.
#[must_use]
pub struct Builder {
    pool: pool::Builder,
    clock: Clock,
    buffer_budget_bytes: Option<u64>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            pool: TaskPool::builder(),
            clock: Clock::machine(),
            buffer_budget_bytes: None,
        }
    }

    /// Worker threads; default: the processors this process may use.
    pub fn workers(mut self, count: usize) -> Self {
        self.pool = self.pool.workers(count);
        self
    }

    /// All options of the worker pool, in the place of those given so far.
    pub fn pool(mut self, options: pool::Builder) -> Self {
        self.pool = options;
        self
    }

    /// The clock that everything reads; default: the machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The most that live buffers may hold together; default as
    /// [`BufferPoolBuilder::budget_bytes`](buffer::BufferPoolBuilder::budget_bytes).
    pub fn buffer_budget(mut self, bytes: u64) -> Self {
        self.buffer_budget_bytes = Some(bytes);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub fn build(self) -> Result<Runtime, BuildError> {
        let buffers = self.buffers()?;
        let pool = self.pool.clock(self.clock.clone()).build()?;
        Ok(wire(self.clock, buffers, pool, None))
    }

    pub(super) fn build_simulated(self, seed: u64) -> Runtime {
        let clock = Clock::simulated(SIMULATION_START);
        let options = self.buffer_budget(SIMULATION_BUDGET_BYTES);
        let buffers = options.buffers().expect("64 MiB of address space");
        let pool = TaskPool::simulated(seed, clock.clone());
        let simulation = Simulation::new(seed, clock.clone(), pool.clone());
        wire(clock, buffers, pool, Some(simulation))
    }

    fn buffers(&self) -> Result<BufferPool, buffer::Error> {
        let options = BufferPool::builder();
        match self.buffer_budget_bytes {
            Some(bytes) => options.budget_bytes(bytes).build(),
            None => options.build(),
        }
    }
}

fn wire(
    clock: Clock,
    buffers: BufferPool,
    pool: TaskPool,
    simulation: Option<Simulation>,
) -> Runtime {
    Runtime {
        stations: Arc::new(Stations {
            clock,
            buffers,
            pool,
            topics: Registry::default(),
            simulation,
        }),
    }
}

const SIMULATION_BUDGET_BYTES: u64 = 64 << 20;
/// 2026-01-01 00:00:00 UTC: every simulation starts on the same day.
const SIMULATION_START: UnixTime = UnixTime::from_secs(1_767_225_600);
