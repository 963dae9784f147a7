use super::key::{Entry, Key};

/// Unsorted heaps of entries. Each is a chain of blocks, all full but the last
/// one, so that adding and removing touch a line or two whatever the size.
#[derive(Debug)]
pub(super) struct Leaves {
    leaves: Vec<Leaf>,
    vacant: Vec<u32>,
    blocks: Vec<Block>,
    /// Blocks out of use that keep their memory for the next use.
    furnished: Vec<u32>,
    /// Blocks out of use whose memory was given back.
    bare: Vec<u32>,
    used_count: usize,
}

/// A heap of entries.
#[derive(Debug, Clone, Copy)]
struct Leaf {
    len: u32,
    /// The block at the end of the chain.
    last: u32,
    /// The owner's note where it hangs.
    parent: u32,
}

#[derive(Debug)]
struct Block {
    entries: Option<Box<[Entry; BLOCK_ENTRIES]>>,
    leaf: u32,
    /// The block before it in the chain.
    previous: u32,
}

/// Where an entry stands: its block, and its offset in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position(pub(super) u32);

/// What removing an entry brought about.
#[derive(Debug)]
pub(super) struct Removed {
    /// The slot of the entry that moved into the gap.
    pub(super) moved_slot: Option<u32>,
    pub(super) leaf: u32,
    pub(super) leaf_len: u32,
}

impl Leaves {
    pub(super) const fn new() -> Self {
        Self {
            leaves: Vec::new(),
            vacant: Vec::new(),
            blocks: Vec::new(),
            furnished: Vec::new(),
            bare: Vec::new(),
            used_count: 0,
        }
    }

    /// Makes an empty leaf.
    pub(super) fn create(&mut self, parent: u32) -> u32 {
        let leaf = Leaf {
            len: 0,
            last: NONE,
            parent,
        };
        match self.vacant.pop() {
            Some(index) => {
                self.leaves[index as usize] = leaf;
                index
            }
            None => {
                self.leaves.push(leaf);
                self.leaves.len() as u32 - 1
            }
        }
    }

    /// Gives an empty leaf back.
    pub(super) fn release(&mut self, leaf: u32) {
        self.vacant.push(leaf);
        if self.vacant.len() == self.leaves.len() {
            self.leaves.clear();
            self.vacant.clear();
            self.leaves.shrink_to(KEPT_MIN);
            self.vacant.shrink_to(KEPT_MIN);
        }
    }

    #[inline]
    pub(super) fn len(&self, leaf: u32) -> usize {
        self.leaves[leaf as usize].len as usize
    }

    pub(super) fn parent(&self, leaf: u32) -> u32 {
        self.leaves[leaf as usize].parent
    }

    pub(super) fn set_parent(&mut self, leaf: u32, parent: u32) {
        self.leaves[leaf as usize].parent = parent;
    }

    #[inline]
    pub(super) fn push(&mut self, leaf: u32, entry: Entry) -> Position {
        let Leaf { len, mut last, .. } = self.leaves[leaf as usize];
        let offset = len as usize % BLOCK_ENTRIES;
        if offset == 0 {
            last = self.take_block(leaf, last);
        }
        self.entries_mut(last)[offset] = entry;
        self.leaves[leaf as usize].len = len + 1;
        Position::new(last, offset)
    }

    /// Removes an entry; the last one of the leaf moves into the gap.
    #[inline]
    pub(super) fn remove(&mut self, gap: Position) -> Removed {
        let (block, offset) = gap.split();
        let leaf = self.blocks[block as usize].leaf;
        let Leaf { len, last, .. } = self.leaves[leaf as usize];
        let leaf_len = len - 1;
        self.leaves[leaf as usize].len = leaf_len;
        let last_offset = leaf_len as usize % BLOCK_ENTRIES;
        let moved = self.entries(last)[last_offset];
        let gap_is_last = (block, offset) == (last, last_offset);
        if !gap_is_last {
            self.entries_mut(block)[offset] = moved;
        }
        if last_offset == 0 {
            self.drop_last_block(leaf, last);
        }
        Removed {
            moved_slot: (!gap_is_last).then_some(moved.slot),
            leaf,
            leaf_len,
        }
    }

    #[inline]
    pub(super) fn entry(&self, position: Position) -> Entry {
        let (block, offset) = position.split();
        self.entries(block)[offset]
    }

    /// Moves the entries of the last block to the end of `out`; `false` if
    /// there are none.
    pub(super) fn drain_block(&mut self, leaf: u32, out: &mut Vec<Entry>) -> bool {
        let Leaf { len, last, .. } = self.leaves[leaf as usize];
        if len == 0 {
            return false;
        }
        let count = (len as usize - 1) % BLOCK_ENTRIES + 1;
        out.extend_from_slice(&self.entries(last)[..count]);
        self.leaves[leaf as usize].len = len - count as u32;
        self.drop_last_block(leaf, last);
        true
    }

    /// The highest level at which any two keys of the leaf differ.
    pub(super) fn differing_level(&self, leaf: u32) -> u8 {
        let Leaf { len, last, .. } = self.leaves[leaf as usize];
        let (mut block, mut count) = (last, (len as usize - 1) % BLOCK_ENTRIES + 1);
        let first = self.entries(block)[0].key;
        let mut differing = Key {
            deadline_ns: 0,
            sequence: 0,
        };
        while block != NONE {
            for entry in &self.entries(block)[..count] {
                differing.deadline_ns |= entry.key.deadline_ns ^ first.deadline_ns;
                differing.sequence |= entry.key.sequence ^ first.sequence;
            }
            block = self.blocks[block as usize].previous;
            count = BLOCK_ENTRIES;
        }
        differing.highest_level()
    }

    #[inline]
    fn entries(&self, block: u32) -> &[Entry; BLOCK_ENTRIES] {
        let entries = &self.blocks[block as usize].entries;
        entries.as_ref().expect("a block in use has its memory")
    }

    #[inline]
    fn entries_mut(&mut self, block: u32) -> &mut [Entry; BLOCK_ENTRIES] {
        let entries = &mut self.blocks[block as usize].entries;
        entries.as_mut().expect("a block in use has its memory")
    }

    /// Puts a block at the end of the leaf's chain.
    fn take_block(&mut self, leaf: u32, previous: u32) -> u32 {
        let block = self.furnished.pop().unwrap_or_else(|| self.furnish());
        self.used_count += 1;
        let entry = &mut self.blocks[block as usize];
        entry.leaf = leaf;
        entry.previous = previous;
        self.leaves[leaf as usize].last = block;
        block
    }

    /// Makes a block out of use with memory.
    #[cold]
    fn furnish(&mut self) -> u32 {
        let block = self.bare.pop().unwrap_or_else(|| {
            self.blocks.push(Block {
                entries: None,
                leaf: NONE,
                previous: NONE,
            });
            self.blocks.len() as u32 - 1
        });
        self.blocks[block as usize].entries = Some(Box::new([NOTHING; BLOCK_ENTRIES]));
        block
    }

    fn drop_last_block(&mut self, leaf: u32, last: u32) {
        self.leaves[leaf as usize].last = self.blocks[last as usize].previous;
        self.furnished.push(last);
        self.used_count -= 1;
        while self.furnished.len() > self.used_count / 4 + BLOCKS_KEPT {
            self.strip_block();
        }
    }

    /// Gives the memory of one block out of use back to the allocator.
    fn strip_block(&mut self) {
        if let Some(block) = self.furnished.pop() {
            self.blocks[block as usize].entries = None;
            self.bare.push(block);
        }
        if self.bare.len() == self.blocks.len() {
            self.blocks = Vec::new();
            self.bare = Vec::new();
        }
    }
}

impl Position {
    #[inline]
    fn new(block: u32, offset: usize) -> Self {
        Self(block * BLOCK_ENTRIES as u32 + offset as u32)
    }

    #[inline]
    fn split(self) -> (u32, usize) {
        let block = self.0 / BLOCK_ENTRIES as u32;
        (block, self.0 as usize % BLOCK_ENTRIES)
    }
}

/// 384 bytes: enough to stream through, little to waste in a leaf of few.
const BLOCK_ENTRIES: usize = 16;
/// Blocks that keep their memory however few are in use.
const BLOCKS_KEPT: usize = 16;
const KEPT_MIN: usize = 64;
const NONE: u32 = u32::MAX;
const NOTHING: Entry = Entry {
    key: Key::MAX,
    slot: NONE,
};
