//! Registered contacts for people and programs to read, a page at a time.

use super::{core::Core, device::Device};
use crate::registrar::Binding;
use busyhour::{bus::Name, clock::Instant};
use std::sync::Arc;

/// One page of bindings in the order of their addresses of record.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The bindings; those of one address of record are never parted.
    pub bindings: Vec<Binding>,
    /// Where the next page begins: after this address of record. `None` on the last page.
    pub next: Option<Name>,
    /// When they were read.
    pub at: Instant,
}

impl Core {
    /// Costs a look at every device, whatever the limit: meant for operators, not for routing.
    pub(super) fn bindings(&self, after: Option<&str>, limit: usize) -> Listing {
        let mut devices = self.devices().all();
        devices.retain(|device| after.is_none_or(|after| device.name().as_str() > after));
        devices.sort_unstable_by(|one, other| one.name().as_str().cmp(other.name().as_str()));
        self.page(&devices, limit)
    }

    fn page(&self, devices: &[Arc<Device>], limit: usize) -> Listing {
        let mut page = Listing {
            at: self.now(),
            ..Listing::default()
        };
        for (index, device) in devices.iter().enumerate() {
            page.bindings.extend(device.active_bindings(page.at));
            if page.bindings.len() >= limit {
                let is_last = index + 1 == devices.len();
                page.next = (!is_last).then(|| device.name().clone());
                break;
            }
        }
        page
    }
}
