//! Which devices of a shard have changed since the index of devices read them.

use crate::server::device::Device;
use std::sync::Arc;

/// Written under the lock of the shard of the table, and only while there is an index: otherwise a change costs one look
/// at a flag beside what it writes anyway.
#[derive(Default)]
pub(in crate::server::device) struct ChangedDevices {
    is_on: bool,
    /// There were too many to remember each.
    is_over: bool,
    devices: Vec<Arc<Device>>,
}

/// What is to be read again.
pub(in crate::server::device) enum ToRead {
    /// These devices, in the order of their changes.
    Some(Vec<Arc<Device>>),
    /// All of the shard.
    All,
}

impl ChangedDevices {
    /// Its contacts are others, or last longer, or it has left the table.
    pub(in crate::server::device) fn note(&mut self, device: &Arc<Device>) {
        if self.is_on {
            self.remember(device);
        }
    }

    #[cold]
    fn remember(&mut self, device: &Arc<Device>) {
        match self.devices.len() < CHANGED_MAX {
            true if !self.is_over => self.devices.push(device.clone()),
            _ => self.forget(),
        }
    }

    /// From now on everything has changed.
    pub(in crate::server::device) fn forget(&mut self) {
        self.is_over = self.is_on;
        self.devices = Vec::new();
    }

    /// Changes are noted from now on, or no more.
    pub(in crate::server::device) fn turn(&mut self, is_on: bool) {
        *self = Self {
            is_on,
            ..Self::default()
        };
    }

    pub(in crate::server::device) fn take(&mut self) -> ToRead {
        let devices = std::mem::take(&mut self.devices);
        match std::mem::take(&mut self.is_over) {
            true => ToRead::All,
            false => ToRead::Some(devices),
        }
    }
}

/// A third of the devices that a shard has where there are a million: to read so many one by one costs as much as to read
/// all.
const CHANGED_MAX: usize = 256;
