//! The state that all handles of one pool share: the region, the free blocks,
//! the budget.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    Error,
    address::{BlockStripes, GRANULE_BYTES, PinnedByte, Range, Region, SizeClass, SlotIndex},
    block::{DropPin, Ref, RefByte, Remaining, Slot, SlotHeader, Stripes, TryDropPin, TryPin},
    cache::{self, Cache, Pinning},
    counters::BufferCounters,
    dump::{Dump, LiveBuffer, OwnerUsage},
    leak_tracer::LeakTracer,
    memory::{Bin, ByteBudget, GranuleRuns},
};
use crate::{
    stats::BufferStats,
    sync::{
        CachePadded, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        lock,
    },
};

/// The pool's memory and its counters.
///
/// | field | used by | when |
/// |---|---|---|
/// | `region` | all threads | through the protocol of `Slot` |
/// | `bins`, `granules` | the thread that takes or puts back blocks | under their lock |
/// | `budget` | the same threads | before taking, after putting back |
/// | `orphans`, `keep` | the last handle; then the last holders | after closing |
/// | `threads` | a thread that starts or ends using the pool, readers | under its lock |
#[derive(Debug)]
pub(super) struct Store {
    me: Weak<Store>,
    region: Region,
    bins: Vec<CachePadded<Mutex<Bin>>>,
    granules: CachePadded<Mutex<GranuleRuns>>,
    budget: ByteBudget,
    granule_bytes: AtomicU64,
    threads: Mutex<Vec<Arc<BufferCounters>>>,
    /// The counters of threads that have ended, or have no cache.
    other_threads: BufferCounters,
    watch: LeakTracer,
    refused: AtomicU64,
    foreign_addresses: AtomicU64,
    pinned: AtomicU64,
    is_closed: AtomicBool,
    orphans: AtomicU64,
    keep: Mutex<Option<Arc<Store>>>,
}

impl Store {
    pub(super) fn new(budget_bytes: u64, watch: LeakTracer) -> Result<Arc<Self>, Error> {
        let region = Region::reserve(budget_bytes)?;
        let bin = |class| CachePadded(Mutex::new(Bin::new(class, &region)));
        let bins = SizeClass::all().map(bin).collect();
        let granules = GranuleRuns::new(region.capacity(Range::Granules));
        Ok(Arc::new_cyclic(|me| Self {
            me: me.clone(),
            region,
            bins,
            granules: CachePadded(Mutex::new(granules)),
            budget: ByteBudget::new(budget_bytes),
            granule_bytes: AtomicU64::new(0),
            threads: Mutex::new(Vec::new()),
            other_threads: BufferCounters::default(),
            watch,
            refused: AtomicU64::new(0),
            foreign_addresses: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            orphans: AtomicU64::new(0),
            keep: Mutex::new(None),
        }))
    }

    /// Opens a block for `len` bytes, not yet published.
    #[inline]
    pub(super) fn open(&self, len: usize, hold: Ref, owner: u16) -> Result<SlotIndex, Error> {
        let place = self.try_open(len, hold, owner);
        place.ok_or_else(|| self.refuse(len))
    }

    /// The error is created elsewhere, so that this result fits into registers.
    fn try_open(&self, len: usize, hold: Ref, owner: u16) -> Option<SlotIndex> {
        cache::with(self, |cache| {
            let (place, should_trace) = match (SizeClass::of(len), cache) {
                (Some(class), Some(cache)) => {
                    let place = self.take_cached(class, cache)?;
                    if hold == Ref::Pin {
                        cache.found();
                    }
                    (place, cache.should_trace())
                }
                (Some(class), None) => (self.take_uncached(class, hold)?, false),
                (None, mut cache) => {
                    let place = self.take_granules(len, hold, cache.as_deref_mut())?;
                    (place, cache.is_some_and(Cache::should_trace))
                }
            };
            self.region.owner(place).store(owner, Ordering::Relaxed);
            self.slot(place).open(hold, self.watch.stamp());
            if should_trace {
                self.trace(place);
            }
            Some(place)
        })
    }

    /// Adds a pin by an address inside a buffer. What is not as usual goes on in
    /// a function of its own, which begins again with the address: so nothing is
    /// kept across a call, in a program's loop as in a function of C's.
    #[inline(always)]
    pub(super) fn pin(&self, address: usize) -> Result<(), Error> {
        let mut tried = TryPin::Unusual;
        let pinning = cache::pinning();
        if let Some(byte) = self.find_to_pin(address, &pinning) {
            tried = (byte.slot).try_pin(byte.offset, &pinning.pinner, byte.counter);
        }
        match tried {
            TryPin::Held => Ok(()),
            other => self.pin_rarely(other, address),
        }
    }

    #[cold]
    #[inline(never)]
    fn pin_rarely(&self, tried: TryPin, address: usize) -> Result<(), Error> {
        self.hold(address, |slot, offset, stripes, is_first| {
            let tried = if is_first { tried } else { TryPin::Unusual };
            slot.pin_byte(tried, offset, &cache::pinning().pinner, stripes)
        })
        .map(|_| ())
    }

    /// Adds a handle by an address inside a buffer; returns its block.
    pub(super) fn handle(&self, address: usize) -> Result<SlotIndex, Error> {
        self.hold(address, |slot, offset, stripes, _| {
            slot.handle_byte(offset, stripes)
        })
    }

    /// Drops a pin by an address inside a buffer; see [`Store::pin`].
    #[inline(always)]
    pub(super) fn unpin(&self, address: usize) -> Result<(), Error> {
        let mut tried = TryDropPin::Unusual;
        let pinning = cache::pinning();
        if let Some(byte) = self.find_to_unpin(address, &pinning) {
            tried = (byte.slot).try_drop_pin(byte.offset, &pinning.pinner, byte.counter);
            if let TryDropPin::Last(word) = tried {
                self.put(self.region.place_of(byte.slot), word);
                return Ok(());
            }
        }
        match tried {
            TryDropPin::Dropped => Ok(()),
            other => self.unpin_rarely(other, address),
        }
    }

    #[cold]
    #[inline(never)]
    fn unpin_rarely(&self, tried: TryDropPin, address: usize) -> Result<(), Error> {
        let (place, offset) = self.locate(address)?;
        let (slot, stripes) = (self.slot(place), self.region.stripes(place));
        let pinning = cache::pinning();
        // A thread that only drops pins needs a stripe as well, so that its next
        // one is as usual.
        pinning.pinner.stripe();
        match slot.drop_pin(tried, offset, &pinning.pinner, &stripes) {
            DropPin::Dropped(Remaining::Some) => Ok(()),
            DropPin::Dropped(Remaining::None(word)) => {
                self.put(place, word);
                Ok(())
            }
            DropPin::NotLive => Err(self.refuse_address(Error::NotLive { address })),
            DropPin::NotPinned => Err(self.refuse_address(Error::NotPinned { address })),
        }
    }

    /// The block with the byte at `address`, which is noted for the unpin; `None`
    /// for granules, and before the thread's first pin or unpin.
    #[inline(always)]
    fn find_to_pin(&self, address: usize, pinning: &Pinning) -> Option<PinnedByte<'_>> {
        if let Some(found) = pinning.recent.find_again(&self.region, address) {
            return Some(found);
        }
        let byte = self.region.locate_block(address)?;
        let stripe = pinning.pinner.dealt()?;
        Some(pinning.recent.note(&self.region, address, &byte, stripe))
    }

    #[inline(always)]
    fn find_to_unpin(&self, address: usize, pinning: &Pinning) -> Option<PinnedByte<'_>> {
        if let Some(found) = pinning.recent.find(&self.region, address) {
            return Some(found);
        }
        let byte = self.region.locate_block(address)?;
        Some(PinnedByte::of(&self.region, &byte, pinning.pinner.dealt()?))
    }

    /// Drops a handle on the block whose slot is `slot`; returns this store's
    /// id if that was the last hold of all that outlived the pool.
    #[inline]
    pub(super) fn drop_handle(&self, slot: &Slot) -> Option<u64> {
        // The cache comes first, because it keeps the store alive past the
        // drop.
        cache::with(self, |cache| {
            let place = self.region.place_of(slot);
            let stripes = self.region.stripes(place);
            let Remaining::None(word) = slot.drop_handle(&stripes) else {
                return None;
            };
            let is_over = self.put_with(cache, place, word);
            is_over.then(|| self.id())
        })
    }

    #[inline]
    pub(super) fn slot(&self, place: SlotIndex) -> &Slot {
        self.region.slot(place)
    }

    #[inline]
    pub(super) fn block(&self, place: SlotIndex) -> *mut u8 {
        self.region.block(place)
    }

    #[inline]
    pub(super) fn id(&self) -> u64 {
        self.region.id()
    }

    /// A reference that keeps the store alive; the caller must have a hold in
    /// it.
    pub(super) fn lease(&self) -> Arc<Store> {
        let lease = self.me.upgrade();
        lease.expect("a store with a holder is alive")
    }

    #[inline]
    pub(super) fn watch(&self) -> &LeakTracer {
        &self.watch
    }

    /// Bytes of the block whose state is `slot`.
    pub(super) fn room_of(&self, slot: &Slot) -> usize {
        self.region.room(self.region.place_of(slot))
    }

    /// How many bytes of free blocks a thread may keep.
    #[inline]
    pub(super) fn cached_bytes_max(&self) -> usize {
        self.budget.cached_bytes_max()
    }

    /// Gives all memory without a live buffer back to the operating system,
    /// except for what other threads keep.
    pub(super) fn trim(&self) -> usize {
        cache::with(self, |cache| {
            if let Some(cache) = cache {
                cache.flush();
            }
        });
        let trim = |bin: &CachePadded<Mutex<Bin>>| lock(bin).trim(&self.region);
        self.bins.iter().map(trim).sum()
    }

    pub(super) fn stats(&self) -> BufferStats {
        self.watch.look_at_clock();
        let mut stats = BufferStats {
            live_bytes: self.granule_bytes.load(Ordering::Relaxed),
            used_bytes: self.budget.used_bytes(),
            used_bytes_high_water: self.budget.used_bytes_high_water(),
            budget_bytes: self.budget.bytes(),
            resident_bytes: self.resident_bytes(),
            refused: self.refused.load(Ordering::Relaxed),
            foreign_addresses: self.foreign_addresses.load(Ordering::Relaxed),
            pinned: self.pinned.load(Ordering::Relaxed),
            ..BufferStats::default()
        };
        let counters = self.counters();
        stats.found = counters.found_total();
        for (range_index, total) in counters.totals().enumerate() {
            stats.allocated += total.opened;
            stats.live_count += total.live;
            stats.live_bytes += total.live * SizeClass::block_bytes_at(range_index);
        }
        stats
    }

    /// Everything that is live, with at most `oldest_max` buffers listed
    /// individually.
    pub(super) fn dump(&self, oldest_max: usize) -> Dump {
        self.watch.look_at_clock();
        let owners = self.watch.owners();
        let name = |owner: u16| owners.get(owner as usize).cloned().unwrap_or_default();
        let mut usages: BTreeMap<u16, OwnerUsage> = BTreeMap::new();
        let mut live: Vec<(Duration, SlotIndex)> = Vec::new();
        for place in self.live_places() {
            let owner = self.region.owner(place).load(Ordering::Relaxed);
            let age = self.watch.age(self.slot(place).born());
            let usage = usages.entry(owner).or_insert_with(|| OwnerUsage {
                owner: name(owner),
                live_count: 0,
                live_bytes: 0,
                oldest_age: Duration::ZERO,
            });
            usage.live_count += 1;
            usage.live_bytes += self.region.room(place) as u64;
            usage.oldest_age = usage.oldest_age.max(age);
            live.push((age, place));
        }
        let mut owners: Vec<_> = usages.into_values().collect();
        owners.sort_by_key(|usage| Reverse(usage.live_bytes));
        live.sort_by_key(|(age, _)| Reverse(*age));
        live.truncate(oldest_max);
        let describe = |(age, place)| self.describe(place, age, name);
        Dump {
            owners,
            oldest: live.into_iter().map(describe).collect(),
        }
    }

    /// Registers the counters of a thread that starts to use the pool.
    pub(super) fn enlist(&self) -> Arc<BufferCounters> {
        let counters = Arc::default();
        lock(&self.threads).push(Arc::clone(&counters));
        counters
    }

    /// Keeps the counters of a thread that has ended.
    pub(super) fn discharge_thread(&self, counters: &Arc<BufferCounters>) {
        let mut threads = lock(&self.threads);
        let len_before = threads.len();
        threads.retain(|thread| !Arc::ptr_eq(thread, counters));
        debug_assert_eq!(threads.len() + 1, len_before, "a thread is enlisted once");
        self.other_threads.absorb(counters);
    }

    /// Takes `count` blocks of `class` from their bin, or none.
    pub(super) fn take_blocks(
        &self,
        class: SizeClass,
        count: usize,
        mut taken: impl FnMut(usize),
    ) -> Option<()> {
        self.budget.charge(count * class.block_bytes())?;
        let mut bin = lock(&self.bins[class.index()]);
        for _ in 0..count {
            let index = bin.take();
            taken(index.expect("a class has blocks for the whole budget"));
        }
        Some(())
    }

    /// Puts blocks of `class` back on their bin.
    pub(super) fn put_blocks(&self, class: SizeClass, blocks: Vec<u32>) {
        let bytes = blocks.len() * class.block_bytes();
        let mut bin = lock(&self.bins[class.index()]);
        for index in blocks {
            bin.put(index as usize, &self.region);
        }
        drop(bin);
        self.budget.discharge(bytes);
    }

    /// Whether the last handle of the pool was dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Ends the pool: no block can be opened any more. Buffers that are still
    /// live become orphans and keep the store until the last of them is
    /// dropped.
    pub(super) fn close(&self) {
        *lock(&self.keep) = Some(self.lease());
        self.orphans.store(1, Ordering::Relaxed);
        self.is_closed.store(true, Ordering::Release);
        for place in self.touched_places() {
            self.orphans.fetch_add(1, Ordering::Relaxed);
            if !self.slot(place).mark(SlotHeader::orphaned) {
                let _others_are_left = self.release_orphan();
            }
        }
        let _is_over = self.release_orphan();
    }

    /// Whether that was the last.
    fn release_orphan(&self) -> bool {
        let is_last = self.orphans.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            // The caller's cache keeps the store alive past this call.
            let kept = lock(&self.keep).take();
            drop(kept);
        }
        is_last
    }

    #[inline]
    fn take_cached(&self, class: SizeClass, cache: &mut Cache) -> Option<SlotIndex> {
        let index = cache.take(class)?;
        Some(self.region.place(Range::Blocks(class), index))
    }

    #[cold]
    fn take_uncached(&self, class: SizeClass, hold: Ref) -> Option<SlotIndex> {
        let mut taken = None;
        self.take_blocks(class, 1, |index| taken = Some(index))?;
        self.count_shared(class.index(), hold);
        Some(self.region.place(Range::Blocks(class), taken?))
    }

    #[cold]
    fn take_granules(&self, len: usize, hold: Ref, cache: Option<&mut Cache>) -> Option<SlotIndex> {
        if len > LEN_MAX {
            return None;
        }
        let count = len.div_ceil(GRANULE_BYTES);
        let bytes = count * GRANULE_BYTES;
        if self.budget.charge(bytes).is_none() {
            cache.map(Cache::flush);
            self.budget.charge(bytes)?;
        }
        let Some(head) = lock(&self.granules).take(count) else {
            self.budget.discharge(bytes);
            return None;
        };
        self.region.join_granules(head, count);
        self.granule_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.count_shared(Range::Granules.index(), hold);
        Some(self.region.place(Range::Granules, head))
    }

    fn count_shared(&self, range_index: usize, hold: Ref) {
        self.other_threads.opened_shared(range_index);
        if hold == Ref::Pin {
            self.other_threads.found_shared();
        }
    }

    /// A function of its own: see [`Store::pin`].
    #[inline(never)]
    fn put(&self, place: SlotIndex, word: SlotHeader) {
        let _is_open = cache::with(self, |cache| self.put_with(cache, place, word));
    }

    /// Puts back a block without holders; `word` is its last state. Returns
    /// whether it was the last one that outlived the pool.
    #[inline]
    fn put_with(&self, cache: Option<&mut Cache>, place: SlotIndex, word: SlotHeader) -> bool {
        debug_assert!(!self.slot(place).load().is_live(), "somebody holds it");
        if word.is_traced() {
            self.watch.forget(place);
        }
        let index = self.region.index_of(place);
        match (self.region.range_of(place), cache) {
            (Range::Blocks(class), Some(cache)) => cache.put(class, index),
            (Range::Blocks(class), None) => self.put_uncached(class, index),
            (Range::Granules, _) => self.put_granules(place, index),
        }
        word.is_orphan() && self.release_orphan()
    }

    #[cold]
    fn trace(&self, place: SlotIndex) {
        self.watch.trace(place);
        let is_live = self.slot(place).mark(SlotHeader::traced);
        debug_assert!(is_live, "its opener holds it");
    }

    #[cold]
    fn put_uncached(&self, class: SizeClass, index: usize) {
        self.other_threads.released_shared(class.index());
        self.put_blocks(class, vec![index as u32]);
    }

    #[cold]
    fn put_granules(&self, place: SlotIndex, head: usize) {
        let count = self.region.granules_joined(head);
        let bytes = count * GRANULE_BYTES;
        // SAFETY: nobody holds the buffer, and its granules are not free yet.
        unsafe { self.region.give_back(place, bytes) };
        self.other_threads.released_shared(Range::Granules.index());
        self.granule_bytes
            .fetch_sub(bytes as u64, Ordering::Relaxed);
        lock(&self.granules).put(head, count);
        self.budget.discharge(bytes);
    }

    /// Every block that was ever handed out, and every granule.
    fn touched_places(&self) -> impl Iterator<Item = SlotIndex> {
        let blocks = SizeClass::all().flat_map(move |class| {
            let end = lock(&self.bins[class.index()]).touched_end();
            (0..end).map(move |index| self.region.place(Range::Blocks(class), index))
        });
        let end = lock(&self.granules).touched_end();
        let granules = (0..end).map(move |index| self.region.place(Range::Granules, index));
        blocks.chain(granules)
    }

    fn live_places(&self) -> impl Iterator<Item = SlotIndex> {
        self.touched_places()
            .filter(|place| self.slot(*place).load().is_live())
    }

    fn describe(
        &self,
        place: SlotIndex,
        age: Duration,
        name: impl Fn(u16) -> String,
    ) -> LiveBuffer {
        let slot = self.slot(place);
        let word = slot.load();
        let striped_pins = self.region.stripes(place).read().pins();
        LiveBuffer {
            address: self.block(place).addr(),
            len: slot.len(),
            room: self.region.room(place),
            owner: name(self.region.owner(place).load(Ordering::Relaxed)),
            age,
            handles: word.handles(),
            pins: striped_pins + u64::from(word.has_pin()),
            trace: self.watch.trace_of(place),
        }
    }

    /// The sums over all threads.
    fn counters(&self) -> BufferCounters {
        let threads = lock(&self.threads);
        let sums = BufferCounters::default();
        sums.absorb(&self.other_threads);
        for thread in threads.iter() {
            sums.absorb(thread);
        }
        sums
    }

    fn resident_bytes(&self) -> u64 {
        let blocks: usize = self.bins.iter().map(|s| lock(s).resident_bytes()).sum();
        blocks as u64 + self.granule_bytes.load(Ordering::Relaxed)
    }

    /// Adds a hold by `hold_byte`, which is told whether it is called for the
    /// first time.
    fn hold(
        &self,
        address: usize,
        hold_byte: impl Fn(&Slot, usize, &BlockStripes, bool) -> RefByte,
    ) -> Result<SlotIndex, Error> {
        let (place, offset) = self.locate(address)?;
        let (slot, stripes) = (self.slot(place), self.region.stripes(place));
        let mut is_first = true;
        loop {
            match hold_byte(slot, offset, &stripes, is_first) {
                RefByte::Held => return Ok(place),
                RefByte::FirstHeld => {
                    self.pinned.fetch_add(1, Ordering::Relaxed);
                    return Ok(place);
                }
                RefByte::NotLive => return Err(self.refuse_address(Error::NotLive { address })),
                RefByte::TooMany(remaining) => {
                    if let Remaining::None(word) = remaining {
                        self.put(place, word);
                    }
                    return Err(Error::TooManyPins { address });
                }
                RefByte::Withdrawn(Remaining::Some) => {}
                RefByte::Withdrawn(Remaining::None(word)) => self.put(place, word),
            }
            is_first = false;
        }
    }

    fn locate(&self, address: usize) -> Result<(SlotIndex, usize), Error> {
        let found = self.region.locate(address);
        found.ok_or_else(|| self.refuse_address(Error::Foreign { address }))
    }

    /// Counts a call with the address of no buffer.
    #[cold]
    fn refuse_address(&self, error: Error) -> Error {
        self.foreign_addresses.fetch_add(1, Ordering::Relaxed);
        error
    }

    /// Why there was no block for this many bytes.
    #[cold]
    fn refuse(&self, requested_bytes: usize) -> Error {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if requested_bytes > LEN_MAX {
            let max_bytes = LEN_MAX;
            return Error::TooLong {
                requested_bytes,
                max_bytes,
            };
        }
        Error::OverBudget {
            requested_bytes,
            used_bytes: self.budget.used_bytes(),
            budget_bytes: self.budget.bytes(),
        }
    }
}

/// Lengths are stored in 32 bits.
const LEN_MAX: usize = u32::MAX as usize;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::buffer::BufferPool;
    use std::thread;

    #[test]
    fn a_thread_that_has_ended_leaves_only_its_counts() {
        let pool = BufferPool::builder().build().unwrap();
        for ended in 1..=3 {
            let theirs = pool.clone();
            let thread = thread::spawn(move || drop(theirs.copy_from(b"packet").unwrap()));
            thread.join().unwrap();
            assert!(lock(&pool.store.threads).is_empty());
            let stats = pool.stats();
            assert_eq!((stats.allocated, stats.live_count), (ended, 0));
            assert_eq!(stats.used_bytes, 0, "what it kept went back");
        }
    }

    #[test]
    fn a_thread_forgets_the_pool_that_has_ended_and_no_other() {
        let [ends, stays] = [1, 2].map(|mebibytes| {
            let pool = BufferPool::builder().budget_bytes(mebibytes << 20).build();
            let pool = pool.unwrap();
            drop(pool.copy_from(b"packet").unwrap());
            pool
        });
        let (store, kept_bytes) = (Arc::downgrade(&ends.store), stays.stats().used_bytes);
        assert!(kept_bytes > 0, "free blocks that this thread keeps");
        drop(ends);
        assert!(store.upgrade().is_none());
        assert_eq!(stays.stats().used_bytes, kept_bytes);
        assert_eq!(lock(&stays.store.threads).len(), 1);
    }
}
