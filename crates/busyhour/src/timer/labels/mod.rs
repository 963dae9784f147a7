//! What timers are called, and how late those of a label are.

mod label_index;
mod timer_set;
mod histogram;
#[cfg(all(test, not(any(loom, shuttle))))]
mod cost;

pub(in crate::timer) use histogram::LatenessHistogram;
pub(in crate::timer) use label_index::{FUTURES, Label, LabelIndex, Labels};
pub(in crate::timer) use timer_set::TimerSet;
