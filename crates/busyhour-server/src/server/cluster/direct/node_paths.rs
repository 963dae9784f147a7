//! The paths to other nodes, and whether they are open.

use super::{
    message_trailer::MessageTrailer,
    node_pieces::{PIECED_LEN_MAX, pieces_of},
    node_seal::{LIFE_SALT_LEN, LifeSalt, NodeSeal, SealedDatagram},
    peer_path::{PeerPath, is_fresh},
};
use crate::lock::lock;
use crate::server::{
    Network,
    cluster::{cluster_membership::NodeSocket, node_message::NodeMessage},
    stats::counters::Counter,
};
use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::{Clock, Instant},
};
use busyhour_cluster::Member;
use busyhour_sip::Flow;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The paths from this life of a node to all others.
pub(in crate::server::cluster) struct NodePaths {
    own: Member,
    address: SocketAddr,
    secret: [u8; 32],
    salt: LifeSalt,
    seal: NodeSeal,
    network: Arc<dyn Network>,
    buffers: BufferPool,
    clock: Clock,
    peers: RwLock<BTreeMap<u16, Arc<PeerPath>>>,
    beats: AtomicU64,
    /// Messages that went in pieces.
    long: AtomicU64,
    pub(in crate::server::cluster) counters: PathCounters,
}

#[derive(Default)]
pub(in crate::server::cluster) struct PathCounters {
    /// Messages that went to other nodes so.
    pub(in crate::server::cluster) sent: Counter,
    /// Those of them that were longer than a packet.
    pub(in crate::server::cluster) sent_in_pieces: Counter,
    /// Datagrams that no living node has sealed for us, that came twice, or for which there was no room.
    pub(in crate::server::cluster) refused: Counter,
    /// Messages of other nodes of which a piece has not come.
    pub(in crate::server::cluster) pieces_lost: Counter,
    /// Those of them for which there was no room, since their source had most of it.
    pub(in crate::server::cluster) pieces_over_share: Counter,
}

/// What a datagram from another node was.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server::cluster) enum FromNode {
    /// A message for this node, as a text with what follows it.
    Text(Vec<u8>),
    /// One that came with a trailer, and its SIP message.
    WithTrailer(NodeMessage<'static>, Buffer),
    /// One that no program of this version sends.
    Unreadable,
    /// This node hears us again, or for the first time.
    PathIsOpen(u16),
    /// Nothing that anybody else needs to know.
    Nothing,
}

impl NodePaths {
    /// `salt` is random. `None` if there is no key.
    pub(in crate::server::cluster) fn new(
        (own, secret, salt): (Member, [u8; 32], LifeSalt),
        socket: NodeSocket,
        buffers: BufferPool,
        clock: Clock,
    ) -> Option<Self> {
        Some(Self {
            own,
            address: socket.address,
            seal: NodeSeal::new(&secret, &salt, own)?,
            secret,
            salt,
            network: socket.network,
            buffers,
            clock,
            peers: RwLock::default(),
            beats: AtomicU64::new(0),
            long: AtomicU64::new(0),
            counters: PathCounters::default(),
        })
    }

    /// Sends a message to a node if the path is open; `false` if it is not sent.
    pub(in crate::server::cluster) fn send(&self, node: u16, message: &NodeMessage<'_>) -> bool {
        let Some(peer) = self
            .peer(node)
            .filter(|peer| peer.is_open(self.clock.now()))
        else {
            return false;
        };
        let is_sent = match peer.trailer_of(message) {
            Some(trailer) => self.send_to(&peer, WITH_TRAILER, [message.sip, trailer.bytes()]),
            None => self.send_text(&peer, &message.bytes()),
        };
        if is_sent {
            self.counters.sent.increment();
        }
        is_sent
    }

    fn send_text(&self, peer: &PeerPath, text: &[u8]) -> bool {
        match text.len() <= MESSAGE_LEN_MAX {
            true => self.send_to(peer, TEXT, [text, &[]]),
            false => self.send_in_pieces(peer, text),
        }
    }

    /// If a piece finds no room, the others that have left come to nothing.
    fn send_in_pieces(&self, peer: &PeerPath, message: &[u8]) -> bool {
        if message.len() > PIECED_LEN_MAX || !peer.joins_pieces.load(Ordering::Relaxed) {
            return false;
        }
        let number = self.long.fetch_add(1, Ordering::Relaxed);
        let is_sent =
            pieces_of(number, message).all(|piece| self.send_to(peer, PIECE, [&piece, &[]]));
        if is_sent {
            self.counters.sent_in_pieces.increment();
        }
        is_sent
    }

    fn send_to(&self, peer: &PeerPath, kind: u8, parts: [&[u8]; 2]) -> bool {
        let node = peer.member.node.0;
        let Some(datagram) = self.seal.seal(node, kind, parts, &self.buffers) else {
            return false;
        };
        let flow = Flow::udp(self.address, peer.address);
        self.network.send(flow, datagram).is_ok()
    }

    /// A datagram has come.
    pub(in crate::server::cluster) fn receive(&self, datagram: &[u8]) -> FromNode {
        let opened = SealedDatagram::read(datagram).and_then(|read| {
            let peer = self.peer(read.sender.node.0)?;
            let is_its = peer.member == read.sender;
            let opened =
                is_its.then(|| peer.seal.open(&read, self.own.node.0, &self.buffers))??;
            let is_new = lock(&peer.numbers).take(read.number);
            is_new.then_some((peer, opened))
        });
        let Some((peer, (kind, mut bytes))) = opened else {
            self.counters.refused.increment();
            return FromNode::Nothing;
        };
        let at = self.clock.now();
        let now = at.as_nanos();
        peer.heard.store(now, Ordering::Relaxed);
        match kind {
            WITH_TRAILER => match MessageTrailer::read(peer.member.node.0, &bytes) {
                Some((message, sip_len)) => {
                    bytes.truncate(sip_len);
                    FromNode::WithTrailer(message, bytes.freeze())
                }
                None => FromNode::Unreadable,
            },
            TEXT => FromNode::Text(bytes.to_vec()),
            PIECE => self.join(&peer, &bytes),
            READS => {
                peer.joins_pieces.store(true, Ordering::Relaxed);
                peer.reads_trailers
                    .store(bytes.starts_with(TRAILERS_TOO), Ordering::Relaxed);
                FromNode::Nothing
            }
            PROBE if *bytes == *HEARD => {
                let was_open = peer.is_open(at);
                peer.hears_us.store(now, Ordering::Relaxed);
                match was_open {
                    true => FromNode::Nothing,
                    false => FromNode::PathIsOpen(peer.member.node.0),
                }
            }
            // What is sent there is lost from now on.
            PROBE => {
                peer.hears_us.store(0, Ordering::Relaxed);
                FromNode::Nothing
            }
            _ => FromNode::Nothing,
        }
    }

    fn join(&self, peer: &PeerPath, piece: &[u8]) -> FromNode {
        let taken = lock(&peer.pieces).take(piece, self.clock.now());
        self.counters.pieces_lost.add(taken.lost);
        self.counters.pieces_over_share.add(taken.over_share);
        taken.message.map_or(FromNode::Nothing, FromNode::Text)
    }

    /// Probes all paths; returns what has to be announced to all nodes, now and then.
    pub(in crate::server::cluster) fn beat(&self) -> Option<Vec<u8>> {
        let now = self.clock.now();
        let beats = self.beats.fetch_add(1, Ordering::Relaxed);
        let announces = beats.is_multiple_of(BEATS_OF_ANNOUNCEMENT);
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        for peer in peers.values() {
            let heard = match is_fresh(&peer.heard, now) {
                true => HEARD,
                false => NOT_HEARD,
            };
            self.send_to(peer, PROBE, [heard, &[]]);
            // It remembers it for as long as it knows this life of ours, unless this was lost.
            if announces || !peer.is_open(now) {
                self.send_to(peer, READS, [TRAILERS_TOO, &[]]);
            }
            self.counters
                .pieces_lost
                .add(lock(&peer.pieces).expire(now));
        }
        announces.then(|| self.announcement())?
    }

    /// Where this node is, for all; with the salt in front, by which they open it and all else.
    fn announcement(&self) -> Option<Vec<u8>> {
        let address = self.address.to_string();
        let sealed =
            (self.seal).seal(FOR_ALL, ADDRESS, [address.as_bytes(), &[]], &self.buffers)?;
        Some([&self.salt[..], &sealed[..]].concat())
    }

    /// Another node says where it is; returns what has to be announced in turn if it is new here.
    pub(in crate::server::cluster) fn announced(&self, announcement: &[u8]) -> Option<Vec<u8>> {
        let (salt, sealed) = announcement.split_first_chunk::<LIFE_SALT_LEN>()?;
        let read = SealedDatagram::read(sealed)?;
        let (member, node) = (read.sender, read.sender.node.0);
        if node == self.own.node.0 {
            return None;
        }
        let now = self.clock.now();
        if (self.peer(node)).is_some_and(|known| !known.gives_way_to(member, salt, now)) {
            return None;
        }
        let seal = NodeSeal::new(&self.secret, salt, member)?;
        let (kind, address) = seal.open(&read, FOR_ALL, &self.buffers)?;
        let address = std::str::from_utf8(&address).ok()?.parse().ok()?;
        if kind != ADDRESS {
            return None;
        }
        let peer = PeerPath {
            member,
            salt: *salt,
            address,
            seal,
            known_at: now,
            numbers: Mutex::default(),
            pieces: Mutex::default(),
            joins_pieces: AtomicBool::new(false),
            reads_trailers: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            hears_us: AtomicU64::new(0),
        };
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        peers.insert(node, Arc::new(peer));
        drop(peers);
        self.announcement()
    }

    /// The last lives of all nodes, each with whether it goes on, as the database had them at `read_at` or later. Paths to lives
    /// that are over are forgotten, also to one that no view has shown alive. A life is in the database before it announces
    /// itself, so one that was known before, and that the database does not have, is over as well.
    pub(in crate::server::cluster) fn view_is(&self, read_at: Instant, lives: &[(Member, bool)]) {
        let is_kept = |path: &Arc<PeerPath>| {
            let member = path.member;
            let last = lives.iter().find(|(last, _)| last.node == member.node);
            match last {
                Some((last, is_live)) if last.epoch == member.epoch => *is_live,
                Some((last, _)) if last.epoch > member.epoch => false,
                _ => path.known_at >= read_at,
            }
        };
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, path| is_kept(path));
    }

    /// To how many nodes the path is open.
    pub(in crate::server::cluster) fn open_count(&self) -> u64 {
        let now = self.clock.now();
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers.values().filter(|peer| peer.is_open(now)).count() as u64
    }

    /// Whether messages go to this life of a node in datagrams.
    pub(in crate::server::cluster) fn is_open_to(&self, member: Member) -> bool {
        let peer = self.peer(member.node.0);
        peer.is_some_and(|peer| peer.member == member && peer.is_open(self.clock.now()))
    }

    fn peer(&self, node: u16) -> Option<Arc<PeerPath>> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers.get(&node).cloned()
    }
}

/// How often paths are probed.
pub(in crate::server::cluster) const PROBE_PAUSE: Duration = Duration::from_millis(500);
/// Who has just come to NATS hears of all within three seconds.
const BEATS_OF_ANNOUNCEMENT: u64 = 6;
/// So that a datagram fits into one packet of a network, whose headers and seal take the rest.
pub(super) const MESSAGE_LEN_MAX: usize = 1350;
/// Announcements are for no node in particular.
const FOR_ALL: u16 = 0;
/// A message as a text, which nodes of all versions read.
const TEXT: u8 = 0;
const PROBE: u8 = 1;
const ADDRESS: u8 = 2;
const PIECE: u8 = 3;
/// What the sender reads beside texts: pieces of them, and what else it says here.
const READS: u8 = 4;
const TRAILERS_TOO: &[u8] = b"s";
/// A SIP message with a trailer.
const WITH_TRAILER: u8 = 5;
const HEARD: &[u8] = b"+";
const NOT_HEARD: &[u8] = b"-";

#[cfg(test)]
mod tests;
