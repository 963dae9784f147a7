//! What nodes tell each other: one line of words, and bytes after it.

use busyhour_cluster::Partition;
use busyhour_sip::Flow;
use std::time::Duration;

/// A message from one node to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeMessage<'b> {
    pub(super) what: NodeVerb,
    /// The node that sends it.
    pub(super) from: u16,
    /// The flow that it is about.
    pub(super) flow: Flow,
    /// With [`NodeVerb::Keepalives`], within how many seconds. With [`NodeVerb::Handle`], the epoch of the partition by which the
    /// sender knows its owner: 0 from a node of an earlier build, and for a request within a call. Otherwise 0.
    pub(super) detail: u64,
    /// Of a request that is handed on without an answer: how many the node has handed to this one so. Of an end: how many it
    /// has told. Otherwise 0.
    pub(super) number: u64,
    /// Of an answer: it acknowledges that an address of this partition was registered by a request over its flow. Only a trailer
    /// says so (`direct/message_trailer.rs`); without it the answer says the same.
    pub(super) registered: Option<Partition>,
    /// The SIP message, if there is one.
    pub(super) sip: &'b [u8],
}

/// What the other node is to do. A trailer has its place here as a number, so a new one goes to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeVerb {
    /// Handle this request, whose address of record it has, and say whether it was taken.
    Handle,
    /// Take in this response to a request that it has sent over our flow. Without one: the client at its flow is there. A
    /// node of an earlier build takes that for a sign of life, too.
    TakeResponse,
    /// Send this over its flow.
    Send,
    /// The client at its flow is trusted from now on.
    Trust,
    /// The client at its flow was told to be heard so often.
    Keepalives,
    /// The connection is gone; without one, so many have gone. It is for all nodes, or for the one that has sent something over
    /// it.
    FlowEnded,
    /// Say which of these connections of yours have ended.
    Stand,
    /// This BYE was forwarded by a node that may not carry its dialog alone; or by this INVITE or UPDATE the node has adopted its
    /// dialog. A node of an earlier build takes both for the end of the dialog, which is then the other node's alone.
    InDialog,
}

impl<'b> NodeMessage<'b> {
    pub(super) fn new(what: NodeVerb, from: u16, flow: Flow) -> Self {
        Self {
            what,
            from,
            flow,
            detail: 0,
            number: 0,
            registered: None,
            sip: &[],
        }
    }

    pub(super) fn with_sip(self, sip: &'b [u8]) -> Self {
        Self { sip, ..self }
    }

    pub(super) fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    pub(super) fn registering(self, registered: Option<Partition>) -> Self {
        Self { registered, ..self }
    }

    pub(super) fn within(self, within: Duration) -> Self {
        Self {
            detail: within.as_secs(),
            ..self
        }
    }

    pub(super) fn known_in(self, epoch: u64) -> Self {
        Self {
            detail: epoch,
            ..self
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let Flow {
            remote, connection, ..
        } = self.flow;
        let (what, local) = (self.what.word(), self.flow.local_text());
        let (from, detail, number) = (self.from, self.detail, self.number);
        let head =
            format!("{VERSION} {what} {from} {detail} {connection} {local} {remote} {number}\n");
        [head.as_bytes(), self.sip].concat()
    }

    /// The version of a message that [`parse`](Self::parse) does not read, if it has another one.
    pub(super) fn other_version(bytes: &[u8]) -> Option<&str> {
        let word = bytes.split(|byte| *byte == b' ').next()?;
        let is_version = (1..=VERSION_LEN_MAX).contains(&word.len())
            && word.iter().all(u8::is_ascii_digit)
            && word != VERSION.as_bytes();
        std::str::from_utf8(word).ok().filter(|_| is_version)
    }

    /// `None` for what no node of this version says.
    pub(super) fn parse(bytes: &'b [u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, rest) = bytes.split_at(end);
        let mut words = std::str::from_utf8(head).ok()?.split(' ');
        let mut word = || words.next();
        if word()? != VERSION {
            return None;
        }
        let what = NodeVerb::of_word(word()?)?;
        let (from, detail) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let connection = word()?.parse().ok()?;
        let (local, remote) = (word()?, word()?);
        // A node of an earlier build says none.
        let number = word().map_or(Some(0), |number| number.parse().ok())?;
        Some(Self {
            what,
            from,
            flow: Flow {
                connection,
                ..Flow::from_texts(local, remote)?
            },
            detail,
            number,
            registered: None,
            sip: &rest[1..],
        })
    }
}

impl NodeVerb {
    pub(super) const ALL: [Self; 8] = [
        Self::Handle,
        Self::TakeResponse,
        Self::Send,
        Self::Trust,
        Self::Keepalives,
        Self::FlowEnded,
        Self::Stand,
        Self::InDialog,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Handle => "handle",
            Self::TakeResponse => "response",
            Self::Send => "send",
            Self::Trust => "trust",
            Self::Keepalives => "keepalives",
            Self::FlowEnded => "ended",
            Self::Stand => "stand",
            Self::InDialog => "bye",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }
}

/// Nodes of another version of these words do not understand each other.
const VERSION: &str = "1";
/// More than any version has.
const VERSION_LEN_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Transport;

    #[test]
    fn every_message_is_read_as_it_was_written() {
        let flow = Flow {
            transport: Transport::Wss,
            connection: 7,
            node: 3,
            ..Flow::udp(
                "[2001:db8::1%4]:443".parse().unwrap(),
                "192.0.2.7:40000".parse().unwrap(),
            )
        };
        for what in NodeVerb::ALL {
            let message = NodeMessage::new(what, 2, flow)
                .within(Duration::from_secs(90))
                .numbered(u64::MAX)
                .with_sip(b"BYE sip:a SIP/2.0\n\r\n\0\xff");
            assert_eq!(NodeMessage::parse(&message.bytes()), Some(message));
        }
    }

    #[test]
    fn a_message_without_a_number_has_none() {
        let read = NodeMessage::parse(b"1 send 1 0 0 1@127.0.0.1:1 127.0.0.1:2\n");
        assert_eq!(read.map(|read| read.number), Some(0));
    }

    #[test]
    fn what_no_version_says_is_told_from_what_another_one_says() {
        for (bytes, version) in [
            (&b"2 send 1 0 0 1@127.0.0.1:1 127.0.0.1:2\n"[..], Some("2")),
            (b"17 something else", Some("17")),
            (b"1 send", None),
            (b"1 dance 1 0 0 1@127.0.0.1:1 127.0.0.1:2\n", None),
            (b"", None),
            (b" 2", None),
            (b"hello", None),
            (b"\xff\xfe 1", None),
            (b"12345678901234567 send", None),
        ] {
            assert_eq!(NodeMessage::parse(bytes), None);
            assert_eq!(NodeMessage::other_version(bytes), version, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_message_is_none() {
        for bytes in [
            &b""[..],
            b"1 send",
            b"2 send 1 0 0 1@127.0.0.1:1 127.0.0.1:2\n",
            b"\n",
        ] {
            assert_eq!(NodeMessage::parse(bytes), None);
        }
    }
}
