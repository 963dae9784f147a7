//! Answers which buffers are not released: whose they are, how old, and where
//! they were opened.

use std::{backtrace::Backtrace, collections::HashMap, sync::Arc, time::Duration};

use super::{Error, address::SlotIndex};
use crate::{
    clock::{Clock, Instant},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
        lock,
    },
};

/// Stamps, owners' names and traces of a pool.
#[derive(Debug)]
pub(super) struct LeakTracer {
    clock: Clock,
    /// The stamp of the latest clock reading, by any thread.
    stamp: AtomicU32,
    owners: Mutex<Vec<String>>,
    trace_one_in: u32,
    traces: Mutex<HashMap<SlotIndex, Arc<Backtrace>>>,
}

impl LeakTracer {
    /// No buffer is traced.
    pub(super) const TRACE_NONE: u32 = u32::MAX;

    pub(super) fn new(clock: Clock, trace_one_in: u32) -> Self {
        let watch = Self {
            clock,
            stamp: AtomicU32::new(0),
            owners: Mutex::new(vec![UNNAMED.to_owned()]),
            trace_one_in,
            traces: Mutex::default(),
        };
        watch.look_at_clock();
        watch
    }

    /// The stamp for a block that is opened now.
    #[inline]
    pub(super) fn stamp(&self) -> u32 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// Updates the stamp.
    pub(super) fn look_at_clock(&self) {
        let now = stamp_of(self.clock.now());
        // Written only if it changed, since all threads read this cache line.
        if now != self.stamp() {
            self.stamp.store(now, Ordering::Relaxed);
        }
    }

    /// How long ago `stamp` was.
    pub(super) fn age(&self, stamp: u32) -> Duration {
        let ticks = stamp_of(self.clock.now()).wrapping_sub(stamp);
        Duration::from_nanos((ticks as u64) << STAMP_SHIFT)
    }

    /// One of this many buffers is traced.
    pub(super) fn trace_one_in(&self) -> u32 {
        self.trace_one_in
    }

    /// Records where the block at `place` is being opened.
    pub(super) fn trace(&self, place: SlotIndex) {
        let trace = Arc::new(Backtrace::force_capture());
        lock(&self.traces).insert(place, trace);
    }

    /// Forgets the trace of a block that was released.
    pub(super) fn forget(&self, place: SlotIndex) {
        let trace = lock(&self.traces).remove(&place);
        drop(trace);
    }

    /// Where the block at `place` was opened, if it is traced.
    pub(super) fn trace_of(&self, place: SlotIndex) -> Option<String> {
        // Resolving symbol names takes milliseconds, so not under the lock.
        let trace = lock(&self.traces).get(&place).cloned();
        trace.map(|trace| trace.to_string())
    }

    /// The number of the owner called `name`; adds a new owner.
    pub(super) fn owner(&self, name: &str) -> Result<u16, Error> {
        let mut owners = lock(&self.owners);
        let known = owners.iter().position(|owner| owner == name);
        let number = known.unwrap_or(owners.len());
        let number = u16::try_from(number).map_err(|_| Error::TooManyOwners)?;
        if known.is_none() {
            owners.push(name.to_owned());
        }
        Ok(number)
    }

    /// All owners, by number.
    pub(super) fn owners(&self) -> Vec<String> {
        lock(&self.owners).clone()
    }
}

/// The stamp of a moment: one per about 8 ms; it wraps after 416 days.
fn stamp_of(moment: Instant) -> u32 {
    (moment.as_nanos() >> STAMP_SHIFT) as u32
}

/// The owner of buffers without a named owner.
pub(super) const UNOWNED: u16 = 0;
const UNNAMED: &str = "(unnamed)";
const STAMP_SHIFT: u32 = 23;
