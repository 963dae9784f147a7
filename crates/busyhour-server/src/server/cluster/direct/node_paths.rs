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
mod tests {
    use super::*;
    use crate::server::{
        SendError,
        cluster::{direct::peer_path::FRESH, node_message::NodeVerb},
    };
    use busyhour::runtime::Runtime;
    use busyhour_cluster::NodeNumber;

    /// Keeps what was sent.
    #[derive(Default)]
    struct Wire(Mutex<Vec<Buffer>>);

    impl Network for Wire {
        fn send(&self, _: Flow, datagram: Buffer) -> Result<(), SendError> {
            lock(&self.0).push(datagram);
            Ok(())
        }
    }

    struct End {
        paths: NodePaths,
        wire: Arc<Wire>,
    }

    impl End {
        fn new(runtime: &Runtime, node: u16, epoch: u64) -> Self {
            Self::salted(runtime, node, epoch, 0)
        }

        fn salted(runtime: &Runtime, node: u16, epoch: u64, salt: u8) -> Self {
            let wire = Arc::new(Wire::default());
            let socket = NodeSocket {
                network: wire.clone(),
                address: SocketAddr::from(([127, 0, 0, 1], 7000 + node)),
            };
            let node = NodeNumber(node);
            let (buffers, clock) = (runtime.buffers().clone(), runtime.clock().clone());
            let own = (Member { node, epoch }, [5; 32], [salt; LIFE_SALT_LEN]);
            let paths = NodePaths::new(own, socket, buffers, clock).expect("a key");
            Self { paths, wire }
        }

        fn sent(&self) -> Vec<Buffer> {
            std::mem::take(&mut *lock(&self.wire.0))
        }
    }

    fn message(sip: &[u8]) -> NodeMessage<'_> {
        let [local, remote] = [5060, 5070].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        NodeMessage::new(NodeVerb::Send, 1, Flow::udp(local, remote)).with_sip(sip)
    }

    /// A message whose text is so long.
    fn of_len(len: usize) -> Vec<u8> {
        vec![b'x'; len - message(b"").bytes().len()]
    }

    /// As it comes with a trailer.
    fn with_trailer(buffers: &BufferPool, sip: &[u8]) -> FromNode {
        let sip = buffers.copy_from(sip).expect("room");
        FromNode::WithTrailer(
            NodeMessage {
                sip: &[],
                ..message(b"")
            },
            sip,
        )
    }

    /// Each hears what the other one has sent; returns how often a path has opened.
    fn exchange(one: &End, other: &End) -> usize {
        let mut opened = 0;
        for (from, to) in [(one, other), (other, one)] {
            for datagram in from.sent() {
                let heard = to.paths.receive(&datagram);
                opened += usize::from(matches!(heard, FromNode::PathIsOpen(_)));
            }
        }
        opened
    }

    fn pass(runtime: &Runtime, time: Duration) {
        runtime.simulation().expect("it is one").run_for(time);
    }

    fn two(runtime: &Runtime) -> [End; 2] {
        let (one, other) = (End::new(runtime, 1, 1), End::new(runtime, 2, 1));
        let announcement = one.paths.beat().expect("the first beat announces");
        let answer = other.paths.announced(&announcement);
        let answer = answer.expect("who is new is told in turn");
        assert!(one.paths.announced(&answer).is_some());
        pass(runtime, PROBE_PAUSE);
        [one, other]
    }

    #[test]
    fn a_path_is_open_once_the_other_node_says_that_it_hears_us() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        assert!(!one.paths.send(2, &message(b"early")));
        for _ in 0..2 {
            one.paths.beat();
            other.paths.beat();
            exchange(&one, &other);
            pass(&runtime, PROBE_PAUSE);
        }
        assert!(one.paths.send(2, &message(b"hello")));
        let sent = one.sent();
        assert_eq!(
            other.paths.receive(&sent[0]),
            with_trailer(runtime.buffers(), b"hello")
        );
        assert_eq!(
            other.paths.receive(&sent[0]),
            FromNode::Nothing,
            "it came twice"
        );
        assert!(!one.paths.send(2, &message(&of_len(PIECED_LEN_MAX + 1))));
        assert!(!one.paths.send(3, &message(b"nobody")));
        assert_eq!(
            (one.paths.open_count(), other.paths.counters.refused.get()),
            (1, 1)
        );
    }

    /// A list of lamps is longer than a packet.
    #[test]
    fn what_is_longer_than_a_packet_goes_in_several() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        for _ in 0..2 {
            one.paths.beat();
            other.paths.beat();
            exchange(&one, &other);
            pass(&runtime, PROBE_PAUSE);
        }
        let long: Vec<u8> = (0..65_535_u32).map(|at| (at / 7) as u8).collect();
        for is_lost in [false, true] {
            assert!(one.paths.send(2, &message(&long)));
            let mut sent = one.sent();
            assert!(sent.iter().all(|datagram| datagram.len() <= 1472));
            // The last one comes first, and one of them perhaps not at all.
            sent.reverse();
            sent.truncate(sent.len() - usize::from(is_lost));
            let heard = sent.iter().map(|datagram| other.paths.receive(datagram));
            let heard: Vec<_> = heard.filter(|it| *it != FromNode::Nothing).collect();
            let whole = (!is_lost).then(|| FromNode::Text(message(&long).bytes()));
            assert_eq!(heard, Vec::from_iter(whole));
        }
        assert_eq!(
            other.paths.counters.pieces_lost.get(),
            0,
            "it may still come"
        );
        pass(&runtime, FRESH);
        other.paths.beat();
        assert_eq!(other.paths.counters.pieces_lost.get(), 1);
        assert_eq!(one.paths.counters.sent_in_pieces.get(), 2);
    }

    /// A program of an earlier version would throw the pieces away.
    #[test]
    fn who_has_not_said_that_it_joins_pieces_is_sent_none() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        for _ in 0..2 {
            one.paths.beat();
            other.paths.beat();
            exchange(&one, &other);
            pass(&runtime, PROBE_PAUSE);
        }
        let peer = one.paths.peer(2).expect("it is known");
        peer.joins_pieces.store(false, Ordering::Relaxed);
        peer.reads_trailers.store(false, Ordering::Relaxed);
        assert!(one.paths.send(2, &message(&of_len(MESSAGE_LEN_MAX))));
        assert!(!one.paths.send(2, &message(&of_len(MESSAGE_LEN_MAX + 1))));
    }

    /// A program of an earlier version says that it joins pieces, and nothing else.
    #[test]
    fn who_has_not_said_that_it_reads_trailers_is_sent_texts() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        for _ in 0..2 {
            one.paths.beat();
            other.paths.beat();
            exchange(&one, &other);
            pass(&runtime, PROBE_PAUSE);
        }
        let peer = other.paths.peer(1).expect("it is known");
        assert!(other.paths.send_to(&peer, READS, [&[], &[]]));
        assert_eq!(one.paths.receive(&other.sent()[0]), FromNode::Nothing);
        assert!(one.paths.send(2, &message(b"hello")));
        let heard = other.paths.receive(&one.sent()[0]);
        assert_eq!(heard, FromNode::Text(message(b"hello").bytes()));
    }

    /// With its trailer the longest one is as long as a datagram may be, and a longer one goes in pieces.
    #[test]
    fn a_message_with_its_trailer_fits_into_a_packet() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        for _ in 0..2 {
            one.paths.beat();
            other.paths.beat();
            exchange(&one, &other);
            pass(&runtime, PROBE_PAUSE);
        }
        let trailer = MessageTrailer::of(&message(b"")).expect("a datagram");
        let room = MESSAGE_LEN_MAX - trailer.bytes().len();
        for (len, datagrams) in [(room, 1), (room + 1, 2)] {
            let sip = vec![b'x'; len];
            assert!(one.paths.send(2, &message(&sip)));
            let sent = one.sent();
            assert_eq!(sent.len(), datagrams);
            assert!(sent.iter().all(|datagram| datagram.len() <= 1472));
            let heard = sent.iter().map(|datagram| other.paths.receive(datagram));
            let heard = heard.last().expect("the last one");
            match datagrams {
                1 => assert_eq!(heard, with_trailer(runtime.buffers(), &sip)),
                _ => assert_eq!(heard, FromNode::Text(message(&sip).bytes())),
            }
        }
    }

    /// What this node sends does not arrive; it hears the other one.
    #[test]
    fn a_direction_that_is_cut_closes_the_path() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        for is_cut in [false, true] {
            for _ in 0..6 {
                one.paths.beat();
                other.paths.beat();
                match is_cut {
                    false => drop(exchange(&one, &other)),
                    true => {
                        one.sent();
                        exchange(&other, &one);
                    }
                }
                pass(&runtime, PROBE_PAUSE);
            }
            assert_eq!(one.paths.send(2, &message(b"hello")), !is_cut);
            one.sent();
        }
    }

    /// What was sent meanwhile may be lost, and somebody may want to send it again.
    #[test]
    fn a_path_that_opens_again_is_told_once() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        let live = |is_cut: bool| {
            let mut opened = 0;
            for _ in 0..6 {
                one.paths.beat();
                other.paths.beat();
                if is_cut {
                    drop((one.sent(), other.sent()));
                }
                opened += exchange(&one, &other);
                pass(&runtime, PROBE_PAUSE);
            }
            opened
        };
        assert_eq!([live(false), live(false)], [2, 0]);
        live(true);
        assert!(!one.paths.send(2, &message(b"hello")));
        assert_eq!([live(false), live(false)], [2, 0]);
    }

    #[test]
    fn the_next_life_of_a_node_takes_the_place_of_the_last_one() {
        let runtime = Runtime::simulated(1);
        let [one, _] = two(&runtime);
        let again = End::new(&runtime, 2, 2);
        let new = again.paths.beat().expect("an announcement");
        assert!(one.paths.announced(&new).is_some());
        let late = End::new(&runtime, 2, 1);
        let old = late.paths.beat().expect("an announcement");
        assert!(one.paths.announced(&old).is_none(), "an earlier life");
        let early = Instant::ZERO;
        let late = "the end of the earlier one is learned late";
        assert_eq!(known(&one, early, Some((1, false))), Some(2), "{late}");
        let now = runtime.clock().now();
        assert_eq!(known(&one, now, Some((2, true))), Some(2));
        assert_eq!(known(&one, now, Some((2, false))), None);
        assert!(!one.paths.send(2, &message(b"hello")));
        let foreign = End::new(&runtime, 1, 9);
        assert!(
            one.paths
                .announced(&foreign.paths.beat().expect("one"))
                .is_none()
        );
    }

    /// The epoch of node 2 to which there is a path, after a view that has this of it.
    fn known(one: &End, read_at: Instant, last: Option<(u64, bool)>) -> Option<u64> {
        let node = NodeNumber(2);
        let lives = last.map(|(epoch, is_live)| (Member { node, epoch }, is_live));
        one.paths.view_is(read_at, lives.as_slice());
        one.paths.peer(2).map(|peer| peer.member.epoch)
    }

    /// Otherwise it would be probed for ever: its process died, or lost the database, between two views.
    #[test]
    fn a_path_to_a_life_that_no_view_has_shown_alive_is_forgotten() {
        let runtime = Runtime::simulated(1);
        for last in [Some((5, false)), Some((6, true)), Some((4, true)), None] {
            let [one, _] = two(&runtime);
            let again = End::new(&runtime, 2, 5);
            let announcement = again.paths.beat().expect("an announcement");
            let before = runtime.clock().now();
            pass(&runtime, PROBE_PAUSE);
            assert!(one.paths.announced(&announcement).is_some());
            // What was read before it was known says nothing of it.
            assert_eq!(known(&one, before, Some((1, false))), Some(5));
            assert_eq!(known(&one, before, None), Some(5));
            assert_eq!(known(&one, runtime.clock().now(), Some((5, true))), Some(5));
            pass(&runtime, PROBE_PAUSE);
            assert_eq!(known(&one, runtime.clock().now(), last), None, "{last:?}");
            one.sent();
            one.paths.beat();
            assert!(one.sent().is_empty(), "nobody is probed");
        }
    }

    /// The database has forgotten the first of two processes, and gave the second its epoch.
    #[test]
    fn a_process_with_a_known_epoch_takes_the_place_of_one_that_is_not_heard_any_more() {
        let runtime = Runtime::simulated(1);
        let [one, other] = two(&runtime);
        other.paths.beat();
        exchange(&one, &other);
        let again = End::salted(&runtime, 2, 1, 9);
        let new = again.paths.beat().expect("an announcement");
        assert!(one.paths.announced(&new).is_none(), "the first one lives");
        pass(&runtime, FRESH);
        let answer = one.paths.announced(&new).expect("it is new");
        assert!(again.paths.announced(&answer).is_some());
        // What the first one says now is nothing.
        other.paths.beat();
        let late = other.sent();
        let refused = one.paths.counters.refused.get();
        assert_eq!(one.paths.receive(&late[0]), FromNode::Nothing);
        assert_eq!(one.paths.counters.refused.get(), refused + 1);
        for _ in 0..2 {
            one.paths.beat();
            again.paths.beat();
            exchange(&one, &again);
            pass(&runtime, PROBE_PAUSE);
        }
        assert!(one.paths.send(2, &message(b"hello")));
        let message = one.sent().pop().expect("it was sent");
        let heard = again.paths.receive(&message);
        assert_eq!(heard, with_trailer(runtime.buffers(), b"hello"));
    }
}
