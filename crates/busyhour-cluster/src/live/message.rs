//! What goes from node to node.

use super::Incarnation;

/// What a state is of, such as a topic and a device.
pub type Key = Box<[u8]>;

/// A state, in bytes that only its users read.
pub type Value = Box<[u8]>;

/// A state has changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LiveChange {
    /// Where.
    pub origin: Incarnation,
    /// Counts the changes of its origin, from one up.
    pub number: u64,
    /// What it is of.
    pub key: Key,
    /// The new state; `None` if there is none any more.
    pub value: Option<Value>,
}

/// States that have changed one after the other, in one message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LiveChanges {
    /// Where.
    pub origin: Incarnation,
    /// The number of the first; each further one has the next number.
    pub first: u64,
    /// What each is of, and the new state, or `None` if there is none any more. There is at least one.
    pub changes: Vec<(Key, Option<Value>)>,
}

impl LiveChanges {
    /// Each as a change of its own.
    pub fn into_each(self) -> impl Iterator<Item = LiveChange> {
        let Self {
            origin,
            first,
            changes,
        } = self;
        let each = move |(number, (key, value))| LiveChange {
            origin,
            number,
            key,
            value,
        };
        (first..).zip(changes).map(each)
    }
}

/// How many changes an origin has made; sent from time to time, so that the loss of the last one
/// is noticed, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Beacon {
    /// Who sends it.
    pub origin: Incarnation,
    /// The number of its last change; 0 if there was none.
    pub number: u64,
}

/// Asks an origin for the states behind a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartRequest {
    /// Who is asked.
    pub origin: Incarnation,
    /// The last key that is known; `None` for the first part.
    pub after: Option<Key>,
}

/// Some of an origin's states, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// Who sends it.
    pub origin: Incarnation,
    /// What was asked for.
    pub after: Option<Key>,
    /// The number of the origin's last change when this was read.
    pub at: u64,
    /// Every state between `after` and the last key here.
    pub entries: Vec<Entry>,
    /// Whether there are no states behind these.
    pub is_last: bool,
}

/// A state with the number of the change that made it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What it is of.
    pub key: Key,
    /// The number of its last change.
    pub number: u64,
    /// The state.
    pub value: Value,
}
