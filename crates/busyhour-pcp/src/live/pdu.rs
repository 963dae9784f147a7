//! Messages as they are on the wire: a length, a type, the sender, and a body of words.

use crate::{LiveError, live::client::LIVE_BYTES_MAX};

/// What a message is. Others are not used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PduType {
    Error,
    Result,
    Profile,
    Fetch,
    DescriptorRequest,
    Descriptor,
    InstanceRequest,
    Instance,
    Credentials,
    Identifiers,
    Names,
    Traverse,
}

/// A message that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pdu<'a> {
    pub(crate) kind: PduType,
    /// Without the head.
    pub(crate) body: &'a [u8],
}

/// A message that goes out.
#[derive(Debug)]
pub(crate) struct PduBuilder(Vec<u8>);

/// The first message in `bytes` and its length; `None` as long as it is not whole.
pub(crate) fn first(bytes: &[u8]) -> Result<Option<(Pdu<'_>, usize)>, LiveError> {
    let Some(len) = bytes.first_chunk() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(*len) as usize;
    if !(HEAD_BYTES..=LIVE_BYTES_MAX).contains(&len) {
        return Err(LiveError::Length(len));
    }
    let Some(whole) = bytes.get(..len) else {
        return Ok(None);
    };
    let (head, body) = whole.split_at(HEAD_BYTES);
    let number = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let kind = TYPES.iter().find(|(_, found)| *found == number);
    let (kind, _) = kind.ok_or(LiveError::Unexpected(number))?;
    Ok(Some((Pdu { kind: *kind, body }, len)))
}

impl PduType {
    pub(crate) fn number(self) -> u32 {
        let found = TYPES.iter().find(|(kind, _)| *kind == self);
        found.map_or(0, |(_, number)| *number)
    }
}

impl PduBuilder {
    pub(crate) fn new(kind: PduType) -> Self {
        let mut builder = Self(Vec::new());
        // The length is known at the end; the sender need not say who it is.
        for word in [0, kind.number(), 0] {
            builder = builder.word(word);
        }
        builder
    }

    pub(crate) fn word(mut self, word: u32) -> Self {
        self.0.extend(word.to_be_bytes());
        self
    }

    /// Its length, then the text, up to a multiple of four bytes.
    pub(crate) fn text(self, text: &str) -> Self {
        let mut builder = self.word(text.len() as u32);
        builder.0.extend(text.as_bytes());
        let len = builder.0.len().next_multiple_of(4);
        builder.0.resize(len, 0);
        builder
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let len = (self.0.len() as u32).to_be_bytes();
        self.0[..4].copy_from_slice(&len);
        self.0
    }
}

/// The length, the type, the sender.
pub(crate) const HEAD_BYTES: usize = 12;

const TYPES: [(PduType, u32); 12] = [
    (PduType::Error, 0x7000),
    (PduType::Result, 0x7001),
    (PduType::Profile, 0x7002),
    (PduType::Fetch, 0x7003),
    (PduType::DescriptorRequest, 0x7004),
    (PduType::Descriptor, 0x7005),
    (PduType::InstanceRequest, 0x7006),
    (PduType::Instance, 0x7007),
    (PduType::Credentials, 0x700c),
    (PduType::Identifiers, 0x700d),
    (PduType::Names, 0x700e),
    (PduType::Traverse, 0x7010),
];
