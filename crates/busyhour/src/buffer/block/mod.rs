//! The states of a block: what holds it and what pins it.

mod slot;
mod slot_header;
mod stripes;
#[cfg(all(test, loom))]
mod model;

pub(in crate::buffer) use slot::{DropPin, Pinner, RefByte, Remaining, Slot, TryDropPin, TryPin};
pub(in crate::buffer) use slot_header::{Ref, SlotHeader};
pub(in crate::buffer) use stripes::{STRIPE_COUNT, Stripes};
