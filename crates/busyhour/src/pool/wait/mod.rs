//! Waiting: the wait graph, stand-ins, and where a result is stored.

mod wait_graph;
mod blocking;
mod oneshot;
mod oneshot_cell;
mod section;

pub(crate) use blocking::{StandIn, blocking, stand_in};
pub(crate) use oneshot::{OneshotReceiver, oneshot};
pub(in crate::pool) use oneshot_cell::OneshotCell;
pub(crate) use section::{Section, SectionWait};
pub(crate) use wait_graph::{Turns, Waiting, cycle_by_shutdown, in_turn, wait_for, wait_for_turn};
pub(in crate::pool) use wait_graph::{wait_for_quiet, wait_for_ref};
