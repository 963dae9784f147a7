//! The path to one life of another node.

use super::{
    message_trailer::MessageTrailer,
    node_paths::MESSAGE_LEN_MAX,
    node_pieces::NodePieces,
    node_seal::{LifeSalt, NodeSeal},
};
use crate::server::cluster::{node_message::NodeMessage, numbers::number_window::NumberWindow};
use busyhour::clock::Instant;
use busyhour_cluster::Member;
use std::{
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Where it is, what it seals, and whether it hears us.
pub(super) struct PeerPath {
    pub(super) member: Member,
    pub(super) salt: LifeSalt,
    pub(super) address: SocketAddr,
    /// When it announced itself.
    pub(super) known_at: Instant,
    pub(super) seal: NodeSeal,
    pub(super) numbers: Mutex<NumberWindow>,
    /// What of its long messages has come.
    pub(super) pieces: Mutex<NodePieces>,
    /// Its program joins pieces; one of an earlier version does not.
    pub(super) joins_pieces: AtomicBool,
    /// It reads trailers behind SIP messages; one of an earlier version does not.
    pub(super) reads_trailers: AtomicBool,
    /// When we heard it last.
    pub(super) heard: AtomicU64,
    /// When it last said that it hears us.
    pub(super) hears_us: AtomicU64,
}

impl PeerPath {
    /// Whether an announcement is of a later life. A database that has lost its last commits may give
    /// an epoch twice; the process that had it first is not heard any more then.
    pub(super) fn gives_way_to(&self, member: Member, salt: &LifeSalt, now: Instant) -> bool {
        let is_another = member.epoch == self.member.epoch && *salt != self.salt;
        member.epoch > self.member.epoch || is_another && !is_fresh(&self.heard, now)
    }

    pub(super) fn is_open(&self, now: Instant) -> bool {
        is_fresh(&self.hears_us, now)
    }

    /// What stands behind the SIP message of a message, if this node reads that and one datagram has room for it.
    pub(super) fn trailer_of(&self, message: &NodeMessage<'_>) -> Option<MessageTrailer> {
        let reads_it = self.reads_trailers.load(Ordering::Relaxed);
        let trailer = reads_it.then(|| MessageTrailer::of(message))??;
        let len = message.sip.len() + trailer.bytes().len();
        (len <= MESSAGE_LEN_MAX).then_some(trailer)
    }
}

pub(super) fn is_fresh(at: &AtomicU64, now: Instant) -> bool {
    match at.load(Ordering::Relaxed) {
        0 => false,
        at => now.as_nanos().saturating_sub(at) < FRESH.as_nanos() as u64,
    }
}

/// Without a probe for so long a path is closed.
pub(super) const FRESH: Duration = Duration::from_secs(2);
