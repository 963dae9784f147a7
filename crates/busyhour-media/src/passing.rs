//! A message on its way out, and what becomes of it.

use busyhour_sip::{Flow, Message};
use std::net::SocketAddr;

/// Which calls use a relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MediaWish {
    /// Those whose media cannot flow from end to end.
    #[default]
    Auto,
    /// All.
    Always,
    /// None.
    Never,
}

/// A message that is about to leave.
#[derive(Debug, Clone, Copy)]
pub struct Passing<'p, 'a> {
    /// Its bytes.
    pub datagram: &'p [u8],
    /// The same, read.
    pub message: &'p Message<'a>,
    /// Where it goes.
    pub to: Flow,
    /// The branch of the response that came and is forwarded, if it is one.
    pub cause: Option<&'p str>,
    /// Whether its call is to use a relay.
    pub wish: MediaWish,
    /// The end of its call will be told; otherwise an INVITE begins to use none.
    pub is_followed: bool,
}

/// What becomes of a message that is about to leave.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// It leaves now, as it is.
    Pass(T),
    /// The table has it, and gives it back in [`MediaActions::ready`].
    Held,
}

/// What is to be done after a step.
#[derive(Debug)]
pub struct MediaActions<T> {
    /// Datagrams for relays.
    pub commands: Vec<(SocketAddr, Vec<u8>)>,
    /// Messages that may leave, in order.
    pub ready: Vec<Ready<T>>,
    /// Call-IDs of calls that no relay took, though they needed one.
    pub failed: Vec<Box<str>>,
}

/// A message that was held.
#[derive(Debug, PartialEq, Eq)]
pub struct Ready<T> {
    /// What the caller gave with it.
    pub ticket: T,
    /// How it leaves.
    pub outcome: Outcome,
}

/// How a message leaves that was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As these bytes.
    Rewritten(Vec<u8>),
    /// As it came.
    AsItCame,
    /// Not at all: no relay answers. It is a request.
    Refused,
}

impl<T> Default for MediaActions<T> {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            ready: Vec::new(),
            failed: Vec::new(),
        }
    }
}
