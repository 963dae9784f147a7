use super::chunk::RangeSlot;

/// A timer that waits in a range, and whose release leaves nothing to be done but to count it.
pub(in crate::timer) struct RangeTimer<'a, T> {
    slot: RangeSlot<'a, T>,
    until_tidy: &'a mut i64,
}

impl<'a, T> RangeTimer<'a, T> {
    #[inline(always)]
    pub(super) fn new(slot: RangeSlot<'a, T>, until_tidy: &'a mut i64) -> Self {
        Self { slot, until_tidy }
    }

    /// Takes the value out.
    #[inline(always)]
    pub(in crate::timer) fn release(self) -> T {
        *self.until_tidy -= 1;
        self.slot.release()
    }
}
