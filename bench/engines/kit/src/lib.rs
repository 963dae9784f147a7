//! What every Rust engine shares. An engine implements one small trait a
//! scenario; the driver here does the work, times it and prints the lines of
//! the protocol, so that no two engines time different things.

pub mod args;
pub mod buffers;
pub mod bus;
pub mod digest;
pub mod lookup;
pub mod output;
pub mod random;
pub mod run_queue;
pub mod serial;
pub mod tasks;
pub mod timers;

pub use args::Args;
pub use output::Output;
pub use random::Random;
