//! A request that waits, and what it takes of the room.

use super::may_go_on;
use crate::server::{
    cluster::partition_routes::PartitionOwner,
    load::shares::{Holder, Shares},
    spans::request_span::RequestSpan,
};
use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
};
use busyhour_cluster::{KeptPlace, KeptRequests};
use busyhour_sip::Flow;
use std::sync::Arc;

/// A request that waits for a partition.
pub(in crate::server) struct KeptRequest {
    /// By which epoch of the partition whoever handed it here took this node for the owner; 0 for what came here by itself.
    pub(in crate::server) known_in: u64,
    pub(in crate::server) flow: Flow,
    pub(in crate::server) datagram: Buffer,
    /// Among those that were put back.
    pub(in crate::server) place: KeptPlace,
    pub(in crate::server) span: RequestSpan,
}

/// What waits, since when, and its share of the room.
pub(super) struct PlacedRequest {
    pub(super) request: KeptRequest,
    pub(super) since: Instant,
    _share: KeptShare,
}

struct KeptShare {
    room: Arc<Shares>,
    holder: Holder,
    bytes: u64,
}

impl PlacedRequest {
    /// Takes the request, if there is room for it.
    pub(super) fn place(
        since: Instant,
        (room, holder): (&Arc<Shares>, Holder),
        buffers: &BufferPool,
        request: &mut Option<KeptRequest>,
    ) -> Option<Self> {
        let datagram = &request.as_ref()?.datagram;
        let bytes = charge_bytes(datagram.len());
        room.take(holder, bytes).ok()?;
        let share = KeptShare {
            room: room.clone(),
            holder,
            bytes,
        };
        // It may be a part of what a connection has received at once.
        let datagram = buffers.copy_from(datagram).ok()?;
        let mut request = request.take()?;
        request.datagram = datagram;
        request.span.step("partition");
        Some(Self {
            request,
            since,
            _share: share,
        })
    }

    pub(super) fn goes_on(&self, owner: PartitionOwner) -> bool {
        may_go_on(owner, self.request.known_in)
    }
}

impl Drop for KeptShare {
    fn drop(&mut self) {
        self.room.give_back(self.holder, self.bytes);
    }
}

/// What a request of this length takes: its buffer, of which a third may be rounding, and its entries. The span of one that is
/// followed is not counted.
pub(super) fn charge_bytes(len: usize) -> u64 {
    (len + len / 2 + BUFFER_BYTES_MIN + ENTRY_BYTES) as u64
}

/// A buffer takes whole lines of a cache.
const BUFFER_BYTES_MIN: usize = 64;
const ENTRY_BYTES: usize = KeptRequests::<PlacedRequest>::ENTRY_BYTES;
/// docs/limits.md says so.
const _: () = assert!(BUFFER_BYTES_MIN + ENTRY_BYTES <= 1126);

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::runtime::Runtime;

    /// However long the message, and none is longer than this.
    #[test]
    fn a_buffer_takes_no_more_than_its_charge() {
        let runtime = Runtime::simulated(1);
        let taken = || runtime.buffers().stats().live_bytes;
        for len in (1..=2048).chain((2049..=65_535).step_by(61)) {
            let before = taken();
            let buffer = runtime.buffers().alloc(len).unwrap();
            let bytes = taken() - before;
            let charge = charge_bytes(len) - ENTRY_BYTES as u64;
            assert!((len as u64..=charge).contains(&bytes), "{len}: {bytes}");
            drop(buffer);
        }
    }
}
