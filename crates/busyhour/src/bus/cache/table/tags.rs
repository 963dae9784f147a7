//! A byte for each slot, with a part of its key's hash: a lookup looks at those of eight slots at
//! once to guess where the key is. A wrong tag makes it slower, and never wrong: see the module's
//! README.md.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The tags of eight slots, the first in the lowest byte. Written under the shard's lock, read by any
/// thread that is pinned.
pub(super) struct SlotTags(AtomicU64);

/// The tags of eight slots in a row, from any slot on.
#[derive(Clone, Copy)]
pub(super) struct TagWindow(u64);

impl SlotTags {
    /// Those of slots that no key has had.
    pub(super) fn unused() -> Self {
        Self(AtomicU64::new(0))
    }

    /// For the writer, which alone changes it.
    pub(super) fn set(&self, index: usize, hash: u64) {
        let shift = shift_of(index);
        let others = self.0.load(Ordering::Relaxed) & !(0xff << shift);
        (self.0).store(others | (tag(hash) << shift), Ordering::Relaxed);
    }
}

impl TagWindow {
    /// So many slots.
    pub(super) const LEN: usize = 8;

    /// The tags from a slot on, by the two words that they are in.
    #[inline(always)]
    pub(super) fn load(words: [&SlotTags; 2], from: usize) -> Self {
        let [low, high] = words.map(|word| word.0.load(Ordering::Relaxed));
        let shift = shift_of(from);
        // Two steps, since a shift by all 64 bits is none.
        Self((low >> shift) | ((high << 1) << (63 - shift)))
    }

    /// How far from the first one the first slot is that may be that of a key with this hash.
    #[inline(always)]
    pub(super) fn first_with(self, hash: u64) -> Option<usize> {
        let found = zero_bytes(self.0 ^ (tag(hash) * ONES));
        (found != 0).then(|| found.trailing_zeros() as usize / 8)
    }

    /// Whether no key seems to have had one of these slots. Then it is unlikely farther on.
    #[inline(always)]
    pub(super) fn ends_search(self) -> bool {
        zero_bytes(self.0) != 0
    }
}

/// These bits do not choose the slot.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    hash >> 56
}

#[inline(always)]
fn shift_of(index: usize) -> u32 {
    (index % TagWindow::LEN) as u32 * 8
}

/// Has the highest bit of the lowest byte that is zero, and no bit below it.
#[inline(always)]
fn zero_bytes(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & (ONES << 7)
}

const ONES: u64 = 0x0101_0101_0101_0101;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn hash(tag: u8) -> u64 {
        (u64::from(tag) << 56) | 5
    }

    proptest! {
        /// Few different tags, so that many are equal.
        #[test]
        fn a_window_names_the_first_slot_with_the_tag_from_any_slot_on(
            tags in vec(prop_oneof![0..4_u8, Just(255)], 16),
            from in 0..16_usize,
            wanted in prop_oneof![0..4_u8, Just(255)],
        ) {
            let words = [SlotTags::unused(), SlotTags::unused()];
            for (index, tag) in tags.iter().enumerate() {
                // Each slot had another key before.
                words[index / 8].set(index, hash(tag.wrapping_add(1)));
                words[index / 8].set(index, hash(*tag));
            }
            let window = TagWindow::load([&words[from / 8], &words[(from + 8) % 16 / 8]], from);
            let slots: Vec<_> = (from..from + 8).map(|index| tags[index % 16]).collect();
            let expected = slots.iter().position(|tag| *tag == wanted);
            prop_assert_eq!(window.first_with(hash(wanted)), expected);
            prop_assert_eq!(window.ends_search(), slots.contains(&0));
        }
    }
}
