//! What all handles of one pool share: the region, the free blocks, the budget.

use super::{
    Error,
    granules::Granules,
    region::{Place, Range, Region},
    shelf::Shelf,
    size_class::{BLOCK_BYTES_MAX, GRANULE_BYTES, SizeClass},
    slot::{DropPin, Hold, HoldByte, Remaining, Slot},
};
use crate::{
    stats::BufferStats,
    sync::{
        CachePadded, Mutex,
        atomic::{AtomicU64, Ordering},
        lock,
    },
};

/// The pool's memory and its accounts.
///
/// | field | touched by | when |
/// |---|---|---|
/// | `region` | everybody | through the protocol of `Slot` |
/// | `shelves`, `granules` | whoever takes or puts back a block | under their lock |
/// | `used_bytes` | the same | before taking, after putting back |
/// | counters | everybody | any time |
#[derive(Debug)]
pub(super) struct Store {
    region: Region,
    shelves: Vec<CachePadded<Mutex<Shelf>>>,
    granules: CachePadded<Mutex<Granules>>,
    budget_bytes: u64,
    used_bytes: CachePadded<AtomicU64>,
    used_bytes_high_water: AtomicU64,
    allocated: AtomicU64,
    released: AtomicU64,
    refused: AtomicU64,
    foreign_addresses: AtomicU64,
}

impl Store {
    pub(super) fn new(budget_bytes: u64) -> Result<Self, Error> {
        let region = Region::reserve(budget_bytes)?;
        let shelf = |class| CachePadded(Mutex::new(Shelf::new(class, &region)));
        let shelves = SizeClass::all().map(shelf).collect();
        let granules = Granules::new(region.capacity(Range::Granules));
        Ok(Self {
            region,
            shelves,
            granules: CachePadded(Mutex::new(granules)),
            budget_bytes,
            used_bytes: CachePadded::default(),
            used_bytes_high_water: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            released: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            foreign_addresses: AtomicU64::new(0),
        })
    }

    /// Opens a block for `len` bytes, not yet published.
    pub(super) fn open(&self, len: usize, hold: Hold) -> Result<Place, Error> {
        if len > LEN_MAX {
            return Err(self.too_long(len));
        }
        let place = match SizeClass::of(len) {
            Some(class) => self.take_block(class),
            None => self.take_granules(len.div_ceil(GRANULE_BYTES)),
        };
        let place = place.ok_or_else(|| self.over_budget(len))?;
        self.allocated.fetch_add(1, Ordering::Relaxed);
        self.slot(place).open(hold, 0);
        Ok(place)
    }

    /// Adds a hold by an address inside a buffer; returns its block.
    pub(super) fn hold_address(&self, address: usize, hold: Hold) -> Result<Place, Error> {
        let (place, offset) = self.locate(address)?;
        match self.slot(place).hold_byte(offset, hold) {
            HoldByte::Held => Ok(place),
            HoldByte::NotLive => Err(self.not_live(address)),
            HoldByte::TooMany => Err(Error::TooManyPins { address }),
            HoldByte::Withdrawn(remaining) => {
                self.put_if_last(place, remaining);
                Err(self.not_live(address))
            }
        }
    }

    /// Drops a pin by an address inside a buffer.
    pub(super) fn unpin(&self, address: usize) -> Result<(), Error> {
        let (place, offset) = self.locate(address)?;
        match self.slot(place).drop_pin(offset) {
            DropPin::Dropped(remaining) => {
                self.put_if_last(place, remaining);
                Ok(())
            }
            DropPin::NotLive => Err(self.not_live(address)),
            DropPin::NotPinned => {
                self.foreign_addresses.fetch_add(1, Ordering::Relaxed);
                Err(Error::NotPinned { address })
            }
        }
    }

    /// Puts the block back when its last holder has gone.
    #[inline]
    pub(super) fn put_if_last(&self, place: Place, remaining: Remaining) {
        if remaining == Remaining::None {
            self.put(place);
        }
    }

    #[inline]
    pub(super) fn slot(&self, place: Place) -> &Slot {
        self.region.slot(place)
    }

    #[inline]
    pub(super) fn block(&self, place: Place) -> *mut u8 {
        self.region.block(place)
    }

    /// Gives all memory without a live buffer back to the operating system.
    pub(super) fn trim(&self) -> usize {
        let trim = |shelf: &CachePadded<Mutex<Shelf>>| lock(shelf).trim(&self.region);
        self.shelves.iter().map(trim).sum()
    }

    pub(super) fn stats(&self) -> BufferStats {
        let released = self.released.load(Ordering::Acquire);
        let allocated = self.allocated.load(Ordering::Acquire);
        BufferStats {
            live_count: allocated.saturating_sub(released),
            live_bytes: self.used_bytes.load(Ordering::Relaxed),
            live_bytes_high_water: self.used_bytes_high_water.load(Ordering::Relaxed),
            budget_bytes: self.budget_bytes,
            allocated,
            refused: self.refused.load(Ordering::Relaxed),
            foreign_addresses: self.foreign_addresses.load(Ordering::Relaxed),
        }
    }

    fn take_block(&self, class: SizeClass) -> Option<Place> {
        self.charge(class.block_bytes())?;
        let Some(index) = lock(&self.shelves[class.index()]).take() else {
            self.discharge(class.block_bytes());
            return None;
        };
        Some(Place {
            range: Range::Blocks(class),
            index,
        })
    }

    fn take_granules(&self, count: usize) -> Option<Place> {
        self.charge(count * GRANULE_BYTES)?;
        let Some(head) = lock(&self.granules).take(count) else {
            self.discharge(count * GRANULE_BYTES);
            return None;
        };
        self.region.join_granules(head, count);
        Some(Place {
            range: Range::Granules,
            index: head,
        })
    }

    #[cold]
    fn put(&self, place: Place) {
        self.released.fetch_add(1, Ordering::Release);
        match place.range {
            Range::Blocks(class) => {
                lock(&self.shelves[class.index()]).put(place.index, &self.region);
                self.discharge(class.block_bytes());
            }
            Range::Granules => self.put_granules(place),
        }
    }

    fn put_granules(&self, place: Place) {
        let count = self.region.granules_joined(place.index);
        // SAFETY: nobody holds the buffer, and its granules are not free yet.
        unsafe { self.region.give_back(place, count * GRANULE_BYTES) };
        lock(&self.granules).put(place.index, count);
        self.discharge(count * GRANULE_BYTES);
    }

    fn charge(&self, bytes: usize) -> Option<()> {
        let within = |used: u64| Some(used + bytes as u64).filter(|sum| *sum <= self.budget_bytes);
        let before = self
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .ok()?;
        self.used_bytes_high_water
            .fetch_max(before + bytes as u64, Ordering::Relaxed);
        Some(())
    }

    fn discharge(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    #[inline]
    fn locate(&self, address: usize) -> Result<(Place, usize), Error> {
        let found = self.region.locate(address);
        found.ok_or_else(|| {
            self.foreign_addresses.fetch_add(1, Ordering::Relaxed);
            Error::Foreign { address }
        })
    }

    #[cold]
    fn not_live(&self, address: usize) -> Error {
        self.foreign_addresses.fetch_add(1, Ordering::Relaxed);
        Error::NotLive { address }
    }

    #[cold]
    fn over_budget(&self, requested_bytes: usize) -> Error {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Error::OverBudget {
            requested_bytes,
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            budget_bytes: self.budget_bytes,
        }
    }

    #[cold]
    fn too_long(&self, requested_bytes: usize) -> Error {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Error::TooLong {
            requested_bytes,
            max_bytes: LEN_MAX,
        }
    }
}

/// Lengths are kept in 32 bits.
const LEN_MAX: usize = u32::MAX as usize;

const _: () = assert!(BLOCK_BYTES_MAX <= LEN_MAX);
