//! Changes on their way to the other nodes: what waits together goes together.

use super::{LiveChange, LiveChanges, LiveMessage};
use std::mem;

/// Changes of one origin that have not left yet. A message for each of thousands of changes costs each
/// node more than what it says, and more than a broker keeps for who is slow.
///
/// ```
/// use busyhour_cluster::{LiveMessage, LiveOrigin, LiveOutbox, Member, NodeNumber, Incarnation};
///
/// let member = Member { node: NodeNumber(1), epoch: 7 };
/// let mut origin = LiveOrigin::new(Incarnation::new(member, 12));
/// let mut outbox = LiveOutbox::default();
/// for key in [*b"a", *b"b"] {
///     outbox.push(origin.set(key.into(), b"1"[..].into()).expect("it is new"));
/// }
/// let messages = outbox.take();
/// assert!(matches!(&messages[..], [LiveMessage::Changes(both)] if both.changes.len() == 2));
/// assert!(outbox.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct LiveOutbox {
    waiting: Vec<LiveChange>,
    bytes: usize,
}

impl LiveOutbox {
    /// The changes have to leave in this order.
    pub fn push(&mut self, change: LiveChange) {
        self.bytes += bytes_of(&change);
        self.waiting.push(change);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether what waits fills a message, and so should leave.
    pub fn is_full(&self) -> bool {
        self.bytes >= BYTES_FULL
    }

    /// The messages that say what waits, to be sent in this order.
    pub fn take(&mut self) -> Vec<LiveMessage> {
        self.bytes = 0;
        let mut messages: Vec<LiveChanges> = Vec::new();
        let mut bytes = 0;
        for change in mem::take(&mut self.waiting) {
            let of_change = bytes_of(&change);
            let next = messages.last_mut().filter(|last| {
                let number = last.first + last.changes.len() as u64;
                bytes < BYTES_FULL && last.origin == change.origin && number == change.number
            });
            bytes = next.as_ref().map_or(0, |_| bytes) + of_change;
            match next {
                Some(last) => last.changes.push((change.key, change.value)),
                None => messages.push(LiveChanges {
                    origin: change.origin,
                    first: change.number,
                    changes: vec![(change.key, change.value)],
                }),
            }
        }
        messages.into_iter().map(message).collect()
    }
}

/// A change alone is written as such.
fn message(mut changes: LiveChanges) -> LiveMessage {
    match (changes.changes.len(), changes.changes.pop()) {
        (1, Some((key, value))) => LiveMessage::Change(LiveChange {
            origin: changes.origin,
            number: changes.first,
            key,
            value,
        }),
        (_, last) => {
            changes.changes.extend(last);
            LiveMessage::Changes(changes)
        }
    }
}

fn bytes_of(change: &LiveChange) -> usize {
    change.key.len() + change.value.as_ref().map_or(0, |value| value.len()) + OVERHEAD
}

/// A message with so many bytes takes no more changes. A broker carries it in one piece, unless one state
/// alone is larger.
const BYTES_FULL: usize = 32 << 10;
/// Of a change besides its key and value: two lengths and whether there is a value.
const OVERHEAD: usize = 9;
