//! The last value of each key, read without a lock.

mod table;
mod lines;
mod slot_word;
mod recent;
mod copies;
mod shared;
mod incoming;
mod epoch;
mod garbage;

pub(in crate::bus) use copies::CopiedChanges;
pub(in crate::bus) use epoch::{Pin, pinned};
pub(in crate::bus) use incoming::{EventCopy, Incoming};
pub(in crate::bus) use shared::{Given, Room, SharedEvent};
pub(in crate::bus) use table::{
    CacheTable, CacheWriter, CachedChange, Expected, Judged, LiveSlot, NextSlots, Put, Seen,
    SlotPosition, SlotTenure, Stale, Swept, Unread, UnreadChange,
};
