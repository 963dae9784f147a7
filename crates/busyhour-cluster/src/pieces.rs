//! Messages that are larger than the broker takes go in pieces.
//!
//! A piece says of which message it is, its place, and how many there are. The pieces of a message
//! arrive in their order, as far as they arrive; one that is missing loses the whole message, as if
//! the broker had lost it.

use std::{collections::VecDeque, fmt, str::FromStr};

/// Which piece of which message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PieceNumber {
    /// Nobody else gives this number to a message.
    pub(crate) message: u64,
    pub(crate) index: u32,
    pub(crate) count: u32,
}

/// Messages of which some pieces have arrived.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Who has waited longest comes first.
    incomplete: VecDeque<IncompleteMessage>,
    bytes: usize,
}

#[derive(Debug)]
struct IncompleteMessage {
    message: u64,
    next: u32,
    payload: Vec<u8>,
}

/// What a piece leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// More have to come.
    Waiting,
    /// It was the last one: the message.
    Whole(Vec<u8>),
    /// A message is lost, since a piece is missing or there is no room.
    Lost,
}

impl Pieces {
    /// The next piece that has arrived.
    pub(crate) fn take(&mut self, number: PieceNumber, piece: &[u8]) -> Joined {
        let found = (self.incomplete.iter()).position(|one| one.message == number.message);
        let known = found.and_then(|place| self.incomplete.remove(place));
        self.bytes -= known.as_ref().map_or(0, |known| known.payload.len());
        let mut message = match (known, number.index) {
            (Some(known), index) if index == known.next => known,
            (None, 0) => IncompleteMessage {
                message: number.message,
                next: 0,
                payload: Vec::new(),
            },
            // The rest of a message that is lost already is counted with each piece.
            _ => return Joined::Lost,
        };
        message.payload.extend(piece);
        message.next += 1;
        if message.payload.len() > MESSAGE_BYTES_MAX {
            return Joined::Lost;
        }
        if message.next == number.count {
            return Joined::Whole(message.payload);
        }
        self.bytes += message.payload.len();
        self.incomplete.push_back(message);
        self.make_room()
    }

    fn make_room(&mut self) -> Joined {
        let mut joined = Joined::Waiting;
        while self.bytes > INCOMPLETE_BYTES_MAX || self.incomplete.len() > INCOMPLETE_MAX {
            let oldest = self.incomplete.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.payload.len());
            joined = Joined::Lost;
        }
        joined
    }
}

impl fmt::Display for PieceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{}/{}", self.message, self.index, self.count)
    }
}

impl FromStr for PieceNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let mut next = || parts.next().ok_or(());
        let message = u64::from_str_radix(next()?, 16).map_err(drop)?;
        let index = next()?.parse().map_err(drop)?;
        let count = next()?.parse().map_err(drop)?;
        match parts.next().is_none() && index < count {
            true => Ok(Self {
                message,
                index,
                count,
            }),
            false => Err(()),
        }
    }
}

/// The largest message, and so the largest state with what goes with it.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Messages of one subject of which pieces wait for the others.
const INCOMPLETE_MAX: usize = 64;
const INCOMPLETE_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(message: u64, index: u32, count: u32) -> PieceNumber {
        PieceNumber {
            message,
            index,
            count,
        }
    }

    #[test]
    fn messages_are_joined_whoever_sends_between() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(piece(1, 0, 3), b"a"), Joined::Waiting);
        assert_eq!(pieces.take(piece(2, 0, 2), b"x"), Joined::Waiting);
        assert_eq!(pieces.take(piece(1, 1, 3), b"b"), Joined::Waiting);
        assert_eq!(
            pieces.take(piece(2, 1, 2), b"y"),
            Joined::Whole(b"xy".into())
        );
        assert_eq!(
            pieces.take(piece(1, 2, 3), b"c"),
            Joined::Whole(b"abc".into())
        );
        assert_eq!((pieces.bytes, pieces.incomplete.len()), (0, 0));
    }

    #[test]
    fn a_missing_piece_loses_its_message_and_no_other() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(piece(1, 0, 3), b"a"), Joined::Waiting);
        assert_eq!(pieces.take(piece(2, 0, 2), b"x"), Joined::Waiting);
        assert_eq!(pieces.take(piece(1, 2, 3), b"c"), Joined::Lost);
        assert_eq!(pieces.take(piece(3, 1, 2), b"z"), Joined::Lost);
        assert_eq!(
            pieces.take(piece(2, 1, 2), b"y"),
            Joined::Whole(b"xy".into())
        );
        assert_eq!((pieces.bytes, pieces.incomplete.len()), (0, 0));
    }

    #[test]
    fn what_never_becomes_whole_has_a_bound() {
        let mut pieces = Pieces::default();
        for message in 0..INCOMPLETE_MAX as u64 {
            assert_eq!(pieces.take(piece(message, 0, 2), b"a"), Joined::Waiting);
        }
        assert_eq!(pieces.take(piece(1 << 40, 0, 2), b"a"), Joined::Lost);
        assert_eq!(pieces.take(piece(0, 1, 2), b"b"), Joined::Lost);
        assert_eq!(
            pieces.take(piece(1, 1, 2), b"b"),
            Joined::Whole(b"ab".into())
        );
        let large = vec![0; MESSAGE_BYTES_MAX];
        assert_eq!(pieces.take(piece(77, 0, 3), &large), Joined::Waiting);
        assert_eq!(pieces.take(piece(77, 1, 3), b"a"), Joined::Lost);
        for message in 0..4 {
            pieces.take(piece(100 + message, 0, 2), &large);
        }
        assert!(pieces.bytes <= INCOMPLETE_BYTES_MAX);
    }

    #[test]
    fn a_number_is_read_as_it_is_written() {
        let number = piece(u64::MAX, 3, 17);
        assert_eq!(number.to_string().parse(), Ok(number));
        for wrong in ["", "1", "1/2", "x/0/1", "1/1/1", "1/0/1/0", "1/-1/2"] {
            assert_eq!(wrong.parse::<PieceNumber>(), Err(()), "{wrong}");
        }
    }
}
