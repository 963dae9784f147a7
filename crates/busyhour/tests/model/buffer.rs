//! The oracle of the property test and of the fuzzer: the pool beside a flat
//! list of all buffers that it ever handed out.

use busyhour::buffer::{Buffer, BufferMut, BufferPool, Error};

/// What a caller may do, correctly or not.
#[derive(Debug, Clone)]
pub enum Operation {
    Alloc {
        len: usize,
    },
    Find {
        len: usize,
    },
    Truncate {
        which: usize,
        len: usize,
    },
    Freeze {
        which: usize,
    },
    Abandon {
        which: usize,
    },
    Clone {
        which: usize,
    },
    Slice {
        which: usize,
        start: usize,
        len: usize,
    },
    Drop {
        which: usize,
    },
    Pin(Address),
    Unpin(Address),
    BufferAt(Address),
    Trim,
}

/// An address relative to a buffer that is or was live.
#[derive(Debug, Clone)]
pub struct Address {
    pub which: usize,
    pub offset: isize,
}

/// Takes any bytes as operations; tests and fuzzer share this property. The
/// flat list is scanned after each operation, so the number of operations is
/// bounded.
pub fn hold(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut driver = Driver::new(1024 * [4, 256, 4096][input.below(3)]);
    for _ in 0..OPERATIONS_MAX {
        if input.0.is_empty() {
            break;
        }
        driver.apply(input.operation());
    }
    driver.finish();
}

/// The bytes of which operations are made; zeros when no more are left.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn operation(&mut self) -> Operation {
        match self.below(16) {
            0..=2 => Operation::Alloc { len: self.len() },
            3 => Operation::Find { len: self.len() },
            4 => Operation::Truncate {
                which: self.byte(),
                len: self.len(),
            },
            5 | 6 => Operation::Freeze { which: self.byte() },
            7 => Operation::Abandon { which: self.byte() },
            8 => Operation::Clone { which: self.byte() },
            9 => Operation::Slice {
                which: self.byte(),
                start: self.word() as usize % 300,
                len: self.len(),
            },
            10 => Operation::Drop { which: self.byte() },
            11 | 12 => Operation::Pin(self.address()),
            13 => Operation::Unpin(self.address()),
            14 => Operation::BufferAt(self.address()),
            _ => Operation::Trim,
        }
    }

    /// Mostly small lengths, and some at the limits of size classes.
    fn len(&mut self) -> usize {
        match self.below(4) {
            0 => 64,
            1 => self.byte(),
            2 => EDGES[self.below(EDGES.len())],
            _ => self.word() as usize % 5000,
        }
    }

    /// Mostly near the ends of a buffer and of its block.
    fn address(&mut self) -> Address {
        let which = self.byte();
        let offset = match self.below(4) {
            0 => 0,
            1 => self.byte() as isize - 128,
            2 => [63, 64, 65_535, 65_536, -65_536, 199_999][self.below(6)],
            _ => self.word() as i32 as isize * self.word() as isize,
        };
        Address { which, offset }
    }

    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first)
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| self.byte() as u8))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.byte() % bound
    }
}

const EDGES: [usize; 6] = [4096, 65_535, 65_536, 65_537, 131_072, 200_000];
const OPERATIONS_MAX: usize = 256;

/// One buffer that was ever handed out.
#[derive(Debug)]
struct Entry {
    start: usize,
    len: usize,
    is_published: bool,
    handles: usize,
    pins: usize,
    fill: u8,
}

impl Entry {
    fn is_live(&self) -> bool {
        self.handles + self.pins > 0
    }

    fn covers(&self, address: usize) -> bool {
        self.is_live() && self.is_published && address.wrapping_sub(self.start) < self.len
    }
}

/// The pool under test beside the flat list.
pub struct Driver {
    pool: BufferPool,
    entries: Vec<Entry>,
    writing: Vec<(usize, BufferMut)>,
    handles: Vec<(usize, Buffer)>,
}

impl Driver {
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            pool: BufferPool::builder()
                .budget_bytes(budget_bytes)
                .build()
                .unwrap(),
            entries: Vec::new(),
            writing: Vec::new(),
            handles: Vec::new(),
        }
    }

    pub fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Alloc { len } => self.alloc(len),
            Operation::Find { len } => self.find(len),
            Operation::Truncate { which, len } => self.truncate(which, len),
            Operation::Freeze { which } => self.freeze(which),
            Operation::Abandon { which } => self.abandon(which),
            Operation::Clone { which } => self.clone(which),
            Operation::Slice { which, start, len } => self.slice(which, start, len),
            Operation::Drop { which } => self.drop_handle(which),
            Operation::Pin(address) => self.pin(&address),
            Operation::Unpin(address) => self.unpin(&address),
            Operation::BufferAt(address) => self.buffer_at(&address),
            Operation::Trim => drop(self.pool.trim()),
        }
        self.check();
    }

    fn alloc(&mut self, len: usize) {
        match self.pool.alloc(len) {
            Ok(mut buffer) => {
                assert_eq!(buffer.len(), len);
                let entry = self.enter(buffer.as_ptr().addr(), len);
                buffer.fill(self.entries[entry].fill);
                self.entries[entry].handles = 1;
                self.writing.push((entry, buffer));
            }
            Err(error) => self.check_refusal(len, error),
        }
    }

    fn find(&mut self, len: usize) {
        match self.pool.find(len) {
            Ok(start) => {
                let entry = self.enter(start.addr(), len);
                // SAFETY: the pool has just handed out these bytes, and no
                // `Buffer` gives access to them yet.
                unsafe { start.write_bytes(self.entries[entry].fill, len) };
                self.entries[entry].pins = 1;
                self.entries[entry].is_published = true;
            }
            Err(error) if len == 0 => assert_eq!(error, Error::Empty),
            Err(error) => self.check_refusal(len, error),
        }
    }

    fn truncate(&mut self, which: usize, len: usize) {
        if let Some((entry, buffer)) = pick(&mut self.writing, which) {
            buffer.truncate(len);
            self.entries[*entry].len = buffer.len();
        }
    }

    fn freeze(&mut self, which: usize) {
        if let Some((entry, buffer)) = take(&mut self.writing, which) {
            self.entries[entry].is_published = true;
            self.handles.push((entry, buffer.freeze()));
        }
    }

    fn abandon(&mut self, which: usize) {
        if let Some((entry, _)) = take(&mut self.writing, which) {
            self.entries[entry].handles -= 1;
        }
    }

    fn clone(&mut self, which: usize) {
        if let Some((entry, buffer)) = pick(&mut self.handles, which) {
            let cloned = (*entry, buffer.clone());
            self.entries[cloned.0].handles += 1;
            self.handles.push(cloned);
        }
    }

    fn slice(&mut self, which: usize, start: usize, len: usize) {
        if let Some((entry, buffer)) = pick(&mut self.handles, which) {
            let start = start.min(buffer.len());
            let end = (start + len).min(buffer.len());
            let part = (*entry, buffer.slice(start..end));
            assert_eq!(part.1, buffer.slice_ref(&buffer[start..end]).unwrap());
            self.entries[part.0].handles += 1;
            self.handles.push(part);
        }
    }

    fn drop_handle(&mut self, which: usize) {
        if let Some((entry, _)) = take(&mut self.handles, which) {
            self.entries[entry].handles -= 1;
        }
    }

    fn pin(&mut self, address: &Address) {
        let Some(address) = self.resolve(address) else {
            return;
        };
        let result = self.pool.pin(address);
        match self.owner(address) {
            Some(entry) => {
                assert_eq!(result, Ok(()));
                entry.pins += 1;
            }
            None => assert!(is_no_buffer(result.unwrap_err())),
        }
    }

    fn unpin(&mut self, address: &Address) {
        let Some(address) = self.resolve(address) else {
            return;
        };
        let result = self.pool.unpin(address);
        match self.owner(address) {
            Some(entry) if entry.pins > 0 => {
                assert_eq!(result, Ok(()));
                entry.pins -= 1;
            }
            Some(_) => assert!(matches!(result, Err(Error::NotPinned { .. }))),
            None => assert!(is_no_buffer(result.unwrap_err())),
        }
    }

    fn buffer_at(&mut self, address: &Address) {
        let Some(address) = self.resolve(address) else {
            return;
        };
        let result = self.pool.buffer_at(address);
        let covering = self.entries.iter().position(|e| e.covers(address.addr()));
        match covering {
            Some(entry) => {
                let buffer = result.unwrap();
                assert_eq!(buffer.as_ptr().addr(), self.entries[entry].start);
                assert_eq!(buffer.len(), self.entries[entry].len);
                self.entries[entry].handles += 1;
                self.handles.push((entry, buffer));
            }
            None => assert!(is_no_buffer(result.unwrap_err())),
        }
    }

    /// What must hold after every operation.
    fn check(&self) {
        let live = self.entries.iter().filter(|entry| entry.is_live()).count();
        let stats = self.pool.stats();
        assert_eq!(stats.live_count, live as u64);
        assert!(stats.live_bytes <= stats.budget_bytes);
        for (entry, buffer) in &self.handles {
            let fill = self.entries[*entry].fill;
            assert!(buffer.iter().all(|byte| *byte == fill));
        }
    }

    /// Drops everything, and checks that the pool is empty.
    pub fn finish(mut self) {
        self.writing.clear();
        self.handles.clear();
        for entry in &mut self.entries {
            entry.handles = 0;
            for _ in 0..std::mem::take(&mut entry.pins) {
                let address = std::ptr::without_provenance(entry.start);
                assert_eq!(self.pool.unpin(address), Ok(()));
            }
        }
        self.check();
        assert_eq!(self.pool.stats().live_bytes, 0);
    }

    fn enter(&mut self, start: usize, len: usize) -> usize {
        let overlaps = |entry: &Entry| {
            entry.is_live() && start < entry.start + entry.len && entry.start < start + len
        };
        assert!(!self.entries.iter().any(overlaps));
        self.entries.push(Entry {
            start,
            len,
            is_published: false,
            handles: 0,
            pins: 0,
            fill: self.entries.len() as u8 ^ 0x5a,
        });
        self.entries.len() - 1
    }

    fn check_refusal(&self, len: usize, error: Error) {
        assert!(matches!(error, Error::OverBudget { .. }), "{error}");
        let stats = self.pool.stats();
        let rounded = (len as u64 * 3 / 2).next_multiple_of(65536).max(64);
        let rounded = if len > 65536 {
            rounded
        } else {
            len as u64 * 3 / 2 + 64
        };
        assert!(stats.live_bytes + rounded > stats.budget_bytes, "{error}");
    }

    fn resolve(&self, address: &Address) -> Option<*const u8> {
        let count = self.entries.len();
        let entry = self.entries.get(address.which.checked_rem(count)?)?;
        let start = entry.start.wrapping_add_signed(address.offset);
        Some(std::ptr::without_provenance(start))
    }

    fn owner(&mut self, address: *const u8) -> Option<&mut Entry> {
        let covers = |entry: &&mut Entry| entry.covers(address.addr());
        self.entries.iter_mut().find(covers)
    }
}

fn is_no_buffer(error: Error) -> bool {
    matches!(error, Error::NotLive { .. } | Error::Foreign { .. })
}

fn pick<T>(items: &mut [T], which: usize) -> Option<&mut T> {
    let index = which.checked_rem(items.len())?;
    items.get_mut(index)
}

fn take<T>(items: &mut Vec<T>, which: usize) -> Option<T> {
    let index = which.checked_rem(items.len())?;
    Some(items.swap_remove(index))
}
