//! Messages as bytes: a version, a kind, and the fields in order, with numbers in network byte order.

use super::{Beacon, Entry, Incarnation, LiveChange, LiveChanges, Part, PartRequest};
use crate::{Member, NodeNumber};

/// A message of live states, as it goes over the network.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LiveMessage {
    /// To all nodes.
    Change(LiveChange),
    /// To all nodes.
    Changes(LiveChanges),
    /// To all nodes.
    Beacon(Beacon),
    /// To its origin, as a request.
    Ask(PartRequest),
    /// The answer.
    Part(Part),
}

impl LiveMessage {
    /// The process that says it, or that is asked.
    pub fn origin(&self) -> Incarnation {
        match self {
            Self::Change(change) => change.origin,
            Self::Changes(changes) => changes.origin,
            Self::Beacon(beacon) => beacon.origin,
            Self::Ask(request) => request.origin,
            Self::Part(part) => part.origin,
        }
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        match self {
            Self::Change(change) => {
                bytes.push(b'c');
                put_incarnation(&mut bytes, change.origin);
                put_number(&mut bytes, change.number);
                put_bytes(&mut bytes, &change.key);
                put_optional(&mut bytes, change.value.as_deref());
            }
            Self::Changes(changes) => put_changes(&mut bytes, changes),
            Self::Beacon(beacon) => {
                bytes.push(b'b');
                put_incarnation(&mut bytes, beacon.origin);
                put_number(&mut bytes, beacon.number);
            }
            Self::Ask(request) => {
                bytes.push(b'a');
                put_incarnation(&mut bytes, request.origin);
                put_optional(&mut bytes, request.after.as_deref());
            }
            Self::Part(part) => put_part(&mut bytes, part),
        }
        bytes
    }

    /// The version of a message that another version of this program has written; `None` if it is of
    /// this one, or no message.
    ///
    /// ```
    /// use busyhour_cluster::LiveMessage;
    ///
    /// assert_eq!(LiveMessage::other_version(&[1, b'b', 0, 1]), Some(1));
    /// assert_eq!(LiveMessage::other_version(b""), None);
    /// ```
    pub fn other_version(bytes: &[u8]) -> Option<u8> {
        bytes.first().copied().filter(|version| *version != VERSION)
    }

    /// Reads a message; `None` if it is malformed, or of a version that this program does not
    /// know. A number from 2^63 up is malformed, and so are no changes, a [`Part`] whose keys do not rise from
    /// the one that was asked for, or which is empty and not the last: a mirror would count beyond
    /// its numbers, or ask for the same part for ever.
    ///
    /// ```
    /// use busyhour_cluster::{Beacon, LiveMessage, Member, NodeNumber, Incarnation};
    ///
    /// let member = Member { node: NodeNumber(1), epoch: 7 };
    /// let origin = Incarnation::new(member, 99);
    /// let message = LiveMessage::Beacon(Beacon { origin, number: 12 });
    /// assert_eq!(LiveMessage::from_bytes(&message.to_bytes()), Some(message));
    /// assert_eq!(LiveMessage::from_bytes(b"junk"), None);
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let message = reader.message()?;
        reader.0.is_empty().then_some(message)
    }
}

fn put_changes(bytes: &mut Vec<u8>, changes: &LiveChanges) {
    bytes.push(b'm');
    put_incarnation(bytes, changes.origin);
    put_number(bytes, changes.first);
    put_number(bytes, changes.changes.len() as u64);
    for (key, value) in &changes.changes {
        put_bytes(bytes, key);
        put_optional(bytes, value.as_deref());
    }
}

fn put_part(bytes: &mut Vec<u8>, part: &Part) {
    bytes.push(b'p');
    put_incarnation(bytes, part.origin);
    put_optional(bytes, part.after.as_deref());
    put_number(bytes, part.at);
    bytes.push(part.is_last.into());
    put_number(bytes, part.entries.len() as u64);
    for entry in &part.entries {
        put_bytes(bytes, &entry.key);
        put_number(bytes, entry.number);
        put_bytes(bytes, &entry.value);
    }
}

fn put_incarnation(bytes: &mut Vec<u8>, incarnation: Incarnation) {
    bytes.extend(incarnation.member.node.0.to_be_bytes());
    put_number(bytes, incarnation.member.epoch);
    put_number(bytes, incarnation.number);
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_be_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
    bytes.extend(len.to_be_bytes());
    bytes.extend(value);
}

fn put_optional(bytes: &mut Vec<u8>, value: Option<&[u8]>) {
    bytes.push(value.is_some().into());
    if let Some(value) = value {
        put_bytes(bytes, value);
    }
}

/// Whether its keys rise from what was asked for.
fn is_in_order(part: &Part) -> bool {
    let keys = part.entries.iter().map(|entry| &entry.key);
    part.after.iter().chain(keys).is_sorted_by(|a, b| a < b)
}

/// Whether one can ask for what is behind it, if something is.
fn leads_on(part: &Part) -> bool {
    part.is_last || !part.entries.is_empty()
}

/// What is left to read.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn message(&mut self) -> Option<LiveMessage> {
        let [VERSION, kind] = self.array()? else {
            return None;
        };
        let origin = self.incarnation()?;
        Some(match kind {
            b'c' => LiveMessage::Change(LiveChange {
                origin,
                number: self.number()?,
                key: self.bytes()?,
                value: self.optional()?,
            }),
            b'm' => LiveMessage::Changes(self.changes(origin)?),
            b'b' => LiveMessage::Beacon(Beacon {
                origin,
                number: self.number()?,
            }),
            b'a' => LiveMessage::Ask(PartRequest {
                origin,
                after: self.optional()?,
            }),
            b'p' => LiveMessage::Part(self.part(origin)?),
            _ => return None,
        })
    }

    /// At least one, with numbers that can be counted on.
    fn changes(&mut self, origin: Incarnation) -> Option<LiveChanges> {
        let (first, count) = (self.number()?, self.number()?);
        if count == 0 || first + count > NUMBER_END {
            return None;
        }
        let mut changes = Vec::new();
        for _ in 0..count {
            changes.push((self.bytes()?, self.optional()?));
        }
        Some(LiveChanges {
            origin,
            first,
            changes,
        })
    }

    fn part(&mut self, origin: Incarnation) -> Option<Part> {
        let (after, at, is_last) = (self.optional()?, self.number()?, self.flag()?);
        let mut entries = Vec::new();
        for _ in 0..self.number()? {
            entries.push(Entry {
                key: self.bytes()?,
                number: self.number()?,
                value: self.bytes()?,
            });
        }
        let part = Part {
            origin,
            after,
            at,
            entries,
            is_last,
        };
        (is_in_order(&part) && leads_on(&part)).then_some(part)
    }

    fn incarnation(&mut self) -> Option<Incarnation> {
        let node = NodeNumber(u16::from_be_bytes(self.array()?));
        let epoch = self.number()?;
        let number = self.number()?;
        let member = Member { node, epoch };
        Some(Incarnation { member, number })
    }

    fn number(&mut self) -> Option<u64> {
        let number = self.array().map(u64::from_be_bytes);
        number.filter(|number| *number < NUMBER_END)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.array()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn optional(&mut self) -> Option<Option<Box<[u8]>>> {
        match self.flag()? {
            true => self.bytes().map(Some),
            false => Some(None),
        }
    }

    fn bytes(&mut self) -> Option<Box<[u8]>> {
        let len = u32::from_be_bytes(self.array()?);
        let (value, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(value.into())
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*value)
    }
}

/// No origin counts so far, and PostgreSQL has no such epoch. What is lower can be counted on.
const NUMBER_END: u64 = 1 << 63;

/// Raised when an older program could not read a message as it should be read: what a key or a value
/// is counts, too. Version 1 had keys without the partition, version 2 no messages of several changes,
/// version 3 no number of the process.
const VERSION: u8 = 4;
