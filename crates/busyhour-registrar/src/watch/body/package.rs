//! The event packages, each with its one body type.

use crate::registrar::BindingId;
use crate::watch::{
    DeviceState, Document, Reachable, State, Told,
    body::{dialog_info, pidf},
};

/// An event package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Package {
    /// Whether a device can be reached, over how many contacts, and whether it is in a call
    /// (RFC 3856, RFC 4480).
    Presence,
    /// The dialogs of a device (RFC 4235): those it publishes. That it can be
    /// reached is told in an element of our own.
    Dialog,
    /// What waits in the mailbox of an account (RFC 3842).
    MessageSummary,
    /// Which contacts a device registers, and what becomes of them (RFC 3680).
    Registration,
    /// Who watches presence (RFC 3857).
    PresenceWatchers,
    /// Who watches dialogs.
    DialogWatchers,
    /// Who watches the mailbox.
    MessageSummaryWatchers,
}

impl Package {
    /// Every package.
    pub const ALL: [Self; 7] = [
        Self::Presence,
        Self::Dialog,
        Self::MessageSummary,
        Self::Registration,
        Self::PresenceWatchers,
        Self::DialogWatchers,
        Self::MessageSummaryWatchers,
    ];

    /// The package of this name, compared as RFC 6665 §8.2.1 wants: by case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|package| package.name() == name)
    }

    /// The name in the Event header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Dialog => "dialog",
            Self::MessageSummary => "message-summary",
            Self::Registration => "reg",
            Self::PresenceWatchers => "presence.winfo",
            Self::DialogWatchers => "dialog.winfo",
            Self::MessageSummaryWatchers => "message-summary.winfo",
        }
    }

    /// The subtype of its body; the type is `application`.
    pub const fn subtype(self) -> &'static str {
        match self {
            Self::Presence => "pidf+xml",
            Self::Dialog => "dialog-info+xml",
            Self::MessageSummary => "simple-message-summary",
            Self::Registration => "reginfo+xml",
            Self::PresenceWatchers | Self::DialogWatchers | Self::MessageSummaryWatchers => {
                "watcherinfo+xml"
            }
        }
    }

    /// The content type of its body.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Presence => "application/pidf+xml",
            Self::Dialog => "application/dialog-info+xml",
            Self::MessageSummary => "application/simple-message-summary",
            Self::Registration => "application/reginfo+xml",
            Self::PresenceWatchers | Self::DialogWatchers | Self::MessageSummaryWatchers => {
                "application/watcherinfo+xml"
            }
        }
    }

    /// Whether devices publish it; the registrar knows registrations, and the server watchers.
    pub const fn is_published(self) -> bool {
        matches!(self, Self::Presence | Self::Dialog | Self::MessageSummary)
    }

    /// The package whose watchers it tells; `None` if it tells something else.
    pub const fn watched(self) -> Option<Self> {
        match self {
            Self::PresenceWatchers => Some(Self::Presence),
            Self::DialogWatchers => Some(Self::Dialog),
            Self::MessageSummaryWatchers => Some(Self::MessageSummary),
            _ => None,
        }
    }

    /// The package that tells its watchers (RFC 3857 §4.1); `None` if there is none.
    pub const fn watchers(self) -> Option<Self> {
        match self {
            Self::Presence => Some(Self::PresenceWatchers),
            Self::Dialog => Some(Self::DialogWatchers),
            Self::MessageSummary => Some(Self::MessageSummaryWatchers),
            _ => None,
        }
    }

    /// Appends the body that tells a state; of a registration see
    /// [`RegistrationState`](crate::watch::RegistrationState).
    pub(in crate::watch) fn write_body(self, out: &mut Vec<u8>, told: Told<'_>) {
        match self {
            Self::Presence => pidf::write(out, told),
            Self::Dialog => dialog_info::write(out, told),
            // Their bodies depend on those before them: the subscription writes them.
            Self::Registration
            | Self::PresenceWatchers
            | Self::DialogWatchers
            | Self::MessageSummaryWatchers => {}
            Self::MessageSummary => match told.state {
                Some(State::Mailbox(mailbox)) => mailbox.summary.write(out),
                _ => out.extend_from_slice(b"Messages-Waiting: no\r\n"),
            },
        }
    }

    /// Whether the body tells one state as it tells the other.
    pub(in crate::watch) fn tells_the_same(
        self,
        one: Option<&State>,
        other: Option<&State>,
    ) -> bool {
        match (one, other) {
            (Some(State::Device(one)), Some(State::Device(other))) => self.same_device(one, other),
            (Some(State::Watchers(one)), Some(State::Watchers(other))) => one.tells_the_same(other),
            (Some(State::Device(device)), None) | (None, Some(State::Device(device))) => {
                device.contacts.is_empty()
                    && self.documents(device).next().is_none()
                    && !self.shows_a_call(device)
            }
            _ => one == other,
        }
    }

    fn same_device(self, one: &DeviceState, other: &DeviceState) -> bool {
        let same_contacts = match self {
            Self::Dialog => one.contacts.len() == other.contacts.len(),
            // The body does not show the contact addresses.
            Self::Presence => one
                .contacts
                .iter()
                .map(shown)
                .eq(other.contacts.iter().map(shown)),
            _ => one.contacts == other.contacts,
        };
        same_contacts
            && self.documents(one).eq(self.documents(other))
            && self.shows_a_call(one) == self.shows_a_call(other)
    }

    /// Whether its body says that the device is in a call, though the device does not say so in
    /// this package itself.
    fn shows_a_call(self, device: &DeviceState) -> bool {
        self == Self::Presence && pidf::is_on_the_phone(device)
    }

    fn documents(self, state: &DeviceState) -> impl Iterator<Item = (u64, &Document)> {
        let published = state.published().iter();
        let documents = published.map(|published| (published.number, &*published.document));
        documents.filter(move |(_, document)| document.package() == self)
    }
}

/// What a tuple of presence says of a contact.
fn shown(reachable: &Reachable) -> (BindingId, Option<u16>) {
    (reachable.id, reachable.contact.q_milli())
}
