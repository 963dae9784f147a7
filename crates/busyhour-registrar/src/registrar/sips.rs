//! Which registrations may name a SIPS contact.

use super::{Refusal, RequestedContact};
use busyhour_sip::Flow;
use busyhour_sip::{HeaderName, Message, Scheme, Uri};

/// Whether a SIPS contact can be registered: a request to a SIPS URI goes over TLS on
/// every hop. So the Request-URI, every contact and every Path have to be SIPS (RFC
/// 5630 §5.2), and where no proxy stands between, the registration itself has come over
/// TLS (RFC 3261 §26.2.2). Removing a contact has no such condition.
///
/// # Errors
///
/// [`Refusal::BadRequest`] with what is not.
pub(super) fn check(
    message: &Message<'_>,
    wishes: &[RequestedContact<'_>],
    flow: Flow,
) -> Result<(), Refusal> {
    let mut living = wishes.iter().filter(|wish| wish.is_living());
    if !living.clone().any(|wish| names_sips(wish.uri)) {
        return Ok(());
    }
    let is_direct = message.elements(HeaderName::Via).nth(1).is_none();
    if !is_sips(&message.request_uri()?) {
        return Err(bad("SIPS Contact Needs A SIPS Request-URI"));
    }
    if !living.all(|wish| names_sips(wish.uri)) {
        return Err(bad("SIPS And Other Contacts"));
    }
    for path in message.addresses(HeaderName::Path) {
        if !is_sips(&path?.uri) {
            return Err(bad("SIPS Contact Needs A SIPS Path"));
        }
    }
    match is_direct && !flow.transport.is_encrypted() {
        true => Err(bad("SIPS Contact Needs TLS")),
        false => Ok(()),
    }
}

fn names_sips(uri: &str) -> bool {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("sips"))
}

fn is_sips(uri: &Uri<'_>) -> bool {
    uri.as_sip().is_some_and(|uri| uri.scheme == Scheme::Sips)
}

fn bad(reason: &'static str) -> Refusal {
    Refusal::BadRequest(reason.into())
}
