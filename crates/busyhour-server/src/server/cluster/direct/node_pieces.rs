//! Messages between nodes that are longer than a packet, in pieces of which each fits into one.
//!
//! ```text
//! number of the message (8) │ place of the piece (2) │ how many there are (2) │ bytes
//! ```
//!
//! All pieces but the last have the same length, so each has its place in the message, whatever overtakes it. A
//! piece that does not come loses its message: who has sent that first sends it again, as any datagram. What never
//! becomes whole is given up after two seconds. If one node has begun too much, the client that has most of it loses its oldest
//! message, so nobody loses what he sends since another one has sent much. The first piece says whose a message is; those
//! whose first piece is missing count together.
//!
//! Over NATS, pieces come in their order, so that the cluster's crate joins those (`pieces`) without places for what is missing.

use crate::server::cluster::node_message::NodeMessage;
use busyhour::clock::Instant;
use busyhour_sip::source_of;
use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

/// The pieces of a message.
pub(super) fn pieces_of(number: u64, message: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let count = message.len().div_ceil(PIECE_LEN) as u16;
    (0..count)
        .zip(message.chunks(PIECE_LEN))
        .map(move |(place, bytes)| {
            let head = [
                &number.to_be_bytes()[..],
                &place.to_be_bytes(),
                &count.to_be_bytes(),
            ];
            [&head.concat(), bytes].concat()
        })
}

/// Messages of one other node of which some pieces have come.
#[derive(Debug, Default)]
pub(super) struct NodePieces {
    /// The one that began first comes first.
    incomplete: VecDeque<PartialMessage>,
    /// Room that those take.
    bytes: usize,
}

#[derive(Debug)]
struct PartialMessage {
    number: u64,
    begun_at: Instant,
    count: u16,
    /// Of the client, once the first piece has come.
    source: Option<IpAddr>,
    /// A bit for each piece that has come.
    came: u64,
    /// With room for all pieces.
    bytes: Vec<u8>,
    /// How long it is, once its last piece has come.
    len: usize,
}

/// What a piece leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TakenPiece {
    /// The message, if this was the last piece that was missing.
    pub(super) message: Option<Vec<u8>>,
    /// Messages that are lost.
    pub(super) lost: u64,
    /// Those of them for which there was no room, since their source had most of it.
    pub(super) over_share: u64,
}

/// A piece as it came.
struct NodePiece<'b> {
    number: u64,
    place: u16,
    count: u16,
    bytes: &'b [u8],
}

impl NodePieces {
    /// A piece has come. Each one comes once.
    pub(super) fn take(&mut self, piece: &[u8], now: Instant) -> TakenPiece {
        let lost = self.expire(now);
        let Some(piece) = NodePiece::read(piece) else {
            return TakenPiece {
                lost,
                ..TakenPiece::default()
            };
        };
        let is_its = |one: &PartialMessage| one.number == piece.number && one.count == piece.count;
        let place = match self.incomplete.iter().position(is_its) {
            Some(place) => place,
            None => {
                let message = PartialMessage::new(&piece, now);
                self.bytes += message.bytes.len();
                self.incomplete.push_back(message);
                self.incomplete.len() - 1
            }
        };
        let is_whole = self.incomplete[place].put(&piece);
        let whole = is_whole.then(|| self.incomplete.remove(place)).flatten();
        let message = whole.map(|whole| {
            self.bytes -= whole.bytes.len();
            let mut bytes = whole.bytes;
            bytes.truncate(whole.len);
            bytes
        });
        let over_share = self.make_room();
        TakenPiece {
            message,
            lost: lost + over_share,
            over_share,
        }
    }

    /// Gives up what has waited for too long; returns how many those are.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let is_late = |message: &PartialMessage| now - message.begun_at >= PATIENCE;
        let mut lost = 0;
        while self.incomplete.front().is_some_and(is_late) {
            self.drop_at(0);
            lost += 1;
        }
        lost
    }

    /// Returns how many were given up.
    fn make_room(&mut self) -> u64 {
        let mut lost = 0;
        while self.bytes > INCOMPLETE_BYTES_MAX || self.incomplete.len() > INCOMPLETE_MAX {
            let greediest = self.greediest();
            let is_its = |message: &PartialMessage| message.source == greediest;
            let oldest = self.incomplete.iter().position(is_its);
            self.drop_at(oldest.unwrap_or_default());
            lost += 1;
        }
        lost
    }

    /// The source with the most of what there is too much of.
    fn greediest(&self) -> Option<IpAddr> {
        let is_full = self.bytes > INCOMPLETE_BYTES_MAX;
        let mut sources: BTreeMap<Option<IpAddr>, usize> = BTreeMap::new();
        for message in &self.incomplete {
            let taken = if is_full { message.bytes.len() } else { 1 };
            *sources.entry(message.source).or_default() += taken;
        }
        let most = sources.into_iter().max_by_key(|(_, taken)| *taken);
        most.and_then(|(source, _)| source)
    }

    fn drop_at(&mut self, place: usize) {
        let dropped = self.incomplete.remove(place);
        self.bytes -= dropped.map_or(0, |dropped| dropped.bytes.len());
    }
}

impl PartialMessage {
    fn new(piece: &NodePiece<'_>, now: Instant) -> Self {
        Self {
            number: piece.number,
            begun_at: now,
            count: piece.count,
            source: None,
            came: 0,
            bytes: vec![0; usize::from(piece.count) * PIECE_LEN],
            len: 0,
        }
    }

    /// Whether it is whole.
    fn put(&mut self, piece: &NodePiece<'_>) -> bool {
        let begin = usize::from(piece.place) * PIECE_LEN;
        let end = begin + piece.bytes.len();
        self.bytes[begin..end].copy_from_slice(piece.bytes);
        self.came |= 1 << piece.place;
        if piece.place == 0 {
            self.source = NodeMessage::parse(piece.bytes).map(|it| source_of(it.flow.remote.ip()));
        }
        if piece.is_last() {
            self.len = end;
        }
        self.came.count_ones() == u32::from(self.count)
    }
}

impl<'b> NodePiece<'b> {
    /// `None` for what no node of this version sends.
    fn read(piece: &'b [u8]) -> Option<Self> {
        let (number, rest) = piece.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (count, bytes) = rest.split_first_chunk()?;
        let piece = Self {
            number: u64::from_be_bytes(*number),
            place: u16::from_be_bytes(*place),
            count: u16::from_be_bytes(*count),
            bytes,
        };
        let is_one = piece.place < piece.count && piece.count <= PIECES_MAX;
        let is_full = bytes.len() == PIECE_LEN;
        let is_end = piece.is_last() && (1..=PIECE_LEN).contains(&bytes.len());
        (is_one && (is_full || is_end)).then_some(piece)
    }

    fn is_last(&self) -> bool {
        self.place + 1 == self.count
    }
}

/// With its head a piece is as long as the longest message in one datagram.
pub(super) const PIECE_LEN: usize = super::node_paths::MESSAGE_LEN_MAX - 12;
/// A bit for each, and room for the largest datagram of a telephone (65,507 bytes) and the line in front of it.
const PIECES_MAX: u16 = u64::BITS as u16;
/// The longest message that goes in pieces.
pub(super) const PIECED_LEN_MAX: usize = PIECES_MAX as usize * PIECE_LEN;
/// A telephone sends again after half a second, and then after one.
const PATIENCE: Duration = Duration::from_secs(2);
/// Of one node.
const INCOMPLETE_MAX: usize = 256;
/// Of one node: forty of the largest.
const INCOMPLETE_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::cluster::node_message::NodeVerb;
    use busyhour_sip::Flow;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn message(number: u64, len: usize) -> Vec<u8> {
        (0..len).map(|at| (at as u64 * 7 + number) as u8).collect()
    }

    proptest! {
        /// Whatever overtakes what: a message is whole when all its pieces have come, and what misses one is counted.
        #[test]
        fn a_message_becomes_whole_if_all_of_it_comes(
            lens in prop::collection::vec(1_usize..=6 * PIECE_LEN, 1..12),
            order in prop::collection::vec(any::<u32>(), 800),
            dropped in prop::collection::vec(0_u8..12, 800),
        ) {
            let mut all = Vec::new();
            for (number, len) in lens.iter().enumerate() {
                let number = number as u64;
                all.extend(pieces_of(number, &message(number, *len)).map(|piece| (number, piece)));
            }
            let mut at = 0;
            let mut fates: Vec<_> = all.into_iter().map(|piece| {
                at += 1;
                (order[at % 800], dropped[at % 800] == 0 && at % 5 == 0, piece)
            }).collect();
            fates.sort_by_key(|(place, ..)| *place);
            let mut expected = BTreeMap::new();
            for (number, len) in lens.iter().enumerate() {
                let is_missing = |(_, is_dropped, (of, _)): &(u32, bool, (u64, Vec<u8>))| {
                    *is_dropped && *of == number as u64
                };
                if !fates.iter().any(is_missing) {
                    expected.insert(number as u64, message(number as u64, *len));
                }
            }
            let begun = fates.iter().filter(|(_, is_dropped, _)| !is_dropped);
            let begun: std::collections::BTreeSet<u64> = begun.map(|(_, _, (of, _))| *of).collect();
            let (mut pieces, mut whole, mut lost) = (NodePieces::default(), Vec::new(), 0);
            for (_, _, (_, piece)) in fates.iter().filter(|(_, is_dropped, _)| !is_dropped) {
                let taken = pieces.take(piece, Instant::ZERO);
                whole.extend(taken.message);
                lost += taken.lost;
            }
            whole.sort();
            let mut sent: Vec<_> = expected.into_values().collect();
            sent.sort();
            prop_assert_eq!(&whole, &sent);
            lost += pieces.expire(Instant::ZERO + PATIENCE);
            prop_assert_eq!(lost, (begun.len() - whole.len()) as u64);
            prop_assert_eq!((pieces.bytes, pieces.incomplete.len()), (0, 0));
        }

        #[test]
        fn any_bytes_are_a_piece_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..1400)) {
            let mut pieces = NodePieces::default();
            pieces.take(&bytes, Instant::ZERO);
            prop_assert!(pieces.bytes <= INCOMPLETE_BYTES_MAX);
        }
    }

    #[test]
    fn what_never_becomes_whole_has_a_bound_and_the_oldest_gives_way() {
        let mut pieces = NodePieces::default();
        let first = |number| {
            let message = message(number, PIECED_LEN_MAX);
            let mut all = pieces_of(number, &message);
            all.next().expect("a piece")
        };
        let (mut lost, count) = (0, 1000);
        for number in 0..count {
            lost += pieces.take(&first(number), Instant::ZERO).lost;
            assert!(pieces.bytes <= INCOMPLETE_BYTES_MAX);
        }
        let kept = pieces.incomplete.len() as u64;
        assert!(kept >= 40, "{kept}");
        assert_eq!(lost, count - kept);
        let small = |number: u64| {
            let message = message(number, PIECE_LEN + 1);
            let mut all = pieces_of(number, &message);
            all.next().expect("a piece")
        };
        for number in count..2 * count {
            pieces.take(&small(number), Instant::ZERO);
        }
        assert_eq!(pieces.incomplete.len(), INCOMPLETE_MAX);
        // The newest one is still there.
        let number = 2 * count - 1;
        let last = pieces_of(number, &message(number, PIECE_LEN + 1)).last();
        let taken = pieces.take(&last.expect("a piece"), Instant::ZERO);
        assert_eq!(taken.message, Some(message(number, PIECE_LEN + 1)));
    }

    /// The first pieces of messages of one client, which never become whole, do not displace what another one sends, however late
    /// its pieces come.
    #[test]
    fn when_there_is_no_room_the_source_with_the_most_gives_up_its_oldest() {
        let of = |source: [u8; 4], number: u64, len: usize| {
            let [local, remote] = [[192, 0, 2, 1], source].map(|it| SocketAddr::from((it, 5060)));
            let told = NodeMessage::new(NodeVerb::Handle, 2, Flow::udp(local, remote));
            let bytes = told.with_sip(&message(number, len)).bytes();
            let pieces: Vec<_> = pieces_of(number, &bytes).collect();
            (bytes, pieces)
        };
        let (greedy, other) = ([198, 51, 100, 1], [203, 0, 113, 1]);
        for len in [PIECE_LEN + 1, PIECED_LEN_MAX - 100] {
            let mut pieces = NodePieces::default();
            let (bytes, its) = of(other, 0, len);
            let (last, first) = its.split_last().expect("several");
            for piece in first {
                assert_eq!(pieces.take(piece, Instant::ZERO), TakenPiece::default());
            }
            let mut over_share = 0;
            for number in 1..1000 {
                let (_, its) = of(greedy, number, len);
                let taken = pieces.take(&its[0], Instant::ZERO);
                assert_eq!(taken.lost, taken.over_share);
                over_share += taken.over_share;
            }
            assert_eq!(over_share, 1000 - pieces.incomplete.len() as u64);
            let taken = pieces.take(last, Instant::ZERO);
            assert!(taken.message == Some(bytes), "it has come whole");
        }
    }

    #[test]
    fn what_waits_for_too_long_is_given_up() {
        let mut pieces = NodePieces::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let all: Vec<_> = pieces_of(1, &message(1, 3 * PIECE_LEN)).collect();
        assert_eq!(pieces.take(&all[0], at(0)), TakenPiece::default());
        assert_eq!(pieces.take(&all[1], at(1999)), TakenPiece::default());
        let late = pieces.take(&all[2], at(2000));
        assert_eq!((late.message, late.lost), (None, 1));
    }
}
