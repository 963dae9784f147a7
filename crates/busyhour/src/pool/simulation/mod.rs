//! Running tasks one by one from a thread that is no worker.

mod simulated;
mod drive;
mod random;

pub(crate) use random::Random;
pub(in crate::pool) use simulated::{Simulated, SimulatedStep};
