//! Calls of peers that carry them themselves, and only ask where a user is.

use super::target::{callable, percent_encoded};
use crate::server::{core::Core, peer::trusted_peer::TrustedPeer, sip::receive::Request};
use busyhour_registrar::{CONTACTS_LEN_MAX, Contact, Refusal};
use busyhour_sip::{HeaderName, Quality, SipUri, Status};

impl Core {
    /// Answers an INVITE with the contacts of the called user (RFC 3261 §21.3.3). Nothing is
    /// kept: the answer to a repeated one is the same, as long as the contacts are.
    pub(super) fn redirect(
        &self,
        request: &Request<'_>,
        called: &SipUri<'_>,
        peer: &TrustedPeer,
    ) -> Result<(), Refusal> {
        let aor = self.called_address(request.flow, called)?;
        let bindings = self.bindings_at(&aor);
        let mut contacts =
            callable(&bindings, called).map_err(|reason| self.unavailable(&aor, reason))?;
        // A device must ring once: of each, the contact that it would be called at first.
        let mut instances = Vec::new();
        contacts.retain(|contact| {
            let instance = contact.instance();
            let is_first = instance.is_none() || !instances.contains(&instance);
            instances.push(instance);
            is_first
        });
        let contacts: Vec<_> = contacts.into_iter().map(contact_value).collect();
        if contacts.iter().map(String::len).sum::<usize>() > CONTACTS_LEN_MAX {
            return Err(Refusal::TooLongToAnswer);
        }
        peer.counters.redirected.increment();
        self.responder.heard_at(request.flow);
        let status = Status::MOVED_TEMPORARILY;
        self.responder.respond_at_once(request, status, |answer| {
            let answer = contacts.iter().fold(answer, |answer, contact| {
                answer.header(HeaderName::Contact, contact)
            });
            answer.finish();
        });
        Ok(())
    }
}

/// The contact with its q; its Path is the Route that a request for it needs (RFC 3261
/// §19.1.1, RFC 3327 §5.3).
fn contact_value(contact: &Contact) -> String {
    let parts = contact.parts();
    let mut value = format!("<{}", parts.uri);
    if !parts.path.is_empty() {
        value.push(if parts.uri.contains('?') { '&' } else { '?' });
        value.push_str("Route=");
        // There `&` separates headers.
        value.push_str(&percent_encoded(parts.path).replace('&', "%26"));
    }
    value.push('>');
    if let Some(q_milli) = parts.q_milli {
        value.push_str(&format!(";q={}", Quality::from_thousandths(q_milli)));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_registrar::ContactParts;
    use busyhour_sip::Flow;

    #[test]
    fn a_path_is_the_route_of_its_contact() {
        let shown = |uri, path| {
            let address = "192.0.2.7:5060".parse().unwrap();
            contact_value(&Contact::new(ContactParts {
                uri,
                parameters: "",
                q_milli: None,
                call_id: "c",
                path,
                user_agent: "",
                flow: Flow::udp(address, address),
            }))
        };
        let path = "<sip:edge@192.0.2.1;lr;x=a&b>";
        let route = "Route=%3Csip:edge%40192.0.2.1%3Blr%3Bx%3Da%26b%3E";
        assert_eq!(shown("sip:a@b", ""), "<sip:a@b>");
        assert_eq!(shown("sip:a@b", path), format!("<sip:a@b?{route}>"));
        assert_eq!(shown("sip:a@b?X=y", path), format!("<sip:a@b?X=y&{route}>"));
    }
}
