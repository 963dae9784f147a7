//! One pass over an archive's volumes by any number of threads.
//!
//! A free worker takes the next chunk (chunks are read one after the other, which is
//! cheap compared with decoding), decodes it alone, and joins the chunks that can be
//! joined. A thread that finds no chunk ends. The others are asked for help only when a
//! chunk had enough wanted values. So a small archive, or a few series of a large one,
//! cost one thread's work, however many threads were offered.

use crate::{
    Damage, Error,
    read::volume::{Chunk, Volumes},
    render::{
        merge::Merge,
        segment::{Decoder, Segment, Task},
    },
};
use busyhour::buffer::{BufferMut, BufferPool};
use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// A pass over the volumes.
pub(crate) struct Scan {
    task: Task,
    buffers: BufferPool,
    reader: Mutex<Reader>,
    joined: Mutex<Joined>,
    changed: Condvar,
}

/// What reading gave beside the chunks.
pub(crate) struct ScanResult {
    pub(crate) bytes_read: u64,
    /// The first label that did not fit.
    pub(crate) damage: Option<Damage>,
}

/// Hands out chunks. Locked before [`Joined`], never after it.
struct Reader {
    volumes: Volumes,
    /// The number of the next chunk.
    next: u64,
    is_over: bool,
}

/// Takes decoded chunks back, in any order.
struct Joined {
    merge: Option<Merge>,
    /// Decoded before one that comes earlier, with the volume of each.
    waiting: BTreeMap<u64, (Segment, usize)>,
    /// The number of the next chunk to join.
    next: u64,
    /// Chunks that somebody decodes now.
    taken: u64,
    error: Option<Error>,
    is_enough: bool,
}

impl Scan {
    pub(crate) fn new(task: Task, volumes: Volumes, buffers: BufferPool) -> Self {
        Self {
            reader: Mutex::new(Reader {
                volumes,
                next: 0,
                is_over: false,
            }),
            joined: Mutex::new(Joined {
                merge: Some(Merge::new(task.clone())),
                waiting: BTreeMap::new(),
                next: 0,
                taken: 0,
                error: None,
                is_enough: false,
            }),
            changed: Condvar::new(),
            task,
            buffers,
        }
    }

    /// Decodes chunks until none is left to take, and calls `ask_for_help` after the first
    /// one that has so many wanted values that help makes the rest faster.
    pub(crate) fn lead(&self, ask_for_help: impl FnOnce()) {
        let mut ask_for_help = Some(ask_for_help);
        self.decode(|is_dense| {
            if is_dense && let Some(ask_for_help) = ask_for_help.take() {
                ask_for_help();
            }
        });
    }

    /// Decodes chunks until none is left to take.
    pub(crate) fn work(&self) {
        self.decode(|_| ());
    }

    fn decode(&self, mut after_chunk: impl FnMut(bool)) {
        let mut decoder = Decoder::new(self.task.clone());
        let mut spare = None;
        while let Some((number, chunk)) = self.take(spare.take()) {
            let _ticket = Ticket(self);
            let mut segment = decoder.decode(&chunk);
            if let Some(flaw) = &mut segment.flaw {
                flaw.offset += chunk.offset;
            }
            let is_dense = segment.is_dense(chunk.bytes().len());
            lock(&self.joined).join(number, segment, chunk.volume);
            after_chunk(is_dense);
            spare = Some(chunk.into_spare());
        }
    }

    /// Waits for the chunks that other threads took, and gives the result once.
    pub(crate) fn finish(&self) -> Result<(Merge, ScanResult), Error> {
        let reading = lock(&self.reader).reading();
        let mut joined = self.wait(|joined| joined.taken > 0);
        match (joined.error.take(), joined.merge.take()) {
            (None, Some(merge)) => Ok((merge, reading)),
            (Some(error), _) => Err(error),
            (None, None) => Err(Error::Lost),
        }
    }

    fn take(&self, spare: Option<BufferMut>) -> Option<(u64, Chunk)> {
        // A thread that waits here waits for a chunk that another thread already
        // decodes.
        let is_enough = self.wait(Joined::is_crowded).is_enough;
        let mut reader = lock(&self.reader);
        if reader.is_over || is_enough {
            return None;
        }
        match reader.volumes.next(&self.buffers, spare) {
            Ok(Some(chunk)) => {
                let number = reader.next;
                reader.next += 1;
                lock(&self.joined).taken += 1;
                return Some((number, chunk));
            }
            Ok(None) => {}
            Err(error) => {
                lock(&self.joined).error.get_or_insert(error);
            }
        }
        reader.is_over = true;
        None
    }

    fn wait(&self, is_busy: impl Fn(&Joined) -> bool) -> MutexGuard<'_, Joined> {
        let woken = self
            .changed
            .wait_while(lock(&self.joined), |joined| is_busy(joined));
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    fn reading(&mut self) -> ScanResult {
        ScanResult {
            bytes_read: self.volumes.bytes_read,
            damage: self.volumes.damage.take(),
        }
    }
}

impl Joined {
    fn join(&mut self, number: u64, segment: Segment, volume: usize) {
        self.waiting.insert(number, (segment, volume));
        while let Some((segment, volume)) = self.waiting.remove(&self.next) {
            self.next += 1;
            if let Some(merge) = &mut self.merge {
                self.is_enough |= !merge.add(&segment, volume);
            }
        }
    }

    fn is_crowded(&self) -> bool {
        self.waiting.len() >= WAITING_COUNT_MAX && !self.is_enough
    }
}

/// Held while a chunk is decoded: a thread that panics does not leave the
/// others waiting.
struct Ticket<'a>(&'a Scan);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut joined = lock(&self.0.joined);
        joined.taken -= 1;
        if thread::panicking() {
            joined.error.get_or_insert(Error::Lost);
            joined.is_enough = true;
        }
        self.0.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It bounds what threads can decode ahead of one that was held up.
const WAITING_COUNT_MAX: usize = 8;
