//! What the bus promises. The tests that need a process of their own, or take long, are programs beside it.

mod attribute;
mod conflation;
mod forward;
mod in_hand;
mod keys;
#[path = "../model/log.rs"]
mod log;
#[path = "../model/level.rs"]
mod model;
mod origin;
mod packing;
mod panic;
mod promises;
mod publish_if;
mod remove;
mod replay;
mod subscriptions;
mod turns;
mod waiting;
