//! How the parties of a call name it and themselves, kept once for all who tell of it.

use super::dialog_element::DialogDirection;
use std::ops::Range;

/// The names in the INVITE of a call: Call-ID, the caller's tag, and who calls whom.
///
/// A call, its dialogs and the devices that have them share one of these, in one text.
///
/// ```
/// use busyhour_registrar::watch::{CallNames, DialogDirection, DialogIdentity};
///
/// let caller = DialogIdentity { display: "Alice", uri: "sip:alice@example.org" };
/// let names = CallNames::new("c1", "a1", [Some(caller), None]).expect("short");
/// assert_eq!((names.call_id(), names.caller_tag()), ("c1", "a1"));
/// assert_eq!(names.identity(DialogDirection::Initiator), Some(caller));
/// assert_eq!(names.identity(DialogDirection::Recipient), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallNames {
    /// All of them, one after the other.
    text: Box<str>,
    /// Where each ends, but for the last one.
    ends: [u16; PARTS - 1],
    /// Whether each side has an identity.
    is_known: [bool; 2],
}

/// Who a side of a dialog is (RFC 4235 §4.1.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DialogIdentity<'n> {
    /// The display name; empty if it has none.
    pub display: &'n str,
    /// The URI of From or To.
    pub uri: &'n str,
}

impl CallNames {
    /// The names; of the identities, the first one is the caller's. `None` if they are longer
    /// than 65,535 bytes together.
    pub fn new(
        call_id: &str,
        caller_tag: &str,
        identities: [Option<DialogIdentity<'_>>; 2],
    ) -> Option<Self> {
        let [caller, called] = identities.map(|identity| {
            let identity = identity.unwrap_or(NOBODY);
            [identity.display, identity.uri]
        });
        let parts = [
            call_id, caller_tag, caller[0], caller[1], called[0], called[1],
        ];
        let text = parts.concat();
        u16::try_from(text.len()).ok()?;
        let mut end = 0;
        let ends = std::array::from_fn(|part| {
            end += parts[part].len();
            end as u16
        });
        Some(Self {
            text: text.into(),
            ends,
            is_known: identities.map(|identity| identity.is_some()),
        })
    }

    /// The Call-ID.
    pub fn call_id(&self) -> &str {
        self.part(0)
    }

    /// The tag of the caller.
    pub fn caller_tag(&self) -> &str {
        self.part(1)
    }

    /// Who the side is that began the dialog, or the other one; `None` if that is not known.
    pub fn identity(&self, side: DialogDirection) -> Option<DialogIdentity<'_>> {
        let first = 2 + 2 * side as usize;
        self.is_known[side as usize].then(|| DialogIdentity {
            display: self.part(first),
            uri: self.part(first + 1),
        })
    }

    /// The URI of a side; empty if it is not known.
    pub fn uri(&self, side: DialogDirection) -> &str {
        self.identity(side).map_or("", |identity| identity.uri)
    }

    fn part(&self, number: usize) -> &str {
        let end = |number: usize| self.ends.get(number).map(|end| usize::from(*end));
        let range = Range {
            start: number.checked_sub(1).and_then(end).unwrap_or(0),
            end: end(number).unwrap_or(self.text.len()),
        };
        self.text.get(range).unwrap_or("")
    }
}

/// Call-ID, tag, and two of each side.
const PARTS: usize = 6;
const NOBODY: DialogIdentity<'_> = DialogIdentity {
    display: "",
    uri: "",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn identity<'n>(display: &'n str, uri: &'n str) -> DialogIdentity<'n> {
        DialogIdentity { display, uri }
    }

    #[test]
    fn each_name_is_its_own() {
        let known = [identity("", "sip:a"), identity("B é", "sip:b")];
        let cases = [[None, None], [Some(known[0]), None], known.map(Some)];
        for identities in cases {
            let names = CallNames::new("id", "", identities).expect("short");
            assert_eq!((names.call_id(), names.caller_tag()), ("id", ""));
            let sides = [DialogDirection::Initiator, DialogDirection::Recipient];
            assert_eq!(sides.map(|side| names.identity(side)), identities);
        }
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let name = |len: usize| "x".repeat(len);
        assert!(CallNames::new(&name(60_000), &name(5_535), [None; 2]).is_some());
        assert!(CallNames::new(&name(60_000), &name(5_536), [None; 2]).is_none());
    }
}
