//! The states that watchers receive over the bus.

use crate::registrar::{BindingId, Bindings, Contact};
use crate::watch::{Document, LineState, Mailbox, RegistrationState, WatcherInfo};
use busyhour::{
    bus::{Event, Name},
    clock::Instant,
};
use std::sync::Arc;

/// The state of whatever is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a device.
    Device(DeviceState),
    /// Of an extension that stands for devices.
    Extension(ExtensionState),
    /// Of a mailbox.
    Mailbox(Mailbox),
    /// Of a registration.
    Registration(RegistrationState),
    /// Who watches something.
    Watchers(WatcherInfo),
}

/// What a body says, and of whom.
#[derive(Debug, Clone, Copy)]
pub struct Told<'s> {
    /// The address of record that was asked for.
    pub entity: &'s Name,
    /// Its state; `None` for a device that cannot be reached and for an empty mailbox.
    pub state: Option<&'s State>,
    /// Bodies of the same subscription before this one.
    pub version: u32,
}

/// Where a device can be reached now, and what it publishes.
///
/// A device that cannot be reached and publishes nothing has no state on the
/// bus: its key is cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    /// Its address of record.
    pub device: Name,
    /// The contacts that can be reached, in the order in which they registered.
    pub contacts: Arc<[Reachable]>,
    /// What it publishes; `None` is nothing.
    pub published: Option<Arc<[Published]>>,
}

/// A published state as watchers are told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Tells publications of one presentity apart, over all of their changes.
    pub number: u64,
    /// The state.
    pub document: Arc<Document>,
}

/// What the devices of an extension do together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionState {
    /// The user part of the addresses of record that are watched.
    pub extension: Name,
    /// The state of its devices together.
    pub line: LineState,
}

/// One contact of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachable {
    /// The binding's id.
    pub id: BindingId,
    /// The contact.
    pub contact: Contact,
}

impl DeviceState {
    /// The state that follows from bindings and publications; `None` when none
    /// is valid.
    pub fn of(
        device: &Name,
        bindings: &Bindings,
        published: Option<Arc<[Published]>>,
        now: Instant,
    ) -> Option<Self> {
        let contacts: Arc<[_]> = bindings
            .reachable(now)
            .map(|binding| Reachable {
                id: binding.id,
                contact: binding.contact.clone(),
            })
            .collect();
        let is_something = !contacts.is_empty() || published.is_some();
        is_something.then(|| Self {
            device: device.clone(),
            contacts,
            published,
        })
    }

    /// What it publishes.
    pub fn published(&self) -> &[Published] {
        self.published.as_deref().unwrap_or(&[])
    }

    /// The elements of the presence that it publishes (RFC 3863), as XML; empty if it
    /// publishes none.
    pub fn presence(&self) -> String {
        let mut text = Vec::new();
        for published in self.published() {
            if let Document::Presence(elements) = &*published.document {
                elements.write(&mut text, published.number);
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Event for DeviceState {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.device
    }
}

impl Event for ExtensionState {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.extension
    }
}
