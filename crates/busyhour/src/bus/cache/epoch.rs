//! Epochs tell when no reader can use a replaced value any more, and readers
//! write nothing that they share.
//!
//! While a thread reads, it notes the epoch in a record of its own. A thread
//! that replaces a value stamps it with the current epoch, and frees it two
//! epochs later. The epoch advances only when every reader has noted the newest
//! one. The module's README.md has the proof.

use crate::sync::{
    CachePadded, Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    lock, modelled_static, modelled_thread_local_with_drop, store_sequential_u64, try_lock,
};
use std::{cell::OnceCell, marker::PhantomData};

/// The epoch, and all threads that may be reading.
pub(in crate::bus) struct Epochs {
    now: CachePadded<AtomicU64>,
    readers: Mutex<Readers>,
}

/// The records of threads. They stay for other threads, so there are as many as threads have ever
/// read at the same time.
struct Readers {
    /// Those of threads, each at its [`place`](Reader::place).
    used: Vec<&'static Reader>,
    /// Those whose threads have ended: nobody has to look at them.
    unused: Vec<&'static Reader>,
}

/// One thread's note of the epoch in which it reads.
pub(in crate::bus) struct Reader {
    /// The epoch in which this thread began to read; [`Reader::IDLE`] while it
    /// does not read. Written by its thread, read by the thread that advances
    /// the epoch.
    noted: CachePadded<AtomicU64>,
    /// Where it is among those that are used. Read and written under their lock.
    place: AtomicUsize,
}

/// While this lives, nothing that its thread can find in a table is freed.
pub(in crate::bus) struct Pin<'a> {
    /// `None` for a pin inside another pin.
    reader: Option<&'a Reader>,
    /// The note belongs to this thread.
    _not_send: PhantomData<*const ()>,
}

impl Readers {
    const NONE: Self = Self {
        used: Vec::new(),
        unused: Vec::new(),
    };
}

impl Reader {
    const IDLE: u64 = 0;

    fn new() -> Self {
        Self {
            noted: CachePadded(AtomicU64::new(Self::IDLE)),
            place: AtomicUsize::new(0),
        }
    }
}

impl Epochs {
    /// Some of their own.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(in crate::bus) fn new() -> Self {
        Self {
            now: CachePadded(AtomicU64::new(Reader::IDLE + 1)),
            readers: Mutex::new(Readers::NONE),
        }
    }

    /// A record for a thread. Whoever has it returns it.
    pub(in crate::bus) fn register(&self) -> &'static Reader {
        let mut readers = lock(&self.readers);
        let unused = readers.unused.pop();
        let reader = unused.unwrap_or_else(|| Box::leak(Box::new(Reader::new())));
        reader.place.store(readers.used.len(), Ordering::Relaxed);
        readers.used.push(reader);
        reader
    }

    /// Takes a record back from a thread that does not read.
    fn unregister(&self, reader: &'static Reader) {
        debug_assert_eq!(reader.noted.load(Ordering::Relaxed), Reader::IDLE);
        let mut readers = lock(&self.readers);
        let place = reader.place.load(Ordering::Relaxed);
        readers.used.swap_remove(place);
        if let Some(moved) = readers.used.get(place) {
            moved.place.store(place, Ordering::Relaxed);
        }
        readers.unused.push(reader);
    }

    /// Begins to read, on the thread that owns the record.
    #[inline(always)]
    pub(in crate::bus) fn pin<'a>(&self, reader: &'a Reader) -> Pin<'a> {
        let nested = reader.noted.load(Ordering::Relaxed) != Reader::IDLE;
        if !nested {
            let now = self.now.load(Ordering::Relaxed);
            store_sequential_u64(&reader.noted, now);
        }
        Pin {
            reader: (!nested).then_some(reader),
            _not_send: PhantomData,
        }
    }

    /// The stamp for a value that has just been made impossible to find.
    pub(super) fn stamp(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now.load(Ordering::Relaxed)
    }

    /// Whether no reader can use any more what got this stamp.
    pub(in crate::bus) fn is_over(&self, stamp: u64) -> bool {
        self.now.load(Ordering::Acquire) >= stamp + 2
    }

    /// Advances the epoch if every reader has noted it; never waits.
    pub(super) fn try_advance(&self) {
        let Some(readers) = try_lock(&self.readers) else {
            return;
        };
        let now = self.now.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Ordered after everything that was read before it was noted.
        let is_behind = |reader: &&Reader| {
            let noted = reader.noted.load(Ordering::Acquire);
            noted != Reader::IDLE && noted != now
        };
        if !readers.used.iter().any(is_behind) {
            self.now.store(now + 1, Ordering::Release);
        }
    }
}

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(reader) = self.reader {
            reader.noted.store(Reader::IDLE, Ordering::Release);
        }
    }
}

modelled_static! {
    static EPOCHS: Epochs = Epochs {
        now: CachePadded(AtomicU64::new(Reader::IDLE + 1)),
        readers: Mutex::new(Readers::NONE),
    };
}

/// The epochs of the process.
#[inline(always)]
pub(super) fn epochs() -> &'static Epochs {
    &EPOCHS
}

/// Runs `read` while pinned, with this thread's record.
#[inline(always)]
pub(in crate::bus) fn pinned<R>(read: impl FnOnce(&Pin<'_>) -> R) -> R {
    let mut at_end = None;
    let of_thread = THREAD.try_with(|reader| reader.get_or_init(Registered::new).0);
    let reader = match of_thread {
        Ok(reader) => reader,
        // The thread is ending and has returned its record.
        Err(_) => at_end.insert(Registered::new()).0,
    };
    // Over before the record goes back.
    let pin = epochs().pin(reader);
    read(&pin)
}

/// A record that is another thread's after this one.
struct Registered(&'static Reader);

impl Registered {
    fn new() -> Self {
        Self(epochs().register())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A model's epochs end before its threads' records.
        if !cfg!(any(loom, shuttle)) {
            epochs().unregister(self.0);
        }
    }
}

modelled_thread_local_with_drop! {
    static THREAD / THREAD_PLACE: OnceCell<Registered> = OnceCell::new();
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_thread_that_has_ended_is_used_again() {
        let epochs = Epochs::new();
        let (first, second) = (epochs.register(), epochs.register());
        assert!(!std::ptr::eq(first, second), "both are in use");
        epochs.unregister(first);
        assert_eq!(
            lock(&epochs.readers).used.len(),
            1,
            "an advance looks at one"
        );
        assert!(std::ptr::eq(epochs.register(), first));
        epochs.unregister(second);
        epochs.unregister(first);
        assert_eq!(lock(&epochs.readers).used.len(), 0);
        assert_eq!(lock(&epochs.readers).unused.len(), 2);
    }

    #[test]
    fn a_thread_that_ends_returns_its_record() {
        let address = |reader: &Reader| std::ptr::from_ref(reader).addr();
        let record = move || {
            let record = THREAD.try_with(|reader| address(reader.get_or_init(Registered::new).0));
            record.ok()
        };
        let of_ended = std::thread::spawn(record).join().expect("it ends");
        let readers = lock(&epochs().readers);
        let mut unused = readers.unused.iter().map(|reader| address(reader));
        let mut used = readers.used.iter().map(|reader| address(reader));
        // Another test's thread may have it already.
        let is_it = |found| Some(found) == of_ended;
        assert!(unused.any(is_it) || used.any(is_it));
    }
}
