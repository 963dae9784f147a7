//! Load: on a running server, and on a trial server of this machine.

mod bench_here;
mod storm;

pub use bench_here::BenchHere;
pub use storm::StormCommand;
