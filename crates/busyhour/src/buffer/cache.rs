//! The free blocks that a thread keeps for its next allocations.
//!
//! A thread's cache also keeps the pool's memory alive: the thread that drops
//! the last hold on a block uses the pool afterwards, and the pool may have
//! lost its last handle at that moment.

use std::{cell::RefCell, sync::Arc};

use super::{
    address::{CLASS_COUNT, RecentBlock, SizeClass},
    block::Pinner,
    counters::BufferCounters,
    leak_tracer::LeakTracer,
    store::Store,
};
use crate::sync::{Here, thread_local_with_drop, zeroed, zeroed_thread_local};

/// The free blocks that one thread keeps of one pool.
#[derive(Debug)]
pub(super) struct Cache {
    store_id: u64,
    cached_bytes: usize,
    /// How many more blocks are opened until the rare work is due.
    until_rare: u32,
    /// How many blocks are then opened until one is traced; 0 when that one is
    /// next.
    until_trace: u32,
    stacks: Box<[Stack; CLASS_COUNT]>,
    counters: Arc<BufferCounters>,
    store: Arc<Store>,
}

impl Cache {
    fn new(store: Arc<Store>) -> Self {
        Self {
            store_id: store.id(),
            cached_bytes: 0,
            until_rare: 1,
            until_trace: store.watch().trace_one_in() - 1,
            stacks: Box::new(std::array::from_fn(|_| Stack::new())),
            counters: store.enlist(),
            store,
        }
    }

    /// Takes a free block of `class`; `None` if the budget has no room.
    #[inline]
    pub(super) fn take(&mut self, class: SizeClass) -> Option<usize> {
        let index = match self.stacks[class.index()].pop() {
            Some(index) => index,
            None => self.refill(class)?,
        };
        self.cached_bytes -= class.block_bytes();
        self.counters.opened(class.index());
        Some(index)
    }

    /// Counts a block that was taken for a pin instead of a value.
    #[inline]
    pub(super) fn found(&self) {
        self.counters.found();
    }

    /// Whether the block that is being opened should be traced. Reads the clock
    /// only now and then, because each reading would cost as much as opening a
    /// block.
    #[inline]
    pub(super) fn should_trace(&mut self) -> bool {
        self.until_rare -= 1;
        self.until_rare == 0 && self.rare()
    }

    /// Keeps a free block of `class`; if there are too many, returns some to
    /// the bin.
    #[inline]
    pub(super) fn put(&mut self, class: SizeClass, index: usize) {
        self.counters.released(class.index());
        self.cached_bytes += class.block_bytes();
        let stack = &mut self.stacks[class.index()];
        stack.push(index);
        if stack.len() >= Stack::limit(class) {
            self.spill(class);
        } else if self.cached_bytes > self.store.cached_bytes_max() {
            self.flush();
        }
    }

    /// Puts every block back on its bin.
    pub(super) fn flush(&mut self) {
        for class in SizeClass::all() {
            self.put_back(class, 0);
        }
        debug_assert_eq!(self.cached_bytes, 0, "the bytes of what is in the stacks");
    }

    #[cold]
    fn rare(&mut self) -> bool {
        let watch = self.store.watch();
        watch.look_at_clock();
        let one_in = watch.trace_one_in();
        let is_due = self.until_trace == 0;
        if is_due {
            self.until_trace = one_in;
        }
        self.until_rare = RARE_INTERVAL.min(self.until_trace);
        self.until_trace -= self.until_rare;
        is_due && one_in != LeakTracer::TRACE_NONE
    }

    /// Takes several blocks from the bin, and returns one of them.
    #[cold]
    fn refill(&mut self, class: SizeClass) -> Option<usize> {
        self.refill_with(class, Stack::limit(class).div_ceil(2))
            .or_else(|| self.refill_with(class, 1))
            .or_else(|| {
                self.flush();
                self.refill_with(class, 1)
            })
    }

    fn refill_with(&mut self, class: SizeClass, count: usize) -> Option<usize> {
        let bytes = count * class.block_bytes();
        if count > 1 && self.cached_bytes + bytes > self.store.cached_bytes_max() {
            return None;
        }
        let stack = &mut self.stacks[class.index()];
        self.store
            .take_blocks(class, count, |index| stack.push(index))?;
        self.cached_bytes += bytes;
        stack.pop()
    }

    /// Puts the older half back on the bin.
    #[cold]
    fn spill(&mut self, class: SizeClass) {
        self.put_back(class, Stack::limit(class) / 2);
    }

    fn put_back(&mut self, class: SizeClass, kept: usize) {
        let surplus = self.stacks[class.index()].cut(kept);
        if !surplus.is_empty() {
            self.cached_bytes -= surplus.len() * class.block_bytes();
            self.store.put_blocks(class, surplus);
        }
    }
}

/// Drops this thread's cache of a pool that has ended, with its lease on the
/// pool's memory.
#[cold]
pub(super) fn forget(store_id: u64) {
    // If the thread is ending, or is using its caches, the cache is dropped
    // later.
    let forgotten = CACHES.try_with(|caches| {
        let mut caches = caches.try_borrow_mut().ok()?;
        let position = caches.iter().position(|cache| cache.store_id == store_id)?;
        Some(caches.swap_remove(position))
    });
    drop(forgotten);
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.flush();
        self.store.discharge_thread(&self.counters);
    }
}

/// Runs `work` with this thread's cache of `store`, or without one if the
/// thread is ending. The store stays alive until `work` returns.
///
/// Inlined, so that the captures of `work` stay in registers: passed through
/// memory, they would be read in other sizes than they were written, which
/// stalls.
#[inline(always)]
pub(super) fn with<R>(store: &Store, work: impl FnOnce(Option<&mut Cache>) -> R) -> R {
    let mut work = Some(work);
    let done = CACHES.try_with(|caches| {
        let mut caches = caches.borrow_mut();
        if caches
            .first()
            .is_none_or(|cache| cache.store_id != store.id())
        {
            bring_to_front(&mut caches, store);
        }
        work.take().map(|work| work(caches.first_mut()))
    });
    match (done, work) {
        (Ok(Some(result)), _) => result,
        (_, Some(work)) => {
            let _lease = store.lease();
            work(None)
        }
        (_, None) => unreachable!("the work runs once"),
    }
}

/// What this thread knows for pins.
#[inline(always)]
pub(super) fn pinning() -> Here<Pinning> {
    PINNING.here()
}

#[cold]
fn bring_to_front(caches: &mut Vec<Cache>, store: &Store) {
    let found = caches.iter().position(|cache| cache.store_id == store.id());
    let position = found.unwrap_or_else(|| {
        caches.retain(|cache| !cache.store.is_closed());
        caches.push(Cache::new(store.lease()));
        caches.len() - 1
    });
    caches.swap(0, position);
}

thread_local_with_drop! {
    static CACHES / CACHES_PLACE: RefCell<Vec<Cache>> = RefCell::new(Vec::new());
}

zeroed_thread_local! {
    static PINNING: Pinning;
}

/// A thread's state for pins, and the block that it pinned last.
#[derive(Debug)]
pub(super) struct Pinning {
    pub(super) pinner: Pinner,
    pub(super) recent: RecentBlock,
}

zeroed!(Pinning { pinner, recent });

/// Free blocks of one class, the latest released on top, since its memory is
/// still in the cache.
#[derive(Debug)]
struct Stack {
    len: u32,
    blocks: [u32; STACK_LEN_MAX],
}

impl Stack {
    fn new() -> Self {
        Self {
            len: 0,
            blocks: [0; STACK_LEN_MAX],
        }
    }

    /// How many blocks of `class` fill a stack.
    #[inline]
    fn limit(class: SizeClass) -> usize {
        STACK_LIMITS[class.index()]
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn push(&mut self, index: usize) {
        self.blocks[self.len()] = index as u32;
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        let len = self.len.checked_sub(1)?;
        self.len = len;
        Some(self.blocks[len as usize] as usize)
    }

    /// Removes all but the `kept` latest blocks.
    fn cut(&mut self, kept: usize) -> Vec<u32> {
        let len = self.len();
        let cut_len = len.saturating_sub(kept);
        let cut = self.blocks[..cut_len].to_vec();
        self.blocks.copy_within(cut_len..len, 0);
        self.len = (len - cut_len) as u32;
        cut
    }
}

const RARE_INTERVAL: u32 = 16;
const STACK_LEN_MAX: usize = 64;
/// Enough for at least two of the largest blocks.
const STACK_BYTES_MAX: usize = 128 * 1024;
const STACK_LIMITS: [usize; CLASS_COUNT] = stack_limits();

const fn stack_limits() -> [usize; CLASS_COUNT] {
    let mut limits = [STACK_LEN_MAX; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        let fitting = STACK_BYTES_MAX / SizeClass::at(class).block_bytes();
        if fitting < STACK_LEN_MAX {
            limits[class] = fitting;
        }
        class += 1;
    }
    limits
}
