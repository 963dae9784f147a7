//! Epochs tell when no reader can use a replaced value any more, and readers
//! write nothing that they share.
//!
//! While a thread reads, it notes the epoch in a record of its own. A thread
//! that replaces a value stamps it with the current epoch, and frees it two
//! epochs later. The epoch advances only when every reader has noted the newest
//! one. The module's README.md has the proof.

use crate::sync::{
    CachePadded, Mutex,
    atomic::{AtomicU64, Ordering, fence},
    lazy_static, lock, modelled_thread_local_with_drop, store_sequential_u64, try_lock,
};
use std::{cell::OnceCell, marker::PhantomData, sync::Arc};

/// The epoch, and all threads that may be reading.
pub(in crate::bus) struct Epochs {
    now: CachePadded<AtomicU64>,
    readers: Mutex<Vec<Arc<Reader>>>,
}

/// One thread's note of the epoch in which it reads.
pub(in crate::bus) struct Reader {
    /// The epoch in which this thread began to read; [`Reader::IDLE`] while it
    /// does not read. Written by its thread, read by the thread that advances
    /// the epoch.
    noted: CachePadded<AtomicU64>,
}

/// While this lives, nothing that its thread can find in a table is freed.
pub(in crate::bus) struct Pin<'a> {
    /// `None` for a pin inside another pin.
    reader: Option<&'a Reader>,
    /// The note belongs to this thread.
    _not_send: PhantomData<*const ()>,
}

impl Reader {
    const IDLE: u64 = 0;

    fn new() -> Arc<Self> {
        Arc::new(Self {
            noted: CachePadded(AtomicU64::new(Self::IDLE)),
        })
    }
}

impl Epochs {
    pub(in crate::bus) fn new() -> Self {
        Self {
            now: CachePadded(AtomicU64::new(Reader::IDLE + 1)),
            readers: Mutex::new(Vec::new()),
        }
    }

    pub(in crate::bus) fn register(&self) -> Arc<Reader> {
        let reader = Reader::new();
        lock(&self.readers).push(Arc::clone(&reader));
        reader
    }

    fn unregister(&self, reader: &Arc<Reader>) {
        lock(&self.readers).retain(|other| !Arc::ptr_eq(other, reader));
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
        let is_behind = |reader: &Arc<Reader>| {
            let noted = reader.noted.load(Ordering::Acquire);
            noted != Reader::IDLE && noted != now
        };
        if !readers.iter().any(is_behind) {
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

lazy_static! {
    static ref EPOCHS: Epochs = Epochs::new();
}

/// The epochs of the process.
#[inline(always)]
pub(super) fn epochs() -> &'static Epochs {
    &EPOCHS
}

/// Runs `read` while pinned, with this thread's record.
#[inline(always)]
pub(in crate::bus) fn pinned<R>(read: impl FnOnce(&Pin<'_>) -> R) -> R {
    let mut read = Some(read);
    let run = |reader: &OnceCell<Registered>| {
        let reader = reader.get_or_init(Registered::new);
        Some(read.take()?(&epochs().pin(&reader.0)))
    };
    let done = THREAD.try_with(run).ok().flatten();
    match (done, read) {
        (Some(result), _) => result,
        // The thread is ending and has returned its record.
        (None, Some(read)) => read(&epochs().pin(&Registered::new().0)),
        (None, None) => unreachable!("a read that was taken has a result"),
    }
}

/// A record that leaves the list with its thread.
struct Registered(Arc<Reader>);

impl Registered {
    fn new() -> Self {
        Self(epochs().register())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A model's epochs end before its threads' records.
        if !cfg!(any(loom, shuttle)) {
            epochs().unregister(&self.0);
        }
    }
}

modelled_thread_local_with_drop! {
    static THREAD / THREAD_PLACE: OnceCell<Registered> = OnceCell::new();
}
