//! Timers: a pure queue and a service that delivers into serializers.
//!
//! [`TimerQueue`] keeps values in the exact order of their deadlines and takes `now`
//! from its owner. [`Timers`] is the service on top: one-shot and periodic
//! callbacks that a serializer or a pool runs.

mod queue;
mod slots;
mod order;
mod run;
mod rung;
mod bucket;
mod entry;
mod timers;
mod builder;
mod handle;
mod service;
mod shard;
mod locked_shard;
mod record;
mod again;
mod due;
mod delivery;
mod running;
mod driver_waker;
mod driver;
mod sleep;
mod rule;
mod slack;
mod labels;
mod timer_set;
mod histogram;
mod report;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, shuttle))]
mod schedules;

pub use builder::TimerBuilder;
pub use driver::Driver;
pub use handle::{Cancel, TimerHandle};
pub use queue::TimerQueue;
pub use rule::MissedTicks;
pub use sleep::{Elapsed, Interval, Sleep};
pub use slots::QueueHandle;
pub use timers::{AddError, DriverError, Timers, TimersBuilder};
