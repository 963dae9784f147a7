//! Futures on the pool: as tasks, as entities, their handles, and their
//! yielding.

mod future_task;
mod join;
mod awaited_futures;
mod budget;
mod first_poll;
mod panic_payload;
mod poll_context;
mod yielding;

pub(in crate::pool) use awaited_futures::AwaitedFutures;
pub(in crate::pool) use budget::{Look, StepBudget};
pub(crate) use first_poll::FirstPoll;
pub(in crate::pool) use future_task::spawn_as;
pub use join::{JoinError, JoinHandle};
pub(crate) use join::{Joinable, spawn_on, try_spawn_on};
pub use panic_payload::PanicPayload;
pub(in crate::pool) use poll_context::PollContext;
pub(crate) use yielding::poll_budget;
pub use yielding::{YieldNow, consume_budget, request_yield, yield_now};
