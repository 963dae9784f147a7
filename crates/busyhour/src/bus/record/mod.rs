//! The schemaless event: a sort, a subject, and information elements.

mod element;
mod key;
mod pattern;
mod wire;

pub use element::{BitField, Element, ElementId, Value};
pub use key::RecordKey;
pub use pattern::RecordPattern;
pub use wire::{DecodeError, Limits};

use super::{Event, Name};

/// An event whose type is known only at run time: for C, for the wire, and for
/// programs that add a sort of event without a Rust type.
///
/// It has a sort (a number) and a subject, which are its [key](RecordKey) on a
/// topic, and information elements, each with a number of its own and one of
/// five types. Elements are kept in the order of their numbers, so equal records
/// are equal in memory and on the wire.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{ElementId, Limits, Record, RecordKey, Topic, Value};
///
/// const STATE: ElementId = ElementId(1);
/// const CALLS: ElementId = ElementId(2);
///
/// let record = Record::new(7, "SIP/door")
///     .with(STATE, Value::Text("in use".into()))
///     .with(CALLS, Value::U32(2));
/// assert_eq!(record.get(CALLS), Some(&Value::U32(2)));
///
/// let bytes = record.encode()?;
/// assert_eq!(Record::decode(&bytes, &Limits::default())?, record);
///
/// let records = Topic::builder("records").cached().build();
/// _ = records.publish(record);
/// let last = records.get(&RecordKey::new(7, "SIP/door")).unwrap();
/// assert_eq!(last.get(CALLS), Some(&Value::U32(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ast_event", "information element"))]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    key: RecordKey,
    /// By number, each once.
    elements: Vec<Element>,
}

impl Record {
    /// A record without elements.
    pub fn new(sort: u16, subject: impl Into<Name>) -> Self {
        Self {
            key: RecordKey::new(sort, subject),
            elements: Vec::new(),
        }
    }

    /// Sets an element, replaces an earlier one with the same number, and
    /// returns the record.
    #[must_use]
    pub fn with(mut self, id: ElementId, value: Value) -> Self {
        self.set(id, value);
        self
    }

    /// Sets an element; returns the earlier value of the same number.
    pub fn set(&mut self, id: ElementId, value: Value) -> Option<Value> {
        match self.place_of(id) {
            Ok(index) => Some(std::mem::replace(&mut self.elements[index].value, value)),
            Err(index) => {
                self.elements.insert(index, Element { id, value });
                None
            }
        }
    }

    /// Removes an element and returns its value.
    pub fn remove(&mut self, id: ElementId) -> Option<Value> {
        let index = self.place_of(id).ok()?;
        Some(self.elements.remove(index).value)
    }

    /// The sort of the event.
    pub fn sort(&self) -> u16 {
        self.key.sort
    }

    /// What the event is about.
    pub fn subject(&self) -> &Name {
        &self.key.subject
    }

    /// The value of an element.
    pub fn get(&self, id: ElementId) -> Option<&Value> {
        let index = self.place_of(id).ok()?;
        Some(&self.elements[index].value)
    }

    /// The elements, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Element> {
        self.elements.iter()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether the record has no element.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    fn place_of(&self, id: ElementId) -> Result<usize, usize> {
        self.elements
            .binary_search_by_key(&id, |element| element.id)
    }
}

impl Event for Record {
    type Key = RecordKey;

    fn key(&self) -> &RecordKey {
        &self.key
    }
}
