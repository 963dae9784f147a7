use super::{ElementId, Record, Value};
use crate::bus::Name;

/// What a [`Record`] must be: of a sort, about a subject, with certain
/// elements. An empty pattern matches every record.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{ElementId, Record, RecordPattern, Topic, Value};
///
/// const CALLER: ElementId = ElementId(1);
/// const FEATURES: ElementId = ElementId(2);
///
/// let records = Topic::builder("records").cached().build();
/// _ = records.publish(Record::new(7, "line/1").with(FEATURES, Value::Flags(0b0110)));
/// _ = records.publish(Record::new(7, "line/2").with(CALLER, Value::Text("555".into())));
///
/// let calls = RecordPattern::new().sort(7).exists(CALLER);
/// let call = records.find(|record| calls.matches(record)).unwrap();
/// assert_eq!(&*call.subject(), "line/2");
/// let holding = RecordPattern::new().having(FEATURES, Value::Flags(0b0010));
/// let line = records.find(|record| holding.matches(record)).unwrap();
/// assert_eq!(&*line.subject(), "line/1");
///
/// // The same pattern chooses what a subscription receives.
/// let _calls = records.subscribe().matching(move |record| calls.matches(record)).start(|_| ());
/// ```
#[doc(alias("AST_EVENT_IE_PLTYPE_EXISTS", "ast_event_get_cached"))]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordPattern {
    sort: Option<u16>,
    subject: Option<Name>,
    /// All must hold.
    elements: Vec<(ElementId, Condition)>,
}

/// What an element must be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Exists,
    Matches(Value),
}

impl RecordPattern {
    /// A pattern that every record matches.
    pub fn new() -> Self {
        Self::default()
    }

    /// The record is of this sort.
    #[must_use]
    pub fn sort(mut self, sort: u16) -> Self {
        self.sort = Some(sort);
        self
    }

    /// The record is about this subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<Name>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// The record has this element, whatever its value.
    #[must_use]
    pub fn exists(self, id: ElementId) -> Self {
        self.and(id, Condition::Exists)
    }

    /// The record has this element, and its value [matches](Value::matches).
    #[must_use]
    pub fn having(self, id: ElementId, value: Value) -> Self {
        self.and(id, Condition::Matches(value))
    }

    /// Whether the record is all that the pattern says.
    pub fn matches(&self, record: &Record) -> bool {
        let holds = |(id, condition): &(ElementId, Condition)| {
            let value = record.get(*id);
            value.is_some_and(|value| condition.holds(value))
        };
        self.sort.is_none_or(|sort| sort == record.sort())
            && (self.subject.as_ref()).is_none_or(|subject| subject == record.subject())
            && self.elements.iter().all(holds)
    }

    fn and(mut self, id: ElementId, condition: Condition) -> Self {
        self.elements.push((id, condition));
        self
    }
}

impl Condition {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Self::Exists => true,
            Self::Matches(wanted) => value.matches(wanted),
        }
    }
}
