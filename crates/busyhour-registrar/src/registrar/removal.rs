//! Contacts that are removed without a REGISTER.

use super::{Bindings, Now, Tally, Update, binding::Binding};
use busyhour_sip::{Flow, Uri};

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
        self.without(is_meant, at)
    }

    /// Removes from a copy the contacts whose connection has ended, and that nothing brings back:
    /// they depend on it, and are neither flows of an instance, which the device registers again
    /// under the same key (RFC 5626 §6), nor those of a telephone that a service wakes (RFC 8599).
    #[must_use]
    pub fn remove_cut_off(&self, flow: Flow, at: Now) -> Update {
        let is_meant = |Binding { contact, .. }: &Binding| {
            contact.flow() == flow
                && contact.depends_on_flow()
                && contact.flow_key().is_none()
                && !is_woken(contact.uri())
        };
        self.without(is_meant, at)
    }

    fn without(&self, is_meant: impl Fn(&Binding) -> bool, at: Now) -> Update {
        let mut list = self.list.to_vec();
        let mut changes = Vec::new();
        for binding in &mut list {
            if binding.is_active(at.now) && is_meant(binding) {
                *binding = binding.removed(binding.lease().cseq, at);
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

/// Whether the contact names the service that wakes its telephone (RFC 8599 §4).
fn is_woken(uri: &str) -> bool {
    let uri = Uri::parse(uri);
    let sip = uri.as_ref().and_then(Uri::as_sip);
    sip.is_some_and(|sip| sip.param("pn-prid").is_some())
}
