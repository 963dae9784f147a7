//! Registered contacts and named things (accounts, mailboxes, hints) for people and
//! programs, a page at a time.

use crate::server::device::{Device, device_context::DeviceContext};
use busyhour::{bus::Name, clock::Instant};
use busyhour_registrar::{Binding, user_of};
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

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

/// One page of what has a name, in the order of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedPage<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins: after this name. `None` on the last page.
    pub next: Option<Name>,
}

impl<T> NamedPage<T> {
    /// At most `limit` of those behind the name `after`, as `view` shows them.
    pub(in crate::server) fn of<V>(
        named: &BTreeMap<Name, V>,
        after: Option<&str>,
        limit: usize,
        view: impl Fn(&Name, &V) -> Option<T>,
    ) -> Self {
        let begin = after.map_or(Bound::Unbounded, |after| Bound::Excluded(Name::new(after)));
        let mut rest = named.range((begin, Bound::Unbounded));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let is_last = rest.next().is_none();
        let last = page.last().filter(|_| !is_last);
        Self {
            next: last.map(|(name, _)| (*name).clone()),
            items: page
                .into_iter()
                .filter_map(|(name, value)| view(name, value))
                .collect(),
        }
    }
}

impl DeviceContext {
    /// Visits every device, whatever the limit: meant for operators, not for routing.
    pub(in crate::server) fn bindings(&self, after: Option<&str>, limit: usize) -> Listing {
        let mut devices = self.table.all();
        devices.retain(|device| after.is_none_or(|after| device.aor() > after));
        devices.sort_unstable_by(|one, other| one.aor().cmp(other.aor()));
        self.page(&devices, limit)
    }

    pub(in crate::server) fn bindings_of(&self, user: &str) -> Listing {
        let mut devices = self.table.all();
        devices.retain(|device| user_of(device.aor()) == user);
        devices.sort_unstable_by(|one, other| one.aor().cmp(other.aor()));
        self.page(&devices, usize::MAX)
    }

    fn page(&self, devices: &[Arc<Device>], limit: usize) -> Listing {
        let mut page = Listing {
            at: self.clock.now(),
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
