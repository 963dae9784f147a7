//! The state of a device, as it goes over the bus.

use crate::registrar::{BindingId, Bindings, Contact};
use busyhour::{
    bus::{Event, Name},
    clock::Instant,
};
use std::sync::Arc;

/// Where a device can be reached now.
///
/// A device that cannot be reached has no state on the bus: its key is cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    /// Its address of record.
    pub device: Name,
    /// Its contacts, at least one, in the order in which they registered.
    pub contacts: Arc<[Reachable]>,
}

/// One contact of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachable {
    /// The binding's id.
    pub id: BindingId,
    /// The contact.
    pub contact: Arc<Contact>,
}

impl DeviceState {
    /// The state that follows from bindings; `None` when none is valid.
    pub fn of(device: &Name, bindings: &Bindings, now: Instant) -> Option<Self> {
        let contacts: Arc<[_]> = bindings
            .active(now)
            .map(|binding| Reachable {
                id: binding.id,
                contact: binding.contact.clone(),
            })
            .collect();
        (!contacts.is_empty()).then(|| Self {
            device: device.clone(),
            contacts,
        })
    }
}

impl Event for DeviceState {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.device
    }
}
