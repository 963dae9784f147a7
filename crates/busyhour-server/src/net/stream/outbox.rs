use super::{StreamPolicy, web_socket::FrameHead};
use busyhour::buffer::Buffer;
use std::{
    collections::VecDeque,
    io::IoSlice,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The messages that wait to be sent on one connection, in order and bounded; the total
/// over all connections is bounded too.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: VecDeque<QueuedMessage>,
    /// Bytes of the first that have left.
    gone: usize,
    /// What the messages cost while they wait.
    cost_bytes: usize,
    cost_bytes_max: usize,
    /// The same of all connections of its source.
    source: Arc<AtomicUsize>,
    source_max: usize,
    /// The same of all connections.
    all: Arc<AtomicUsize>,
    all_max: usize,
}

/// What waits: a message behind the head of its frame, if it has one, or such a head alone.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    head: FrameHead,
    message: Option<Buffer>,
}

/// How much of the room a message may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoomShare {
    /// The bound for a connection without an accepted request.
    Untrusted,
    /// All.
    Whole,
    /// Half, for messages that can wait, so that there is always room for those that
    /// cannot.
    Half,
}

impl Outbox {
    /// One that is counted in the sums of its source and of all connections.
    pub(super) fn new(
        policy: &StreamPolicy,
        source: Arc<AtomicUsize>,
        all: Arc<AtomicUsize>,
    ) -> Self {
        // One connection may have its queue, however much that is.
        let source_max = policy
            .outboxes_per_source_bytes_max
            .max(policy.outbox_bytes_max);
        Self {
            waiting: VecDeque::new(),
            gone: 0,
            cost_bytes: 0,
            cost_bytes_max: policy.outbox_bytes_max,
            source,
            source_max,
            all,
            all_max: policy.all_outboxes_bytes_max,
        }
    }

    /// `false`, and nothing is taken, when it would not fit. Where nothing waits
    /// it does: the kernel may take it at once, whatever waits elsewhere. If the
    /// kernel does not, [`is_over`](Self::is_over) tells.
    pub(super) fn push(&mut self, message: impl Into<QueuedMessage>, room: RoomShare) -> bool {
        let message = message.into();
        let cost = message.cost_bytes();
        let fits = |sum: usize, max: usize| self.is_empty() || sum <= max;
        if !fits(
            self.cost_bytes + cost,
            room.share_of_one(self.cost_bytes_max),
        ) {
            return false;
        }
        let source = self.source.fetch_add(cost, Ordering::Relaxed) + cost;
        let all = self.all.fetch_add(cost, Ordering::Relaxed) + cost;
        if !fits(source, room.share_of_all(self.source_max))
            || !fits(all, room.share_of_all(self.all_max))
        {
            self.left(cost);
            return false;
        }
        self.cost_bytes += cost;
        self.waiting.push_back(message);
        true
    }

    /// Whether the only message that waits is too much for all connections
    /// together, or for those of its source.
    pub(super) fn is_over(&self) -> bool {
        let is_over = |sum: &AtomicUsize, max| sum.load(Ordering::Relaxed) > max;
        self.waiting.len() == 1
            && (is_over(&self.all, self.all_max) || is_over(&self.source, self.source_max))
    }

    /// How many messages wait, and their bytes with what it costs to keep them.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.waiting.len(), self.cost_bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first pieces, for one system call.
    pub(super) fn pieces(&self) -> Vec<IoSlice<'_>> {
        let mut gone = self.gone;
        let parts = self.waiting.iter().take(PIECES_MAX);
        let parts = parts.flat_map(|it| [it.head.bytes(), it.body()]);
        let rest = parts.map(|part| {
            let rest = part.get(gone..).unwrap_or_default();
            gone = gone.saturating_sub(part.len());
            rest
        });
        let rest = rest.filter(|rest| !rest.is_empty());
        rest.map(IoSlice::new).collect()
    }

    /// Removes the first `count` bytes, which have been sent.
    pub(super) fn advance(&mut self, count: usize) {
        self.gone += count;
        while let Some(first) = self.waiting.front().filter(|one| one.len() <= self.gone) {
            self.gone -= first.len();
            let cost = first.cost_bytes();
            self.cost_bytes -= cost;
            self.left(cost);
            self.waiting.pop_front();
        }
    }

    fn left(&self, cost: usize) {
        self.source.fetch_sub(cost, Ordering::Relaxed);
        self.all.fetch_sub(cost, Ordering::Relaxed);
    }
}

impl RoomShare {
    fn share_of_one(self, max: usize) -> usize {
        match self {
            Self::Untrusted => max.min(UNTRUSTED_BYTES_MAX),
            Self::Whole => max,
            Self::Half => max / 2,
        }
    }

    /// Untrusted connections leave as much room to trusted ones as messages that can
    /// wait do.
    fn share_of_all(self, max: usize) -> usize {
        match self {
            Self::Whole => max,
            Self::Untrusted | Self::Half => max / 2,
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.left(self.cost_bytes);
    }
}

impl QueuedMessage {
    /// A message in its frame.
    pub(super) fn framed(head: FrameHead, message: Buffer) -> Self {
        Self {
            head,
            message: Some(message),
        }
    }

    fn body(&self) -> &[u8] {
        self.message.as_deref().unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.head.bytes().len() + self.body().len()
    }

    /// A small message holds a block of the pool, and a place in the queue.
    fn cost_bytes(&self) -> usize {
        self.len() + KEEPING_BYTES
    }
}

impl From<Buffer> for QueuedMessage {
    /// As it is.
    fn from(message: Buffer) -> Self {
        Self::framed(FrameHead::default(), message)
    }
}

impl From<FrameHead> for QueuedMessage {
    /// A frame without a body.
    fn from(head: FrameHead) -> Self {
        Self {
            head,
            message: None,
        }
    }
}

const KEEPING_BYTES: usize = 96;
const UNTRUSTED_BYTES_MAX: usize = 256 << 10;
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
        Outbox::new(&policy, Arc::default(), all.clone())
    }

    #[test]
    fn an_outbox_is_bounded_and_continues_within_a_message() {
        let buffers = BufferPool::builder().build().unwrap();
        let all = Arc::default();
        let mut outbox = outbox(2, &all);
        assert!(outbox.push(buffers.copy_from(b"abcd").unwrap(), RoomShare::Whole));
        assert!(outbox.push(buffers.copy_from(b"ef").unwrap(), RoomShare::Whole));
        assert!(!outbox.push(buffers.copy_from(b"xyz").unwrap(), RoomShare::Whole));
        outbox.advance(3);
        let left: Vec<u8> = outbox.pieces().iter().flat_map(|p| p.to_vec()).collect();
        assert_eq!(left, b"def");
        outbox.advance(1);
        assert!(outbox.push(buffers.copy_from(b"gh").unwrap(), RoomShare::Whole));
        outbox.advance(4);
        assert!(outbox.is_empty());
        assert_eq!(all.load(Ordering::Relaxed), 0);
        drop(outbox);
        assert_eq!(buffers.live_count(), 0);
    }

    #[test]
    fn waiting_bytes_of_all_connections_are_bounded_too() {
        let buffers = BufferPool::builder().build().unwrap();
        let message = buffers.copy_from(b"abcd").unwrap();
        let all = Arc::default();
        let (mut one, mut other) = (outbox(2, &all), outbox(2, &all));
        assert!(one.push(message.clone(), RoomShare::Whole));
        assert!(one.push(message.clone(), RoomShare::Whole));
        assert!(other.push(message.clone(), RoomShare::Whole));
        assert!(!other.push(message.clone(), RoomShare::Whole));
        drop(one);
        assert!(other.push(message, RoomShare::Whole));
    }

    #[test]
    fn waiting_bytes_of_other_connections_leave_untrusted_ones_their_share() {
        let buffers = BufferPool::builder().build().unwrap();
        let message = buffers.copy_from(&[0; 60_000]).unwrap();
        let policy = StreamPolicy::default();
        let all = Arc::default();
        let mut proxy = Outbox::new(&policy, Arc::default(), Arc::clone(&all));
        for _ in 0..2 * UNTRUSTED_BYTES_MAX / message.len() {
            assert!(proxy.push(message.clone(), RoomShare::Whole));
        }
        let mut untrusted = Outbox::new(&policy, Arc::default(), all);
        let taken = (0..100).take_while(|_| untrusted.push(message.clone(), RoomShare::Untrusted));
        assert_eq!(taken.count(), UNTRUSTED_BYTES_MAX / message.len());
    }

    #[test]
    fn waiting_bytes_of_one_source_leave_room_to_others() {
        let buffers = BufferPool::builder().build().unwrap();
        let message = buffers.copy_from(&[0; 60_000]).unwrap();
        let policy = StreamPolicy::default();
        let (all, source) = (Arc::default(), Arc::<AtomicUsize>::default());
        let of_source = || Outbox::new(&policy, Arc::clone(&source), Arc::clone(&all));
        let (mut one, mut two) = (of_source(), of_source());
        while one.push(message.clone(), RoomShare::Whole) {}
        assert!(
            two.push(message.clone(), RoomShare::Whole),
            "the kernel may take it"
        );
        assert!(two.is_over());
        let mut other = Outbox::new(&policy, Arc::default(), Arc::clone(&all));
        for _ in 0..10 {
            assert!(other.push(message.clone(), RoomShare::Whole));
        }
        drop((one, two));
        assert_eq!(source.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_longer_queue_of_one_connection_can_be_used() {
        let buffers = BufferPool::builder().build().unwrap();
        let message = buffers.copy_from(&[0; 60_000]).unwrap();
        for mebibytes in [12, 64] {
            let policy = StreamPolicy {
                outbox_bytes_max: mebibytes << 20,
                ..StreamPolicy::default()
            };
            let mut outbox = Outbox::new(&policy, Arc::default(), Arc::default());
            let room = (mebibytes << 20) / QueuedMessage::from(message.clone()).cost_bytes();
            let taken =
                (0..2 * room).take_while(|_| outbox.push(message.clone(), RoomShare::Whole));
            assert_eq!(taken.count(), room);
        }
    }

    #[test]
    fn messages_that_can_wait_leave_room_for_those_that_cannot() {
        let buffers = BufferPool::builder().build().unwrap();
        let message = buffers.copy_from(b"abcd").unwrap();
        let mut outbox = outbox(3, &Arc::default());
        assert!(outbox.push(message.clone(), RoomShare::Half));
        assert!(!outbox.push(message.clone(), RoomShare::Half));
        assert!(outbox.push(message.clone(), RoomShare::Whole));
        assert!(outbox.push(message.clone(), RoomShare::Whole));
        assert!(!outbox.push(message, RoomShare::Whole));
    }

    #[test]
    fn one_message_is_offered_to_the_kernel_however_much_waits_elsewhere() {
        let buffers = BufferPool::builder().build().unwrap();
        let message = buffers.copy_from(b"abcd").unwrap();
        let all = Arc::default();
        let (mut hog, mut other) = (outbox(3, &all), outbox(3, &all));
        while hog.push(message.clone(), RoomShare::Whole) {}
        assert!(other.push(message.clone(), RoomShare::Half));
        assert!(other.is_over(), "the kernel did not take it");
        assert!(!other.push(message, RoomShare::Whole));
        other.advance(4);
        assert!(!other.is_over());
    }
}
