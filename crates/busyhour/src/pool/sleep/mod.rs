//! Which workers sleep and which one is woken, and which slots are taken.

mod sleepers;
mod worker_slots;

pub(in crate::pool) use sleepers::{AfterSearch, Sleepers};
pub(in crate::pool) use worker_slots::WorkerSlots;
