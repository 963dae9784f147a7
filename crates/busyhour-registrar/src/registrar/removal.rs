//! Contacts that are removed without a REGISTER.

use super::{Bindings, Now, Tally, Update, binding::Binding};
use busyhour_sip::Uri;

impl Bindings {
    /// Removes the contacts with this URI, or all of them without one, from a copy.
    ///
    /// As after a removal by the device, the leases stay for
    /// [`REMOVED_FOR`](super::REMOVED_FOR), so that a late duplicate of the last
    /// registration brings nothing back. The device's next registration does.
    ///
    /// URIs are compared as in a REGISTER (RFC 3261 §10.3, step 7).
    #[must_use]
    pub fn remove(&self, contact: Option<&str>, at: Now) -> Update {
        let wanted = contact.and_then(Uri::parse);
        let is_meant = |binding: &Binding| {
            let has_uri = |uri| binding.contact.has_uri(uri);
            contact.is_none_or(|text| {
                binding.contact.uri() == text || wanted.as_ref().is_some_and(has_uri)
            })
        };
        let mut list = self.list.to_vec();
        let mut changes = Vec::new();
        for binding in &mut list {
            if binding.is_active(at.now) && is_meant(binding) {
                *binding = binding.removed(binding.lease.cseq, at);
                changes.push(binding.renew());
            }
        }
        let removed = changes.len() as u64;
        Update {
            bindings: Self { list: list.into() },
            changes,
            tally: Tally {
                removed,
                ..Tally::default()
            },
        }
    }
}
