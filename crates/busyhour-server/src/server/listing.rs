//! Registered contacts for people and programs to read, a page at a time.

use super::{core::Core, device::Device};
use crate::registrar::Binding;
use busyhour::clock::Instant;
use std::sync::Arc;

/// One page of bindings in the order of their addresses of record.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The bindings; those of one address of record are never parted.
    pub bindings: Vec<Listed>,
    /// Where the next page begins: after this address of record. `None` on the last page.
    pub next: Option<Box<str>>,
    /// When they were read.
    pub at: Instant,
}

/// A binding, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Canonical address of record.
    pub aor: Box<str>,
    /// The binding.
    pub binding: Binding,
}

impl Core {
    /// Costs a look at every device, whatever the limit: meant for operators, not for routing.
    pub(super) fn bindings(&self, after: Option<&str>, limit: usize) -> Listing {
        let mut devices = self.devices().all();
        devices.retain(|device| after.is_none_or(|after| device.aor() > after));
        devices.sort_unstable_by(|one, other| one.aor().cmp(other.aor()));
        self.page(&devices, limit)
    }

    fn page(&self, devices: &[Arc<Device>], limit: usize) -> Listing {
        let mut page = Listing {
            at: self.now(),
            ..Listing::default()
        };
        for (index, device) in devices.iter().enumerate() {
            let bindings = device.active_bindings(page.at).into_iter();
            page.bindings.extend(bindings.map(|binding| Listed {
                aor: device.aor().into(),
                binding,
            }));
            if page.bindings.len() >= limit {
                let is_last = index + 1 == devices.len();
                page.next = (!is_last).then(|| device.aor().into());
                break;
            }
        }
        page
    }
}
