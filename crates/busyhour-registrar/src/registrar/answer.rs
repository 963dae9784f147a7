//! Writing the answers of the registrar.

use super::{
    Binding, Bindings, Contact, FLOW_TIMER_S, HttpDate, Now, Refusal, Registration,
    outbound::OUTBOUND, policy::seconds,
};
use busyhour::clock::Instant;
use busyhour_sip::{
    ACCEPT_ENCODING, Flow, HeaderName, HeaderValue, Message, Output, Quality, ResponseBuilder,
    Status,
};
use std::net::SocketAddr;

/// Writes the 200 with every current binding (RFC 3261 §10.3, step 8). A device that offers keep-alives is told how often to
/// send one (RFC 6223).
pub fn write_answer(
    out: &mut impl Output,
    request: &Message<'_>,
    registration: &Registration<'_>,
    bindings: &Bindings,
    at: Now,
    (to_tag, feature_caps): (&str, Option<&str>),
) {
    let Flow {
        remote, transport, ..
    } = registration.flow;
    let keep_s = match transport.is_reliable() {
        true => FLOW_TIMER_S,
        false => KEEP_DATAGRAMS_S,
    };
    let mut answer =
        ResponseBuilder::new_keeping_alive(out, request, Status::OK, remote, keep_s).to_tag(to_tag);
    for binding in bindings.active(at.now) {
        let value = ContactValue {
            binding,
            now: at.now,
            gruu_of: registration.extensions.gruu.then_some(registration.aor),
        };
        answer = answer.value(HeaderName::Contact, &value);
    }
    if registration.extensions.outbound {
        answer = answer.header(HeaderName::Require, OUTBOUND);
        if registration.extensions.is_direct {
            answer = answer.header_named("Flow-Timer", FLOW_TIMER_S);
        }
    }
    if !registration.path.is_empty() {
        answer = answer.copy(HeaderName::Path);
    }
    if let Some(caps) = feature_caps {
        answer = answer.header_named("Feature-Caps", caps);
    }
    answer.value(HeaderName::Date, &HttpDate(at.unix)).finish();
}

/// Writes the answer to a request that is refused.
pub fn write_refusal(
    out: &mut impl Output,
    request: &Message<'_>,
    refusal: &Refusal,
    source: SocketAddr,
    to_tag: &str,
) {
    let status = refusal.status();
    let answer = ResponseBuilder::with_reason(out, request, status, refusal.reason(), Some(source))
        .to_tag(to_tag);
    match refusal {
        Refusal::BadExtension(options) => answer.header(HeaderName::Unsupported, options),
        Refusal::ExtensionRequired(option) => answer.header(HeaderName::Require, option),
        Refusal::BadEvent => answer.header(HeaderName::AllowEvents, ALLOW_EVENTS),
        Refusal::IntervalTooBrief(min) => answer.header(HeaderName::MinExpires, seconds(*min)),
        Refusal::UnsupportedMedia(wanted) => answer
            .header(HeaderName::Accept, wanted)
            .header(HeaderName::AcceptEncoding, ACCEPT_ENCODING),
        Refusal::Overloaded(after) | Refusal::LoginPaused(after) => {
            answer.header(HeaderName::RetryAfter, seconds(*after))
        }
        _ => answer,
    }
    .finish();
}

/// The most that a Contact of the answer takes, its GRUU included, which is made of
/// the address of record and a parameter.
pub(super) fn contact_len(contact: &Contact, aor: &str) -> usize {
    let parts = contact.parts();
    parts.uri.len() + 2 * parts.parameters.len() + aor.len() + CONTACT_REST_LEN
}

/// One Contact of the answer, with what is left of its lease.
struct ContactValue<'b> {
    binding: &'b Binding,
    now: Instant,
    /// The address of record whose public GRUU is shown.
    gruu_of: Option<&'b str>,
}

impl HeaderValue for ContactValue<'_> {
    fn write_to(&self, out: &mut impl Output) {
        let contact = &self.binding.contact;
        let [uri, parameters] = contact.shown();
        out.put(b"<");
        out.put_text(uri);
        out.put(b">");
        out.put_text(parameters);
        if let Some(q_milli) = contact.q_milli() {
            out.put_display(format_args!(";q={}", Quality::from_thousandths(q_milli)));
        }
        if let Some(gruu) = self.gruu_of.and_then(|aor| contact.public_gruu(aor)) {
            out.put_display(format_args!(";pub-gruu=\"{gruu}\""));
        }
        out.put(b";expires=");
        out.put_decimal(seconds(self.binding.expires_at - self.now).into());
    }
}

/// How often a device that offers keep-alives sends one over datagrams (RFC 6223): address translations forget a silent flow
/// after 30 s at the earliest, and a device sends a little earlier than it is told (RFC 5626 §4.4).
const KEEP_DATAGRAMS_S: u32 = 30;
/// The bytes that all Contacts of an answer may take: with usual headers the answer
/// then fits into a datagram of at most 65,507 bytes (RFC 3261 §18.1.1). An answer uses
/// the transport of its request (§18.2.2), so an answer over UDP cannot switch to TCP.
pub const CONTACTS_LEN_MAX: usize = 56 << 10;
/// The most that an answer over datagrams may have, over IPv6 as well: a packet of
/// 65,535 bytes less the headers of IP and UDP.
pub const DATAGRAM_LEN_MAX: usize = 65_535 - 40 - 8;
/// `Contact: <>;q=0.123;pub-gruu="";gr=;expires=4294967295` and its line end.
const CONTACT_REST_LEN: usize = 60;

/// The event packages of this server, as `Allow-Events` lists them.
pub const ALLOW_EVENTS: &str = "presence, dialog, message-summary, reg, presence.winfo, \
    dialog.winfo, message-summary.winfo";
