//! The sorts and the elements of records, with their names in JSON.

use busyhour::bus::ElementId;

/// What a change is about: the sort of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(in crate::server) enum ChangeKind {
    /// The contacts of an address of record.
    Registration = 1,
    /// What a device does, and the presence that it publishes.
    Device = 2,
    /// The messages in a mailbox.
    Mailbox = 3,
    /// What the devices of an extension do together.
    Hint = 4,
    /// A call.
    Call = 5,
}

impl ChangeKind {
    pub(in crate::server) const ALL: [Self; 5] = [
        Self::Registration,
        Self::Device,
        Self::Mailbox,
        Self::Hint,
        Self::Call,
    ];

    /// The kind of this sort of record.
    pub(in crate::server) fn of_sort(sort: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == sort)
    }

    pub(in crate::server) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(in crate::server) fn name(self) -> &'static str {
        match self {
            Self::Registration => "registration",
            Self::Device => "device",
            Self::Mailbox => "mailbox",
            Self::Hint => "hint",
            Self::Call => "call",
        }
    }

    /// What the subject of a record is called in JSON.
    pub(in crate::server) fn subject_name(self) -> &'static str {
        match self {
            Self::Registration | Self::Device => "aor",
            Self::Mailbox => "mailbox",
            Self::Hint => "extension",
            Self::Call => "call_id",
        }
    }

    /// Whether its records tell a state and nothing else, so that an equal one is no change.
    pub(in crate::server) fn is_state(self) -> bool {
        !matches!(self, Self::Registration | Self::Call)
    }
}

/// How the value of an element is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum ElementShape {
    /// [`Value::Text`](busyhour::bus::Value::Text): a string.
    Text,
    /// [`Value::U32`](busyhour::bus::Value::U32): a number.
    Number,
    /// [`Value::Flags`](busyhour::bus::Value::Flags), of which bit 0 counts: true or false.
    Switch,
    /// [`Value::Bytes`](busyhour::bus::Value::Bytes) in UTF-8, not interned, since it is
    /// long or seldom equal: a string.
    LongText,
    /// The same, one a line: an array of strings.
    Lines,
    /// [`Value::Bits`](busyhour::bus::Value::Bits): an array of the numbers that are set.
    Numbers,
}

/// What happened. Without it a record tells a state, and no change.
pub(in crate::server) const EVENT: ElementId = ElementId(1);
/// The user part of the address of record; of a call, of its caller; the name of a mailbox;
/// an extension.
pub(in crate::server) const USER: ElementId = ElementId(2);
/// Nothing is left to tell of the subject: it has no last value any more.
pub(in crate::server) const GONE: ElementId = ElementId(3);
/// The contacts that are registered, in the order in which they came.
pub(in crate::server) const CONTACTS: ElementId = ElementId(10);
/// The address that each contact was registered from.
pub(in crate::server) const SOURCES: ElementId = ElementId(11);
/// The User-Agent of each contact.
pub(in crate::server) const USER_AGENTS: ElementId = ElementId(12);
/// Which contacts are reached, counted from 0.
pub(in crate::server) const REACHABLE: ElementId = ElementId(13);
/// How many contacts are registered; of a device, how many are reached.
pub(in crate::server) const CONTACT_COUNT: ElementId = ElementId(14);
/// What a line does.
pub(in crate::server) const LINE: ElementId = ElementId(20);
/// The elements of the presence that is published.
pub(in crate::server) const PRESENCE: ElementId = ElementId(21);
/// Whether the lamp of a mailbox is lit.
pub(in crate::server) const WAITING: ElementId = ElementId(30);
/// The first of the counts of messages: four for each class.
pub(in crate::server) const MESSAGES: ElementId = ElementId(32);
/// How far a call is.
pub(in crate::server) const STATE: ElementId = ElementId(60);
/// The address of record of the device that calls.
pub(in crate::server) const CALLER: ElementId = ElementId(61);
/// That of the device that answered or rings.
pub(in crate::server) const CALLEE: ElementId = ElementId(62);
/// Its user part.
pub(in crate::server) const CALLEE_USER: ElementId = ElementId(63);
/// The URI of the caller.
pub(in crate::server) const FROM: ElementId = ElementId(64);
/// The URI that was called.
pub(in crate::server) const TO: ElementId = ElementId(65);
/// The user part of that URI, before anybody has answered, too.
pub(in crate::server) const CALLED_USER: ElementId = ElementId(70);
/// The status of the final response.
pub(in crate::server) const STATUS: ElementId = ElementId(66);
/// Why a call ended.
pub(in crate::server) const END: ElementId = ElementId(67);
/// Which side ended it.
pub(in crate::server) const ENDED_BY: ElementId = ElementId(68);
/// From the answer to the end, in milliseconds.
pub(in crate::server) const TALK_TIME_MS: ElementId = ElementId(69);

/// The counts of messages of a class, in the order of their elements.
pub(in crate::server) const MESSAGE_COUNTS: [[&str; 4]; 6] = [
    [
        "voice_new",
        "voice_old",
        "voice_urgent_new",
        "voice_urgent_old",
    ],
    ["fax_new", "fax_old", "fax_urgent_new", "fax_urgent_old"],
    [
        "pager_new",
        "pager_old",
        "pager_urgent_new",
        "pager_urgent_old",
    ],
    [
        "multimedia_new",
        "multimedia_old",
        "multimedia_urgent_new",
        "multimedia_urgent_old",
    ],
    ["text_new", "text_old", "text_urgent_new", "text_urgent_old"],
    ["none_new", "none_old", "none_urgent_new", "none_urgent_old"],
];

/// The element of a count of messages.
pub(in crate::server) fn message_count(class: usize, count: usize) -> ElementId {
    ElementId(MESSAGES.0 + (4 * class + count) as u16)
}

/// The name and the shape of an element; `None` if there is no such element.
pub(in crate::server) fn element_of(id: ElementId) -> Option<(&'static str, ElementShape)> {
    let counts = MESSAGE_COUNTS.as_flattened();
    let count = id.0.checked_sub(MESSAGES.0);
    if let Some(name) = count.and_then(|count| counts.get(usize::from(count))) {
        return Some((name, ElementShape::Number));
    }
    let known = ELEMENTS.iter().find(|(known, ..)| *known == id);
    known.map(|&(_, name, shape)| (name, shape))
}

/// The element of this name.
pub(in crate::server) fn element_named(name: &str) -> Option<(ElementId, ElementShape)> {
    let mut counts = MESSAGE_COUNTS.as_flattened().iter();
    if let Some(count) = counts.position(|known| *known == name) {
        return Some((message_count(0, count), ElementShape::Number));
    }
    let known = ELEMENTS.iter().find(|(_, known, _)| *known == name);
    known.map(|&(id, _, shape)| (id, shape))
}

const ELEMENTS: [(ElementId, &str, ElementShape); 22] = [
    (EVENT, "event", ElementShape::Text),
    (USER, "user", ElementShape::Text),
    (GONE, "gone", ElementShape::Switch),
    (CONTACTS, "contacts", ElementShape::Lines),
    (SOURCES, "sources", ElementShape::Lines),
    (USER_AGENTS, "user_agents", ElementShape::Lines),
    (REACHABLE, "reachable", ElementShape::Numbers),
    (CONTACT_COUNT, "contact_count", ElementShape::Number),
    (LINE, "line", ElementShape::Text),
    (PRESENCE, "presence", ElementShape::LongText),
    (WAITING, "waiting", ElementShape::Switch),
    (STATE, "state", ElementShape::Text),
    (CALLER, "caller", ElementShape::Text),
    (CALLEE, "callee", ElementShape::Text),
    (CALLEE_USER, "callee_user", ElementShape::Text),
    (FROM, "from", ElementShape::Text),
    (TO, "to", ElementShape::Text),
    (CALLED_USER, "called_user", ElementShape::Text),
    (STATUS, "status", ElementShape::Number),
    (END, "end", ElementShape::Text),
    (ENDED_BY, "ended_by", ElementShape::Text),
    (TALK_TIME_MS, "talk_time_ms", ElementShape::Number),
];
