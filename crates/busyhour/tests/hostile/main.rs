//! Hostile user code in every place where the library calls it: it panics, publishes,
//! pushes, cancels, waits, drops the last handle or shuts the pool down, inside closures,
//! `Drop`, `Clone`, `Eq`, `Hash`, wakers and hooks. Each case must end and be counted,
//! and the pool, the timers and the topic must work afterwards.
//!
//! There is one file for each module of the library. Each case runs inside
//! [`watchdog::watched`].

mod bombs;
mod buffers;
mod bus;
mod inline_runner;
mod heap;
mod pool;
mod run_queue;
mod runtime;
mod serializer;
mod suspension;
mod tasks;
mod timers;
mod watchdog;
