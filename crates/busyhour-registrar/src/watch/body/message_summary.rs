//! How many messages wait in a mailbox (RFC 3842), as text, as JSON and as the
//! two octets of IAX2.

use crate::watch::Unreadable;
use busyhour::bus::{Event, Name};
use busyhour_sip::Uri;
use serde::{Deserialize, Serialize};
use std::{io::Write, sync::Arc};

/// A mailbox, as it goes over the bus. One without a state holds nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    /// Its name.
    pub id: Name,
    /// What waits in it.
    pub summary: Arc<MessageSummary>,
}

/// What waits in a mailbox, by class of message (RFC 3842 §5.2).
///
/// ```
/// use busyhour_registrar::watch::MessageSummary;
///
/// let text = "Messages-Waiting: yes\r\nVoice-Message: 2/8 (0/2)\r\n";
/// let summary = MessageSummary::parse(text).unwrap();
/// assert!(summary.is_waiting());
/// assert_eq!(summary.voice.unwrap().old, 8);
/// assert_eq!(summary.iax2_count(), 0x0802);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageSummary {
    /// The URI to call to hear them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whether the lamp is lit; `None` leaves it to the counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<bool>,
    /// `voice-message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<MessageCounts>,
    /// `fax-message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fax: Option<MessageCounts>,
    /// `pager-message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pager: Option<MessageCounts>,
    /// `multimedia-message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multimedia: Option<MessageCounts>,
    /// `text-message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<MessageCounts>,
    /// `none`: of no class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none: Option<MessageCounts>,
}

/// Messages of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageCounts {
    /// Not heard yet, urgent ones included.
    pub new: u32,
    /// Heard and kept, urgent ones included.
    pub old: u32,
    /// Those of `new` that are urgent.
    pub urgent_new: u32,
    /// Those of `old` that are urgent.
    pub urgent_old: u32,
}

impl MessageSummary {
    /// Reads a body of `application/simple-message-summary`; headers of single
    /// messages behind the empty line are not kept.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] says which line breaks the grammar.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut summary = Self::default();
        for line in text.lines().take_while(|line| !line.trim().is_empty()) {
            let (name, value) = line
                .split_once(':')
                .ok_or(Unreadable("Line Without Colon"))?;
            summary.take(name.trim(), value.trim())?;
        }
        match summary.waiting {
            Some(_) => summary.checked().map_err(Unreadable),
            None => Err(Unreadable("Messages-Waiting Is Missing")),
        }
    }

    /// The summary itself where a watcher can be told it.
    ///
    /// # Errors
    ///
    /// Which part it cannot.
    pub fn checked(self) -> Result<Self, &'static str> {
        let is_uri =
            |account: &String| account.len() <= ACCOUNT_LEN_MAX && Uri::parse(account).is_some();
        let more_urgent = |counts: &MessageCounts| {
            counts.urgent_new > counts.new || counts.urgent_old > counts.old
        };
        if !self.account.as_ref().is_none_or(is_uri) {
            return Err("Message-Account Is No URI");
        }
        let wrong = self
            .classes()
            .into_iter()
            .any(|(_, counts)| counts.is_some_and(|c| more_urgent(&c)));
        match wrong {
            true => Err("More Urgent Messages Than Messages"),
            false => Ok(self),
        }
    }

    /// Whether the lamp is lit.
    pub fn is_waiting(&self) -> bool {
        let has_new = || {
            self.classes()
                .into_iter()
                .any(|(_, counts)| counts.is_some_and(|c| c.new > 0))
        };
        self.waiting.unwrap_or_else(has_new)
    }

    /// MSGCOUNT (RFC 5456 §8.6.23): old voice messages above new ones, an octet
    /// each, 255 for that many or more; all ones for a lamp lit without a count.
    pub fn iax2_count(&self) -> u16 {
        let voice = self.voice.unwrap_or_default();
        let octet = |count: u32| count.min(255) as u16;
        match (self.is_waiting(), voice.new) {
            (true, 0) => u16::MAX,
            _ => octet(voice.old) << 8 | octet(voice.new),
        }
    }

    /// Appends the body of a NOTIFY.
    pub(in crate::watch) fn write(&self, out: &mut Vec<u8>) {
        let waiting = if self.is_waiting() { "yes" } else { "no" };
        // Writing to a Vec can't fail.
        let _ = write!(out, "Messages-Waiting: {waiting}\r\n");
        if let Some(account) = &self.account {
            let _ = write!(out, "Message-Account: {account}\r\n");
        }
        for (name, counts) in self.classes() {
            let Some(counts) = counts else { continue };
            let MessageCounts {
                new,
                old,
                urgent_new,
                urgent_old,
            } = counts;
            let _ = write!(out, "{name}: {new}/{old} ({urgent_new}/{urgent_old})\r\n");
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), Unreadable> {
        if name.eq_ignore_ascii_case("Messages-Waiting") {
            self.waiting = Some(yes_or_no(value)?);
        } else if name.eq_ignore_ascii_case("Message-Account") {
            self.account = Some(value.to_owned());
        } else {
            let class = self
                .class_mut(name)
                .ok_or(Unreadable("Unknown Class Of Messages"))?;
            *class = Some(MessageCounts::parse(value).ok_or(Unreadable("Message Counts"))?);
        }
        Ok(())
    }

    fn classes(&self) -> [(&'static str, Option<MessageCounts>); 6] {
        [
            (NAMES[0], self.voice),
            (NAMES[1], self.fax),
            (NAMES[2], self.pager),
            (NAMES[3], self.multimedia),
            (NAMES[4], self.text),
            (NAMES[5], self.none),
        ]
    }

    fn class_mut(&mut self, name: &str) -> Option<&mut Option<MessageCounts>> {
        let index = NAMES
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))?;
        Some(match index {
            0 => &mut self.voice,
            1 => &mut self.fax,
            2 => &mut self.pager,
            3 => &mut self.multimedia,
            4 => &mut self.text,
            _ => &mut self.none,
        })
    }
}

impl MessageCounts {
    /// Reads `new/old` or `new/old (urgent new/urgent old)`.
    fn parse(text: &str) -> Option<Self> {
        let (all, urgent) = match text.split_once('(') {
            Some((all, urgent)) => (all, urgent.trim_end().strip_suffix(')')?),
            None => (text, "0/0"),
        };
        let ((new, old), (urgent_new, urgent_old)) = (pair(all)?, pair(urgent)?);
        Some(Self {
            new,
            old,
            urgent_new,
            urgent_old,
        })
    }
}

impl Event for Mailbox {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.id
    }
}

fn pair(text: &str) -> Option<(u32, u32)> {
    let (one, other) = text.trim().split_once('/')?;
    Some((number(one.trim())?, number(other.trim())?))
}

/// Digits alone: a sign or nothing at all is no count.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

fn yes_or_no(text: &str) -> Result<bool, Unreadable> {
    match text {
        _ if text.eq_ignore_ascii_case("yes") => Ok(true),
        _ if text.eq_ignore_ascii_case("no") => Ok(false),
        _ => Err(Unreadable("Messages-Waiting Is Neither Yes Nor No")),
    }
}

/// The headers of the classes (RFC 3458).
const NAMES: [&str; 6] = [
    "Voice-Message",
    "Fax-Message",
    "Pager-Message",
    "Multimedia-Message",
    "Text-Message",
    "None",
];
/// Room for a long URI, and not for a body in a header.
const ACCOUNT_LEN_MAX: usize = 256;
