//! The state of one block: its holders, and how many of its bytes are in use.
//! This module's `README.md` describes the protocol and why it is right.

use std::cell::Cell;

use super::{
    slot_header::{HANDLE_COUNT_MAX, Ref, SlotHeader},
    stripes::{Count, STRIPE_COUNT, Stripes, add_pin, take_pin},
};
use crate::sync::{
    atomic::{AtomicU32, AtomicU64, Ordering},
    load_sequential_u64, thread_index, zeroed,
};

/// The state of one block.
///
/// | field | written by | when |
/// |---|---|---|
/// | `word` | the thread that opens the block | once, while the block is free and belongs to that thread |
/// | | every holder | to add or drop its own hold |
/// | `len` | the thread that opened the block | until it is published, then never |
/// | `born` | the thread that opens the block | once, before it is published |
#[derive(Debug, Default)]
#[repr(C)]
pub(in crate::buffer) struct Slot {
    word: AtomicU64,
    len: AtomicU32,
    born: AtomicU32,
}

impl Slot {
    /// Opens a free block, which the caller took from a bin, for one holder. No
    /// address inside it can be pinned before [`Slot::publish`].
    #[inline]
    pub(in crate::buffer) fn open(&self, hold: Ref, born: u32) {
        let free = SlotHeader(self.word.load(Ordering::Relaxed));
        debug_assert!(!free.is_live());
        self.len.store(0, Ordering::Relaxed);
        self.born.store(born, Ordering::Relaxed);
        self.word.store(free.opened(hold).0, Ordering::Release);
    }

    /// Allows the first `len` bytes to be pinned by address from now on.
    #[inline]
    pub(in crate::buffer) fn publish(&self, len: usize) {
        self.len.store(len as u32, Ordering::Release);
    }

    /// Adds a handle beside one that the caller has.
    #[inline]
    pub(in crate::buffer) fn add_handle(&self) {
        let before = SlotHeader(self.word.fetch_add(Ref::Handle.unit(), Ordering::Relaxed));
        if before.handles() >= HANDLE_COUNT_MAX {
            too_many_handles();
        }
    }

    /// Drops a handle of the caller, if there is another one: then the caller
    /// was not the last holder, and has nothing else to do.
    #[inline]
    #[must_use]
    pub(in crate::buffer) fn drop_one_of_several(&self) -> bool {
        let word = self.load();
        word.handles() > 1 && self.swap(word, word.dropped(Ref::Handle)).is_ok()
    }

    /// Drops a handle of the caller.
    #[inline]
    pub(in crate::buffer) fn drop_handle(&self, stripes: &impl Stripes) -> Remaining {
        let before = self.word.fetch_sub(Ref::Handle.unit(), Ordering::SeqCst);
        self.settle(SlotHeader(before).dropped(Ref::Handle), stripes)
    }

    /// Adds a handle for a caller that knows an address `offset` bytes into the block.
    pub(in crate::buffer) fn handle_byte(&self, offset: usize, stripes: &impl Stripes) -> RefByte {
        let mut word = self.load();
        loop {
            if !word.is_live() || !self.covers(offset) {
                return RefByte::NotLive;
            }
            if word.handles() >= HANDLE_COUNT_MAX {
                return RefByte::TooMany(Remaining::Some);
            }
            let next = match word.is_open() {
                true => word.with_handle(),
                false => word.reopened(Ref::Handle),
            };
            match self.swap(word, next) {
                Ok(()) if self.covers(offset) => return RefByte::Held,
                Ok(()) => return RefByte::Withdrawn(self.drop_handle(stripes)),
                Err(now) => word = now,
            }
        }
    }

    /// Adds a pin for a caller that knows an address `offset` bytes into the
    /// block, if that is as usual: the block is open and striped. `counter` is
    /// that of the thread's stripe. It calls nothing, so that its caller keeps
    /// nothing across a call.
    #[inline(always)]
    pub(in crate::buffer) fn try_pin(
        &self,
        offset: usize,
        pinner: &Pinner,
        counter: &AtomicU32,
    ) -> TryPin {
        let word = self.load();
        match word.is_open() && word.is_striped() && self.covers(offset) {
            true => self.pin_stripe(offset, pinner, counter),
            false => TryPin::Unusual,
        }
    }

    /// Adds a pin; `tried` is what came of [`Slot::try_pin`].
    pub(in crate::buffer) fn pin_byte(
        &self,
        tried: TryPin,
        offset: usize,
        pinner: &Pinner,
        stripes: &impl Stripes,
    ) -> RefByte {
        let stripe = pinner.stripe();
        let tried = match tried {
            TryPin::Unusual => self.try_pin(offset, pinner, stripes.stripe(stripe)),
            other => other,
        };
        match tried {
            TryPin::Held => RefByte::Held,
            TryPin::Unusual => self.pin_first(offset, pinner, stripes),
            TryPin::Full => {
                stripes.refuse(stripe);
                // The thread that dropped the last hold meanwhile has seen this pin.
                RefByte::TooMany(self.settle_stripe(stripes))
            }
            TryPin::Changed => RefByte::Withdrawn(self.withdraw(pinner, stripes)),
        }
    }

    /// Removes a pin, if that is as usual: from the thread's stripe of a block
    /// that is open, or the own pin of one that is not striped. `counter` is
    /// that of the thread's stripe. It calls nothing.
    #[inline(always)]
    pub(in crate::buffer) fn try_drop_pin(
        &self,
        offset: usize,
        pinner: &Pinner,
        counter: &AtomicU32,
    ) -> TryDropPin {
        let word = self.load();
        if !word.is_live() || !self.covers(offset) {
            return TryDropPin::Unusual;
        }
        if word.is_striped() {
            if !take_pin(counter, pinner.recall(self)) {
                return TryDropPin::Unusual;
            }
            return match SlotHeader(load_sequential_u64(&self.word)).is_closed() {
                true => TryDropPin::Closed,
                false => TryDropPin::Dropped,
            };
        }
        if !word.has_pin() {
            return TryDropPin::Unusual;
        }
        let next = word.dropped(Ref::Pin);
        match self.swap(word, next) {
            Ok(()) if next.is_open() => TryDropPin::Dropped,
            Ok(()) => TryDropPin::Last(next),
            Err(_) => TryDropPin::Unusual,
        }
    }

    /// Removes a pin, if the block is live, covers the byte at `offset` and has
    /// one; `tried` is what came of [`Slot::try_drop_pin`].
    pub(in crate::buffer) fn drop_pin(
        &self,
        tried: TryDropPin,
        offset: usize,
        pinner: &Pinner,
        stripes: &impl Stripes,
    ) -> DropPin {
        match tried {
            TryDropPin::Dropped => DropPin::Dropped(Remaining::Some),
            TryDropPin::Last(word) => DropPin::Dropped(Remaining::None(word)),
            TryDropPin::Closed => DropPin::Dropped(self.settle_stripe(stripes)),
            TryDropPin::Unusual => self.drop_any_pin(offset, pinner, stripes),
        }
    }

    fn drop_any_pin(&self, offset: usize, pinner: &Pinner, stripes: &impl Stripes) -> DropPin {
        let mut word = self.load();
        loop {
            if !word.is_live() || !self.covers(offset) {
                return DropPin::NotLive;
            }
            if word.is_striped() {
                return self.take_pin(pinner, stripes);
            }
            if !word.has_pin() {
                return DropPin::NotPinned;
            }
            let next = word.dropped(Ref::Pin);
            match self.swap(word, next) {
                Ok(()) => return DropPin::Dropped(self.settle(next, stripes)),
                Err(now) => word = now,
            }
        }
    }

    /// Sets a mark on a live block; `false` if the block is free.
    pub(in crate::buffer) fn mark(&self, mark: impl Fn(SlotHeader) -> SlotHeader) -> bool {
        let mut word = self.load();
        while word.is_live() {
            match self.swap(word, mark(word)) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The current word.
    #[inline]
    pub(in crate::buffer) fn load(&self) -> SlotHeader {
        SlotHeader(self.word.load(Ordering::Acquire))
    }

    /// The bytes in use, 0 while they are still being written.
    #[inline]
    pub(in crate::buffer) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// The stamp with which it was opened.
    pub(in crate::buffer) fn born(&self) -> u32 {
        self.born.load(Ordering::Relaxed)
    }

    #[inline]
    fn covers(&self, offset: usize) -> bool {
        offset < self.len()
    }

    #[inline]
    fn swap(&self, from: SlotHeader, to: SlotHeader) -> Result<(), SlotHeader> {
        self.word
            .compare_exchange_weak(from.0, to.0, Ordering::SeqCst, Ordering::Acquire)
            .map(|_| ())
            .map_err(SlotHeader)
    }

    /// Pins a block that is not both open and striped: the first pin since the
    /// block was opened sends all others to the stripes, and one on a closed
    /// block reopens it.
    #[cold]
    fn pin_first(&self, offset: usize, pinner: &Pinner, stripes: &impl Stripes) -> RefByte {
        let mut word = self.load();
        loop {
            if !word.is_live() || !self.covers(offset) {
                return RefByte::NotLive;
            }
            if word.is_closed() {
                match self.swap(word, word.reopened(Ref::Pin)) {
                    Ok(()) if self.covers(offset) => return RefByte::Held,
                    Ok(()) => return RefByte::Withdrawn(self.withdraw(pinner, stripes)),
                    Err(now) => word = now,
                }
                continue;
            }
            match self.swap(word, word.striped()) {
                Ok(()) => {
                    let counter = stripes.stripe(pinner.stripe());
                    let pinned = self.pin_stripe(offset, pinner, counter);
                    return match self.pin_byte(pinned, offset, pinner, stripes) {
                        RefByte::Held => RefByte::FirstHeld,
                        other => other,
                    };
                }
                Err(now) => word = now,
            }
        }
    }

    /// Counts a pin in the thread's stripe. The pin holds only if the block is
    /// open and striped afterwards: then the thread that closes it will read the
    /// stripes. The block may also have been freed and opened again since its
    /// length was read; now that it is held, the length does not change.
    #[inline(always)]
    fn pin_stripe(&self, offset: usize, pinner: &Pinner, counter: &AtomicU32) -> TryPin {
        let Some(count) = add_pin(counter) else {
            return TryPin::Full;
        };
        let word = SlotHeader(load_sequential_u64(&self.word));
        match word.is_open() && word.is_striped() && self.covers(offset) {
            true => {
                pinner.remember(self, count);
                TryPin::Held
            }
            false => TryPin::Changed,
        }
    }

    #[cold]
    fn withdraw(&self, pinner: &Pinner, stripes: &impl Stripes) -> Remaining {
        match self.take_pin(pinner, stripes) {
            DropPin::Dropped(remaining) => remaining,
            // Another caller removed one pin too many: this one.
            DropPin::NotLive | DropPin::NotPinned => Remaining::Some,
        }
    }

    /// Removes a pin from the thread's stripe, the word, or another stripe.
    fn take_pin(&self, pinner: &Pinner, stripes: &impl Stripes) -> DropPin {
        if take_pin(stripes.stripe(pinner.stripe()), pinner.recall(self)) {
            return DropPin::Dropped(self.settle_stripe(stripes));
        }
        self.take_strange_pin(stripes)
    }

    #[cold]
    fn take_strange_pin(&self, stripes: &impl Stripes) -> DropPin {
        loop {
            let word = self.load();
            if word.has_pin() {
                let next = word.dropped(Ref::Pin);
                if self.swap(word, next).is_ok() {
                    return DropPin::Dropped(self.settle(next, stripes));
                }
            } else if stripes.take_any() {
                return DropPin::Dropped(self.settle_stripe(stripes));
            } else if self.has_no_pin(word, stripes) {
                return DropPin::NotPinned;
            }
        }
    }

    /// Whether, at one moment, there was no pin in the word or in a stripe: all
    /// are read twice, and nothing was added in between.
    fn has_no_pin(&self, word: SlotHeader, stripes: &impl Stripes) -> bool {
        let first = stripes.read();
        first.is_zero() && first == stripes.read() && word == self.load()
    }

    /// Whether the block is still held, after the caller removed a pin from the
    /// stripes.
    fn settle_stripe(&self, stripes: &impl Stripes) -> Remaining {
        self.finish(SlotHeader(load_sequential_u64(&self.word)), stripes)
    }

    /// Whether the block is still held, after the caller dropped a hold from
    /// its word and `word` was the result.
    #[inline]
    fn settle(&self, word: SlotHeader, stripes: &impl Stripes) -> Remaining {
        if word.is_open() {
            return Remaining::Some;
        }
        if !word.is_striped() {
            return Remaining::None(word);
        }
        self.finish(word, stripes)
    }

    /// Frees the block if it is closed and its stripes are empty.
    fn finish(&self, mut word: SlotHeader, stripes: &impl Stripes) -> Remaining {
        while word.is_closed() && stripes.read().is_zero() {
            match self.swap(word, word.finished()) {
                Ok(()) => return Remaining::None(word),
                Err(now) => word = now,
            }
        }
        Remaining::Some
    }
}

/// A thread's state for pins: its stripe, and the slot and cached counter of
/// the latest pin.
#[derive(Debug)]
pub(in crate::buffer) struct Pinner {
    /// One more than the stripe; 0 until the thread's first pin.
    dealt: Cell<usize>,
    latest_slot: Cell<usize>,
    latest_count: Cell<u32>,
}

zeroed!(Pinner {
    dealt,
    latest_slot,
    latest_count
});

impl Pinner {
    /// A thread of the given stripe. Others get theirs with their first pin:
    /// stripes are assigned in rotation, so that few threads share one.
    #[cfg(all(test, not(shuttle)))]
    pub(in crate::buffer) const fn new(stripe: usize) -> Self {
        Self {
            dealt: Cell::new(1 + stripe),
            latest_slot: Cell::new(0),
            latest_count: Cell::new(0),
        }
    }

    #[inline]
    pub(in crate::buffer) fn stripe(&self) -> usize {
        self.dealt().unwrap_or_else(|| self.deal())
    }

    /// The thread's stripe, if it has pinned or unpinned before.
    #[inline(always)]
    pub(in crate::buffer) fn dealt(&self) -> Option<usize> {
        self.dealt.get().checked_sub(1)
    }

    #[cold]
    fn deal(&self) -> usize {
        let stripe = thread_index() % STRIPE_COUNT;
        self.dealt.set(1 + stripe);
        stripe
    }

    #[inline]
    fn remember(&self, slot: &Slot, count: Count) {
        self.latest_slot.set((&raw const *slot).addr());
        self.latest_count.set(count.bits());
    }

    /// The probable value of the thread's counter for `slot`.
    #[inline]
    fn recall(&self, slot: &Slot) -> Count {
        match self.latest_slot.get() == (&raw const *slot).addr() {
            true => Count::from_bits(self.latest_count.get()),
            false => Count::UNKNOWN,
        }
    }
}

/// The result of adding a hold by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(in crate::buffer) enum RefByte {
    /// The caller holds the block.
    Held,
    /// The same, by the first pin since the block was opened for a value.
    FirstHeld,
    /// No live buffer has that byte; nothing changed.
    NotLive,
    /// The counter is full; nothing changed, but the caller may have become the
    /// last holder meanwhile.
    TooMany(Remaining),
    /// The block was released or reopened meanwhile; the hold was given back,
    /// which may have been the last one. The caller must try again to find out
    /// whether the byte belongs to a live buffer now.
    Withdrawn(Remaining),
}

/// What came of adding a pin as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(in crate::buffer) enum TryPin {
    /// The caller holds the block.
    Held,
    /// It is not as usual; nothing changed.
    Unusual,
    /// The pin is counted in the thread's stripe, which is full.
    Full,
    /// The same in one that is not, and the block was released or reopened
    /// meanwhile.
    Changed,
}

/// What came of removing a pin as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(in crate::buffer) enum TryDropPin {
    /// The pin was removed, and others hold the block.
    Dropped,
    /// The caller was the last holder, as in [`Remaining::None`].
    Last(SlotHeader),
    /// The pin was removed from the thread's stripe, and only stripes may hold
    /// the block.
    Closed,
    /// It is not as usual; nothing changed.
    Unusual,
}

/// The result of removing a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(in crate::buffer) enum DropPin {
    /// The pin was removed.
    Dropped(Remaining),
    /// No live buffer has that byte; nothing changed.
    NotLive,
    /// The buffer is live, but has no pin by address; nothing changed.
    NotPinned,
}

/// Whether the block is still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(in crate::buffer) enum Remaining {
    /// It is held, or another thread was the last holder.
    Some,
    /// The caller was the last holder and must put the block back. The word
    /// still has the marks of the buffer.
    None(SlotHeader),
}

#[cold]
fn too_many_handles() -> ! {
    // Aborts, like `Arc`: continuing would free memory in use.
    std::process::abort()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The counters of a block whose holders all leave while one pin too many
    /// is being taken back.
    struct Left<'a> {
        slot: &'a Slot,
        counts: [AtomicU32; STRIPE_COUNT],
    }

    impl Stripes for Left<'_> {
        fn stripe(&self, stripe: usize) -> &AtomicU32 {
            &self.counts[stripe]
        }

        fn refuse(&self, stripe: usize) {
            let mine = self.read().pins() - 1;
            assert_eq!(self.slot.drop_handle(self), Remaining::Some);
            let other = Pinner::new(stripe);
            for _ in 0..mine {
                let dropped = self.slot.drop_pin(TryDropPin::Unusual, 0, &other, self);
                assert_eq!(dropped, DropPin::Dropped(Remaining::Some));
            }
            self.stripe(stripe).fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_refused_pin_may_be_the_last_one_to_be_removed() {
        let (slot, pinner) = (Slot::default(), Pinner::new(0));
        slot.open(Ref::Handle, 0);
        slot.publish(1);
        let stripes = Left {
            slot: &slot,
            counts: Default::default(),
        };
        let last = loop {
            match slot.pin_byte(TryPin::Unusual, 0, &pinner, &stripes) {
                RefByte::Held | RefByte::FirstHeld => {}
                refused => break refused,
            }
        };
        assert!(matches!(last, RefByte::TooMany(Remaining::None(_))));
        assert!(stripes.read().is_zero() && !slot.load().is_live());
    }
}
