use crate::bus::Name;

/// The key of a [`Record`](super::Record) on a topic: its sort and its subject,
/// so that records of two sorts with one subject are two keys.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{Record, RecordKey, Topic};
///
/// const STATE: u16 = 7;
/// const MESSAGES: u16 = 8;
///
/// let records = Topic::builder("records").cached().build();
/// _ = records.publish(Record::new(STATE, "SIP/door"));
/// _ = records.publish(Record::new(MESSAGES, "SIP/door"));
/// assert_eq!(records.len(), 2);
/// assert_eq!(records.get(&RecordKey::new(STATE, "SIP/door")).unwrap().sort(), STATE);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The sort of the event.
    pub sort: u16,
    /// What the event is about.
    pub subject: Name,
}

impl RecordKey {
    /// The key of records with this sort and this subject.
    pub fn new(sort: u16, subject: impl Into<Name>) -> Self {
        let subject = subject.into();
        Self { sort, subject }
    }
}
