//! Timers: a pure queue and a service that delivers into serializers.
//!
//! [`TimerQueue`] keeps values in the exact order of their deadlines; its owner
//! passes `now`. [`Timers`] is the service on top: one-shot and periodic
//! callbacks that a serializer or a pool runs.

mod queue;
mod timers;
mod builder;
mod handle;
mod pending;
mod rule;
mod slack;
mod service;
mod labels;
mod driver;
mod sleep;
mod backoff;
#[cfg(all(test, shuttle))]
mod schedules;

pub use backoff::Backoff;
pub use builder::TimerBuilder;
pub use driver::Driver;
pub use handle::{Cancel, TimerHandle};
pub use pending::{PendingPhase, PendingTimer, PendingTimers, TimerKind};
pub use queue::{QueueHandle, TimerQueue};
pub use rule::MissedTicks;
pub use sleep::{Elapsed, Interval, Sleep};
pub use timers::{AddError, DriverError, Timers, TimersBuilder};
