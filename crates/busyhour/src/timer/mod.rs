//! Timers: a pure queue and a service that delivers into serializers.
//!
//! [`Queue`] keeps values in the exact order of their deadlines and takes `now`
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
mod held;
mod record;
mod again;
mod due;
mod delivery;
mod running;
mod alarm;
mod driver;
mod sleep;
mod rule;
mod slack;
mod labels;
mod members;
mod histogram;
mod report;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, shuttle))]
mod schedules;

pub use builder::TimerBuilder;
pub use driver::Driver;
pub use handle::{Cancel, TimerHandle};
pub use queue::Queue;
pub use rule::MissedTicks;
pub use sleep::{Elapsed, Interval, Sleep};
pub use slots::Handle;
pub use timers::{AddError, Builder, DriverError, Timers};
