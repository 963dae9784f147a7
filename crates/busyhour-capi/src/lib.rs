//! The C ABI of Busyhour's runtime. `CONVENTIONS.md` has the conventions; `include/busyhour.h` is generated from these files by
//! `cargo xtask header`.
//!
//! The modules are private, so that no Rust program can call a function here with a pointer that is not C's.
// The types bear the names that C sees: one name for one thing.
#![allow(non_camel_case_types)]

mod edge;
mod result;
mod buffers;
mod heap;
mod run_queue;
mod timer_queue;
mod pool;
mod executor;
mod timers;
mod runtime;
mod topic;
