//! Pins counted by thread, for blocks that several threads pin.

use crate::sync::{
    atomic::{AtomicU32, Ordering},
    load_sequential_u32,
};

/// The pin counters of one block, one per stripe; each in a table of its own,
/// so that threads of different stripes never write the same cache line.
pub(in crate::buffer) trait Stripes {
    /// The counter of `stripe`, which is below [`STRIPE_COUNT`].
    fn stripe(&self, stripe: usize) -> &AtomicU32;

    /// Removes a pin from any stripe.
    fn take_any(&self) -> bool {
        (0..STRIPE_COUNT).any(|stripe| take_pin(self.stripe(stripe), Count::UNKNOWN))
    }

    /// The limit is half of the counter's range: the other half is for threads
    /// that pass the limit at the same time.
    #[cold]
    fn refuse(&self, stripe: usize) {
        self.stripe(stripe).fetch_sub(1, Ordering::SeqCst);
    }

    /// The values of all counters, read one after the other.
    fn read(&self) -> Reading {
        Reading(std::array::from_fn(|stripe| {
            load_sequential_u32(self.stripe(stripe))
        }))
    }
}

/// Adds a pin to the counter of a stripe and returns its value; `None` if it is
/// full, and the caller must take the pin back by [`Stripes::refuse`].
#[inline]
pub(super) fn add_pin(counter: &AtomicU32) -> Option<Count> {
    let before = counter.fetch_add(ADDED, Ordering::SeqCst);
    let is_full = before & COUNT_MASK >= PIN_COUNT_MAX;
    (!is_full).then_some(Count(before.wrapping_add(ADDED)))
}

/// Removes a pin from the counter of a stripe; `false` if it has none. `guess`
/// is its probable value: reading it right after a write would stall.
#[inline]
#[must_use]
pub(super) fn take_pin(counter: &AtomicU32, guess: Count) -> bool {
    let mut count = guess.0;
    if count & COUNT_MASK == 0 {
        count = counter.load(Ordering::Relaxed);
    }
    while count & COUNT_MASK != 0 {
        match counter.compare_exchange_weak(count, count - 1, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => count = now,
        }
    }
    false
}

/// All counters of a block, with their versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::buffer) struct Reading([u32; STRIPE_COUNT]);

impl Reading {
    /// Whether no counter had a pin when it was read.
    pub(super) fn is_zero(self) -> bool {
        self.pins() == 0
    }

    /// The sum of the pins in all counters.
    pub(in crate::buffer) fn pins(self) -> u64 {
        self.0.iter().map(|count| (count & COUNT_MASK) as u64).sum()
    }
}

/// The value of a counter: the number of pins in the low 20 bits, and in the
/// others how often one was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::buffer) struct Count(u32);

impl Count {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self(0);

    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }
}

/// The number of stripes; a thread uses the one of its index.
pub(in crate::buffer) const STRIPE_COUNT: usize = if cfg!(loom) { 2 } else { 8 };

const COUNT_MASK: u32 = (1 << 20) - 1;
const ADDED: u32 = (1 << 20) + 1;
const PIN_COUNT_MAX: u32 = COUNT_MASK / 2;
