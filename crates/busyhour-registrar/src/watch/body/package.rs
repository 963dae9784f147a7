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
}

impl Package {
    /// Every package.
    pub const ALL: [Self; 4] = [
        Self::Presence,
        Self::Dialog,
        Self::MessageSummary,
        Self::Registration,
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
        }
    }

    /// The subtype of its body; the type is `application`.
    pub const fn subtype(self) -> &'static str {
        match self {
            Self::Presence => "pidf+xml",
            Self::Dialog => "dialog-info+xml",
            Self::MessageSummary => "simple-message-summary",
            Self::Registration => "reginfo+xml",
        }
    }

    /// The content type of its body.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Presence => "application/pidf+xml",
            Self::Dialog => "application/dialog-info+xml",
            Self::MessageSummary => "application/simple-message-summary",
            Self::Registration => "application/reginfo+xml",
        }
    }

    /// Whether devices publish it; registrations are not published, the registrar knows
    /// them.
    pub const fn is_published(self) -> bool {
        !matches!(self, Self::Registration)
    }

    /// Appends the body that tells a state; of a registration see
    /// [`RegistrationState`](crate::watch::RegistrationState).
    pub(in crate::watch) fn write_body(self, out: &mut Vec<u8>, told: Told<'_>) {
        match self {
            Self::Presence => pidf::write(out, told),
            Self::Dialog => dialog_info::write(out, told),
            // Its body depends on the one before it: the subscription writes it.
            Self::Registration => {}
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
            Self::MessageSummary | Self::Registration => one.contacts == other.contacts,
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
