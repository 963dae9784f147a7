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

/// The paths between them are open.
fn two_that_hear_each_other(runtime: &Runtime) -> [End; 2] {
    let [one, other] = two(runtime);
    hear_each_other(runtime, &one, &other);
    [one, other]
}

fn hear_each_other(runtime: &Runtime, one: &End, other: &End) {
    for _ in 0..2 {
        one.paths.beat();
        other.paths.beat();
        exchange(one, other);
        pass(runtime, PROBE_PAUSE);
    }
}

#[test]
fn a_path_is_open_once_the_other_node_says_that_it_hears_us() {
    let runtime = Runtime::simulated(1);
    let [one, other] = two(&runtime);
    assert!(!one.paths.send(2, &message(b"early")));
    hear_each_other(&runtime, &one, &other);
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
    let [one, other] = two_that_hear_each_other(&runtime);
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
    let [one, _other] = two_that_hear_each_other(&runtime);
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
    let [one, other] = two_that_hear_each_other(&runtime);
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
    let [one, other] = two_that_hear_each_other(&runtime);
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

/// It hears us no more, and says so with its next probe: what is sent from then on goes over NATS.
#[test]
fn who_says_that_it_does_not_hear_us_is_sent_nothing() {
    let runtime = Runtime::simulated(1);
    let [one, other] = two_that_hear_each_other(&runtime);
    let mut sent_count = 0;
    for _ in 0..10 {
        one.paths.beat();
        one.sent();
        other.paths.beat();
        exchange(&other, &one);
        sent_count += u32::from(one.paths.send(2, &message(b"hello")));
        one.sent();
        pass(&runtime, PROBE_PAUSE);
    }
    let probes = FRESH.as_millis().div_ceil(PROBE_PAUSE.as_millis());
    assert_eq!(u128::from(sent_count), probes - 1, "one was late already");
}

/// What its last life read says nothing of what this one reads: it may be of an earlier version.
#[test]
fn the_next_life_of_a_node_at_the_same_address_is_sent_texts_until_it_says_that_it_reads_trailers()
{
    let runtime = Runtime::simulated(1);
    let [one, _other] = two_that_hear_each_other(&runtime);
    assert!(
        one.paths
            .peer(2)
            .is_some_and(|it| it.reads_trailers.load(Ordering::Relaxed))
    );
    let again = End::salted(&runtime, 2, 2, 9);
    let new = again.paths.beat().expect("an announcement");
    let answer = one.paths.announced(&new).expect("it is new");
    assert!(
        !one.paths.send(2, &message(b"early")),
        "it has said nothing"
    );
    assert!(again.paths.announced(&answer).is_some());
    one.sent();
    // One of an earlier version says that it hears, and nothing of trailers.
    let peer = again.paths.peer(1).expect("it is known");
    again.sent();
    assert!(again.paths.send_to(&peer, PROBE, [HEARD, &[]]));
    one.paths.receive(&again.sent()[0]);
    assert!(one.paths.send(2, &message(b"hello")));
    let heard = again.paths.receive(&one.sent()[0]);
    assert_eq!(heard, FromNode::Text(message(b"hello").bytes()));
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
