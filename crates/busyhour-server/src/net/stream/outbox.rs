use super::StreamPolicy;
use busyhour::buffer::Buffer;
use std::{
    collections::VecDeque,
    io::IoSlice,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What waits to be sent on one connection, in order and bounded, as is what
/// waits on all of them.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: VecDeque<Buffer>,
    /// Bytes of the first that have left.
    gone: usize,
    /// What the messages cost while they wait.
    cost_bytes: usize,
    cost_bytes_max: usize,
    /// The same of all connections.
    all: Arc<AtomicUsize>,
    all_max: usize,
}

impl Outbox {
    pub(super) fn new(policy: &StreamPolicy, all: Arc<AtomicUsize>) -> Self {
        Self {
            waiting: VecDeque::new(),
            gone: 0,
            cost_bytes: 0,
            cost_bytes_max: policy.outbox_bytes_max,
            all,
            all_max: policy.all_outboxes_bytes_max,
        }
    }

    /// `false`, and nothing is taken, when it would not fit.
    pub(super) fn push(&mut self, message: Buffer) -> bool {
        let cost = cost_bytes(&message);
        if self.cost_bytes + cost > self.cost_bytes_max {
            return false;
        }
        if self.all.fetch_add(cost, Ordering::Relaxed) + cost > self.all_max {
            self.all.fetch_sub(cost, Ordering::Relaxed);
            return false;
        }
        self.cost_bytes += cost;
        self.waiting.push_back(message);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first pieces, for one system call.
    pub(super) fn pieces(&self) -> Vec<IoSlice<'_>> {
        let mut gone = self.gone;
        let pieces = self.waiting.iter().take(PIECES_MAX);
        let rest = pieces.map(|message| {
            let rest = message.get(gone..).unwrap_or_default();
            gone = 0;
            IoSlice::new(rest)
        });
        rest.collect()
    }

    /// Forgets the first `count` bytes, which have left.
    pub(super) fn advance(&mut self, count: usize) {
        self.gone += count;
        while let Some(first) = self.waiting.front().filter(|one| one.len() <= self.gone) {
            self.gone -= first.len();
            let cost = cost_bytes(first);
            self.cost_bytes -= cost;
            self.all.fetch_sub(cost, Ordering::Relaxed);
            self.waiting.pop_front();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.all.fetch_sub(self.cost_bytes, Ordering::Relaxed);
    }
}

/// A small message holds a block of the pool, and a place in the queue.
fn cost_bytes(message: &Buffer) -> usize {
    message.len() + KEEPING_BYTES
}

const KEEPING_BYTES: usize = 96;
const PIECES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::buffer::BufferPool;

    fn outbox(messages_max: usize, all: &Arc<AtomicUsize>) -> Outbox {
        let policy = StreamPolicy {
            outbox_bytes_max: messages_max * (KEEPING_BYTES + 4),
            all_outboxes_bytes_max: 3 * (KEEPING_BYTES + 4),
            ..StreamPolicy::default()
        };
        Outbox::new(&policy, all.clone())
    }

    #[test]
    fn it_is_bounded_and_goes_on_within_a_message() {
        let buffers = BufferPool::builder().build().unwrap();
        let all = Arc::default();
        let mut outbox = outbox(2, &all);
        assert!(outbox.push(buffers.copy_from(b"abcd").unwrap()));
        assert!(outbox.push(buffers.copy_from(b"ef").unwrap()));
        assert!(!outbox.push(buffers.copy_from(b"xyz").unwrap()));
        outbox.advance(3);
        let left: Vec<u8> = outbox.pieces().iter().flat_map(|p| p.to_vec()).collect();
        assert_eq!(left, b"def");
        outbox.advance(1);
        assert!(outbox.push(buffers.copy_from(b"gh").unwrap()));
        outbox.advance(4);
        assert!(outbox.is_empty());
        assert_eq!(all.load(Ordering::Relaxed), 0);
        drop(outbox);
        assert_eq!(buffers.live_count(), 0);
    }

    #[test]
    fn what_waits_on_all_connections_is_bounded_too() {
        let buffers = BufferPool::builder().build().unwrap();
        let message = buffers.copy_from(b"abcd").unwrap();
        let all = Arc::default();
        let (mut one, mut other) = (outbox(2, &all), outbox(2, &all));
        assert!(one.push(message.clone()) && one.push(message.clone()));
        assert!(other.push(message.clone()));
        assert!(!other.push(message.clone()));
        drop(one);
        assert!(other.push(message));
    }
}
