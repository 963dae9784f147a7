use super::entry::{Liveness, TimerEntry};

/// Entries in the order in which they were pushed, in a chain of blocks.
///
/// Pushing writes one entry behind the last one. Blocks are removed in the same
/// order: the chain is reversed when removing begins.
#[derive(Debug)]
pub(in crate::timer) struct Bucket {
    /// The block that is being filled, chained to older ones.
    back: Option<Box<EntryBlock>>,
    /// How full that block is; [`BLOCK_LEN`] if there is none.
    back_len: usize,
    /// Blocks older than those, the oldest first.
    front: Option<Box<EntryBlock>>,
    /// The entries of all blocks but the one that is being filled.
    sealed_len: usize,
}

#[derive(Debug)]
pub(in crate::timer) struct EntryBlock {
    next: Option<Box<EntryBlock>>,
    /// Set when the block is full or removed.
    len: usize,
    entries: [TimerEntry; BLOCK_LEN],
}

/// Unused blocks, kept for the next bucket that needs one.
#[derive(Debug)]
pub(in crate::timer) struct Spare {
    blocks: Option<Box<EntryBlock>>,
    count: usize,
}

impl Bucket {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            back: None,
            back_len: BLOCK_LEN,
            front: None,
            sealed_len: 0,
        }
    }

    pub(in crate::timer) fn len(&self) -> usize {
        let open = self.back.as_ref().map_or(0, |_| self.back_len);
        self.sealed_len + open
    }

    pub(in crate::timer) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(in crate::timer) fn push(&mut self, entry: TimerEntry, spare: &mut Spare) {
        match &mut self.back {
            Some(block) if self.back_len < BLOCK_LEN => {
                block.entries[self.back_len] = entry;
                self.back_len += 1;
            }
            _ => self.push_into_new(entry, spare),
        }
    }

    /// Removes the oldest block.
    pub(super) fn take_block(&mut self) -> Option<Box<EntryBlock>> {
        if self.front.is_none() {
            self.turn();
        }
        let mut block = self.front.take()?;
        self.front = block.next.take();
        self.sealed_len -= block.len;
        Some(block)
    }

    /// Puts the entries of `block` behind the others.
    pub(super) fn append(&mut self, block: Box<EntryBlock>, spare: &mut Spare) {
        let (mut entries, room) = (block.entries(), BLOCK_LEN - self.back_len);
        if let Some(back) = &mut self.back {
            let (fitting, rest) = entries.split_at(room.min(entries.len()));
            let end = self.back_len + fitting.len();
            back.entries[self.back_len..end].copy_from_slice(fitting);
            self.back_len = end;
            entries = rest;
        }
        entries.iter().for_each(|&entry| self.push(entry, spare));
        spare.put(block);
    }

    /// The earliest and the latest deadline.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        let mut bounds = (u64::MAX, 0);
        self.for_each(|entry| {
            let at = entry.deadline_ns;
            bounds = (bounds.0.min(at), bounds.1.max(at));
        });
        (bounds.0 <= bounds.1).then_some(bounds)
    }

    /// Visits the entries, in no defined order.
    pub(super) fn for_each(&self, mut visit: impl FnMut(TimerEntry)) {
        if let Some(open) = &self.back {
            let entries = open.entries[..self.back_len].iter();
            entries.copied().for_each(&mut visit);
        }
        let older = self.back.as_ref().and_then(|block| block.next.as_deref());
        for chain in [older, self.front.as_deref()] {
            let blocks = std::iter::successors(chain, |block| block.next.as_deref());
            let entries = blocks.flat_map(|block| block.entries());
            entries.copied().for_each(&mut visit);
        }
    }

    /// The entries that were pushed last.
    pub(super) fn newest(&self) -> &[TimerEntry] {
        match &self.back {
            Some(block) => &block.entries[..self.back_len],
            None => &[],
        }
    }

    #[cold]
    fn push_into_new(&mut self, entry: TimerEntry, spare: &mut Spare) {
        self.seal();
        let mut block = spare.take();
        block.entries[0] = entry;
        block.next = self.back.take();
        self.back = Some(block);
        self.back_len = 1;
    }

    fn seal(&mut self) {
        if let Some(block) = &mut self.back {
            block.len = self.back_len;
            self.sealed_len += self.back_len;
        }
    }

    /// Moves the back blocks to the front.
    fn turn(&mut self) {
        self.seal();
        while let Some(mut block) = self.back.take() {
            self.back = block.next.take();
            block.next = self.front.take();
            self.front = Some(block);
        }
        self.back_len = BLOCK_LEN;
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Bucket {
    /// Drops the chain block by block; the default drop would recurse.
    fn drop(&mut self) {
        while self.take_block().is_some() {}
    }
}

impl EntryBlock {
    pub(super) fn entries(&self) -> &[TimerEntry] {
        &self.entries[..self.len]
    }

    /// Drops the dead entries, without a branch that depends on them; returns
    /// how many.
    pub(in crate::timer) fn retain<L: Liveness>(&mut self, live: &L) -> usize {
        if L::NONE_DEAD {
            return 0;
        }
        let mut kept = 0;
        for index in 0..self.len {
            let entry = self.entries[index];
            self.entries[kept] = entry;
            kept += usize::from(live.is_live(entry));
        }
        let dead = self.len - kept;
        self.len = kept;
        dead
    }

    /// Removes the entries for which `keep` is false; they are expected to be
    /// few.
    pub(super) fn retain_entries(&mut self, mut keep: impl FnMut(TimerEntry) -> bool) {
        let mut kept = 0;
        for index in 0..self.len {
            let entry = self.entries[index];
            if keep(entry) {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.len = kept;
    }
}

impl Spare {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            blocks: None,
            count: 0,
        }
    }

    fn take(&mut self) -> Box<EntryBlock> {
        let Some(mut block) = self.blocks.take() else {
            return Box::new(EntryBlock {
                next: None,
                len: 0,
                entries: [TimerEntry::NONE; BLOCK_LEN],
            });
        };
        self.blocks = block.next.take();
        self.count -= 1;
        block
    }

    /// Keeps a block.
    pub(super) fn put(&mut self, mut block: Box<EntryBlock>) {
        block.next = self.blocks.take();
        self.blocks = Some(block);
        self.count += 1;
    }

    /// Returns blocks to the allocator until the kept ones can hold no more
    /// than half of `entry_count`, and a few thousand more.
    pub(super) fn trim(&mut self, entry_count: usize) {
        let kept = KEPT_MIN + entry_count / (2 * BLOCK_LEN);
        while self.count > kept {
            drop(self.take());
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        while self.count > 0 {
            drop(self.take());
        }
    }
}

/// Entries of a block, which is 496 bytes.
const BLOCK_LEN: usize = 30;
/// Blocks that are always kept.
const KEPT_MIN: usize = 256;
