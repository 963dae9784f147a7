//! Who sleeps and who is woken, and who has a place.

mod sleepers;
mod worker_slots;

pub(in crate::pool) use sleepers::Sleepers;
pub(in crate::pool) use worker_slots::WorkerSlots;
