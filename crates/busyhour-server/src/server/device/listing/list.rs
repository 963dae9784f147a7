//! Lists what devices have registered.

use super::{row_search::RowSearch, search::DeviceQuery};
use crate::server::{
    device::device_context::DeviceContext,
    stats::listing::{Listed, Listing},
};
use busyhour_registrar::{Domains, address_of_record, user_of};
use busyhour_sip::Uri;
use std::sync::Arc;

impl DeviceContext {
    /// A page of bindings; it searches as a page of devices does.
    pub(in crate::server) fn bindings(
        self: &Arc<Self>,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> Listing {
        let query = DeviceQuery {
            domain: domain.map(str::to_owned),
            after: after.map(str::to_owned),
            limit,
            ..DeviceQuery::default()
        };
        let found = RowSearch::new(self, query).only_registered().finish();
        self.page(&found.aors, limit, found.next.is_some())
    }

    /// Looks the user up in each of the domains, or in the one that stands behind it; if any host is ours, searches for it.
    pub(in crate::server) fn bindings_of(
        self: &Arc<Self>,
        user: &str,
        domains: &Domains,
    ) -> Listing {
        if domains.parts_of(user).0.is_some() {
            return self.bindings_at(&format!("sip:{user}"));
        }
        let mut aors = match domains.are_all() {
            true => self.aors_with(&format!(":{user}@")),
            false => {
                let hosts = domains.hosts().iter();
                let aors = hosts.filter_map(|host| {
                    let uri = format!("sip:{user}@{host}");
                    address_of_record(&Uri::parse(&uri)?, domains).ok()
                });
                aors.collect()
            }
        };
        aors.retain(|aor| user_of(aor) == user);
        aors.sort_unstable();
        aors.dedup();
        self.page(&aors, usize::MAX, false)
    }

    /// The valid bindings of one address of record.
    pub(in crate::server) fn bindings_at(&self, aor: &str) -> Listing {
        self.page(&[aor.to_owned()], usize::MAX, false)
    }

    /// Addresses of record of devices that have this text somewhere.
    fn aors_with(self: &Arc<Self>, text: &str) -> Vec<String> {
        let query = DeviceQuery {
            text: Some(text.to_owned()),
            limit: usize::MAX,
            ..DeviceQuery::default()
        };
        let search = RowSearch::new(self, query).only_registered();
        search.finish().aors
    }

    /// The bindings as they are now: as many as make up `limit`, and then the rest of the last one's.
    fn page(&self, aors: &[String], limit: usize, has_more: bool) -> Listing {
        let mut page = Listing {
            at: self.clock.now(),
            ..Listing::default()
        };
        for (index, aor) in aors.iter().enumerate() {
            let is_last = index + 1 == aors.len();
            let device = self.table.find(aor);
            let bindings = device.map_or(Vec::new(), |device| device.active_bindings(page.at));
            page.bindings
                .extend(bindings.into_iter().map(|binding| Listed {
                    aor: aor.as_str().into(),
                    binding,
                }));
            if page.bindings.len() >= limit || is_last {
                page.next = (!is_last || has_more).then(|| aor.as_str().into());
                break;
            }
        }
        page
    }
}
