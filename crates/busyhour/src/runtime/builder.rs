use std::sync::Arc;

use super::{Runtime, Simulation, Stations};
use crate::{
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
}

/// Options of a [`Runtime`]; every one has a sensible default.
#[must_use]
pub struct Builder {
    pool: pool::Builder,
    clock: Clock,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            pool: TaskPool::builder(),
            clock: Clock::machine(),
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

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub fn build(self) -> Result<Runtime, BuildError> {
        let pool = self.pool.clock(self.clock.clone()).build()?;
        Ok(wire(self.clock, pool, None))
    }

    pub(super) fn build_simulated(self, seed: u64) -> Runtime {
        let clock = Clock::simulated(SIMULATION_START);
        let pool = TaskPool::simulated(seed, clock.clone());
        let simulation = Simulation::new(seed, clock.clone(), pool.clone());
        wire(clock, pool, Some(simulation))
    }
}

fn wire(clock: Clock, pool: TaskPool, simulation: Option<Simulation>) -> Runtime {
    Runtime {
        stations: Arc::new(Stations {
            clock,
            pool,
            simulation,
        }),
    }
}

/// 2026-01-01 00:00:00 UTC: every simulation starts on the same day.
const SIMULATION_START: UnixTime = UnixTime::from_secs(1_767_225_600);
