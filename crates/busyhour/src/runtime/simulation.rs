use std::{fmt, time::Duration};

use super::fnv::{FNV_OFFSET, fnv_step};
use crate::{
    clock::{Clock, Instant},
    pool::{Random, TaskPool},
    sync::{Mutex, lock},
    timer::Timers,
};

/// Drives a simulated runtime: one task at a time, in an order chosen by the
/// seed, in virtual time.
///
/// ```
/// use std::time::Duration;
/// use busyhour::runtime::Runtime;
///
/// let trace = |seed| {
///     let runtime = Runtime::simulated(seed);
///     let simulation = runtime.simulation().unwrap();
///     simulation.run_for(Duration::from_secs(60));
///     simulation.trace_u64(simulation.random_u64());
///     simulation.trace_hash()
/// };
/// assert_eq!(trace(1), trace(1));
/// assert_ne!(trace(1), trace(2));
/// ```
#[doc(alias("turmoil", "madsim", "deterministic simulation"))]
pub struct Simulation {
    clock: Clock,
    pool: TaskPool,
    timers: Timers,
    state: Mutex<SimulationState>,
}

struct SimulationState {
    random: Random,
    hash: u64,
}

impl Simulation {
    pub(super) fn new(seed: u64, clock: Clock, pool: TaskPool, timers: Timers) -> Self {
        let state = Mutex::new(SimulationState {
            // A separate sequence, not the pool's: numbers that a test draws
            // must not change the schedule.
            random: Random::new(seed ^ STREAM),
            hash: FNV_OFFSET,
        });
        Self {
            clock,
            pool,
            timers,
            state,
        }
    }

    /// Runs one task that is runnable now. If there is none, time jumps to the
    /// next timer, which is delivered. Returns `false` if there is no timer
    /// either.
    pub fn step(&self) -> bool {
        self.pool.step() || self.jump()
    }

    /// Runs everything that can run at this instant, including due timers; time
    /// stands still.
    pub fn run_until_idle(&self) {
        self.run_until(self.clock.now());
    }

    /// Runs for `span` of virtual time.
    pub fn run_for(&self, span: Duration) {
        self.run_until(self.clock.now() + span);
    }

    /// Runs until the virtual clock shows `end`, including timers that are due
    /// at `end`.
    pub fn run_until(&self, end: Instant) {
        self.run_tasks();
        while self.next_deadline().is_some_and(|next| next <= end) && self.jump() {
            self.run_tasks();
        }
        self.advance_to(end);
    }

    /// The next number of the seed's sequence, for faults, delays and choices
    /// of the test itself.
    pub fn random_u64(&self) -> u64 {
        lock(&self.state).random.next_u64()
    }

    /// Adds bytes to the trace.
    pub fn trace(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        state.hash = bytes
            .iter()
            .fold(state.hash, |hash, byte| fnv_step(hash, *byte));
    }

    /// Adds a number to the trace.
    pub fn trace_u64(&self, value: u64) {
        self.trace(&value.to_le_bytes());
    }

    /// A hash of the trace, the number of tasks that ran and the time that
    /// passed: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        let ran = self.pool.stats().processed.to_le_bytes();
        let now = self.clock.now().as_nanos().to_le_bytes();
        let traced = lock(&self.state).hash;
        ran.iter()
            .chain(&now)
            .fold(traced, |hash, byte| fnv_step(hash, *byte))
    }

    /// Advances time to the next timer and delivers what is due then; `false`
    /// if nothing was.
    pub(super) fn jump(&self) -> bool {
        let Some(next) = self.next_deadline() else {
            return false;
        };
        self.advance_to(next);
        self.timers.run_due(self.clock.now()) > 0
    }

    fn run_tasks(&self) {
        while self.pool.step() {}
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn advance_to(&self, instant: Instant) {
        if let Some(clock) = self.clock.as_virtual() {
            clock.advance_to(instant);
        }
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("now", &self.clock.now())
            .field("trace_hash", &self.trace_hash())
            .finish_non_exhaustive()
    }
}

/// Separates the simulation's own sequence from the schedule's.
const STREAM: u64 = 0x5851_f42d_4c95_7f2d;
