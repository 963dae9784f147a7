//! What a call asks of the registrar, and what the registrar says.

use subtle::ConstantTimeEq;

use busyhour_sip::Flow;
use busyhour_sip::auth::HexDigest;

/// Identifies one call; a table never gives the same one twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId {
    pub(super) key: CallKey,
    pub(super) serial: u64,
}

/// Both addresses, and the device's number: a call on the wire (RFC 5456 §8.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CallKey {
    pub flow: Flow,
    pub peer_call: u16,
}

/// A registration whose device has proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where the verdict goes.
    pub call: CallId,
    /// The account, as the device wrote it.
    pub username: Box<str>,
    /// What it asks for.
    pub wish: RequestKind,
}

/// What a device asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// REGREQ: be registered, for so many seconds.
    Register {
        /// REFRESH, or the 60 s that its absence means.
        refresh_s: u32,
    },
    /// REGREL: be registered no more.
    Release,
}

/// What became of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It is done, and durable.
    Registered {
        /// For how long, in seconds.
        refresh_s: u16,
        /// MSGCOUNT; `None` without a mailbox.
        message_count: Option<u16>,
    },
    /// It is undone, and durable.
    Released,
    /// It must not be.
    Forbidden,
    /// It could not be, but may be a moment later.
    Failed,
}

/// What the credentials of a device are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// They are right.
    Accepted,
    /// They are wrong.
    Refused,
    /// They were not checked, since too many were wrong before.
    Paused,
}

/// How a device says who it is.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// The account.
    pub username: &'a str,
    /// What it was asked.
    pub challenge: &'a str,
    /// What it answered: MD5 in hexadecimal digits.
    pub result: &'a [u8],
}

impl CallId {
    /// The way to the device.
    pub fn flow(&self) -> Flow {
        self.key.flow
    }
}

impl Credentials<'_> {
    /// Whether the answer is `expected`. The comparison takes the same time for every
    /// wrong answer, so that an attacker learns nothing from it.
    pub fn proves(&self, expected: &HexDigest) -> bool {
        expected.as_bytes().ct_eq(self.result).into()
    }
}
