//! Lists what devices have registered.

use crate::server::{
    device::{Device, device_context::DeviceContext},
    stats::listing::{Listed, Listing, is_of_domain},
};
use busyhour_registrar::{Domains, address_of_record, user_of};
use busyhour_sip::Uri;
use std::sync::Arc;

impl DeviceContext {
    /// Visits every device, whatever the limit: meant for operators, not for routing.
    pub(in crate::server) fn bindings(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> Listing {
        let mut devices = self.table.all();
        devices.retain(|device| {
            after.is_none_or(|after| device.aor() > after)
                && domain.is_none_or(|domain| is_of_domain(device.aor(), domain))
        });
        devices.sort_unstable_by(|one, other| one.aor().cmp(other.aor()));
        self.page(&devices, limit)
    }

    /// Looks the user up in each of the domains, or in the one that stands behind it; if any host is ours, visits every device.
    pub(in crate::server) fn bindings_of(&self, user: &str, domains: &Domains) -> Listing {
        if domains.parts_of(user).0.is_some() {
            return self.bindings_at(&format!("sip:{user}"));
        }
        let mut devices = match domains.are_all() {
            true => self.table.all(),
            false => {
                let hosts = domains.hosts().iter();
                let aors = hosts.filter_map(|host| {
                    let uri = format!("sip:{user}@{host}");
                    address_of_record(&Uri::parse(&uri)?, domains).ok()
                });
                aors.filter_map(|aor| self.table.find(&aor)).collect()
            }
        };
        devices.retain(|device| user_of(device.aor()) == user);
        devices.sort_unstable_by(|one, other| one.aor().cmp(other.aor()));
        self.page(&devices, usize::MAX)
    }

    /// The valid bindings of one address of record.
    pub(in crate::server) fn bindings_at(&self, aor: &str) -> Listing {
        let device = self.table.find(aor);
        self.page(device.as_slice(), usize::MAX)
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
