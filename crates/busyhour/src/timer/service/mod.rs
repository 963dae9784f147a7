//! The service: shards of timers, what is due, its delivery, and the driver's wake-up.

mod timer_service;
mod shard;
mod locked_shard;
mod record;
mod closure_pool;
mod again;
mod due;
mod delivery;
mod running;
mod driver_waker;
mod report;
mod listing;
#[cfg(all(test, loom))]
mod model;

pub(in crate::timer) use listing::ListCursor;
pub(in crate::timer) use record::{DeliveryBound, OtherWork, Repeat, Work};
pub(in crate::timer) use timer_service::{Add, Service};
