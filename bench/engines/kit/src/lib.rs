//! What all Rust engines share. An engine implements one small trait for each
//! scenario; the driver here does the work, measures it and prints the lines of
//! the protocol, so that all engines measure the same.

pub mod args;
pub mod buffers;
pub mod bus;
pub mod cpu;
pub mod digest;
pub mod lookup;
pub mod output;
pub mod random;
pub mod run_queue;
pub mod serial;
pub mod spin;
pub mod tasks;
pub mod timers;

pub use args::Args;
pub use output::Output;
pub use random::Random;
