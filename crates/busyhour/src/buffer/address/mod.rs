//! From an address to its block.

mod recent_block;
mod region;
mod table;
mod size_class;

pub(in crate::buffer) use recent_block::{PinnedByte, RecentBlock};
pub(in crate::buffer) use region::{BlockStripes, Range, Region, SlotIndex};
pub(in crate::buffer) use size_class::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, CLASS_COUNT, GRANULE_BYTES, SizeClass,
};
