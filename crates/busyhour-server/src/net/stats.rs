use serde::Serialize;
use std::{
    ops::AddAssign,
    sync::atomic::{AtomicU64, Ordering},
};

/// What the sockets have moved, and what they lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkStats {
    /// Datagrams received.
    pub received: u64,
    /// Bytes in them.
    pub received_bytes: u64,
    /// System calls that received at least one; `received / receive_calls` is the batch.
    pub receive_calls: u64,
    /// Datagrams that the kernel dropped because its receive buffer was full.
    pub kernel_dropped: u64,
    /// Datagrams dropped because the packet memory was used up.
    pub dropped_no_buffer: u64,
    /// Receive calls that failed.
    pub receive_errors: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// System calls that sent at least one; `sent / send_calls` is the batch.
    pub send_calls: u64,
    /// Datagrams waiting to be sent.
    pub send_queued_len: u64,
    /// The highest `send_queued_len` seen.
    pub send_queued_high_water: u64,
    /// Datagrams dropped because the send queue was full.
    pub dropped_send_queue: u64,
    /// Datagrams dropped because the kernel refused them or had no room in time.
    pub send_errors: u64,
}

/// The counters of one socket; each is written by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) received: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) receive_calls: AtomicU64,
    pub(super) dropped_no_buffer: AtomicU64,
    pub(super) receive_errors: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) send_calls: AtomicU64,
    pub(super) dropped_send_queue: AtomicU64,
    pub(super) send_errors: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> NetworkStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NetworkStats {
            received: read(&self.received),
            received_bytes: read(&self.received_bytes),
            receive_calls: read(&self.receive_calls),
            dropped_no_buffer: read(&self.dropped_no_buffer),
            receive_errors: read(&self.receive_errors),
            sent: read(&self.sent),
            sent_bytes: read(&self.sent_bytes),
            send_calls: read(&self.send_calls),
            dropped_send_queue: read(&self.dropped_send_queue),
            send_errors: read(&self.send_errors),
            ..NetworkStats::default()
        }
    }
}

impl AddAssign for NetworkStats {
    /// Sums the sockets; a high water mark of several is their sum, never less than it was.
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.receive_calls += other.receive_calls;
        self.kernel_dropped += other.kernel_dropped;
        self.dropped_no_buffer += other.dropped_no_buffer;
        self.receive_errors += other.receive_errors;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.send_calls += other.send_calls;
        self.send_queued_len += other.send_queued_len;
        self.send_queued_high_water += other.send_queued_high_water;
        self.dropped_send_queue += other.dropped_send_queue;
        self.send_errors += other.send_errors;
    }
}

pub(super) fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}
