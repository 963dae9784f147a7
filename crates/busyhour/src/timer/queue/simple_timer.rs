use super::chunk::SimpleSlot;

/// A timer that waits in a range, and whose release leaves nothing to be done but to count it.
pub(in crate::timer) struct SimpleTimer<'a, T> {
    slot: SimpleSlot<'a, T>,
    until_tidy: &'a mut i64,
}

impl<'a, T> SimpleTimer<'a, T> {
    #[inline(always)]
    pub(super) fn new(slot: SimpleSlot<'a, T>, until_tidy: &'a mut i64) -> Self {
        Self { slot, until_tidy }
    }

    /// Takes the value out.
    #[inline(always)]
    pub(in crate::timer) fn release(self) -> T {
        *self.until_tidy -= 1;
        self.slot.release()
    }
}
