//! A REGISTER to a registrar behind, and what its answer says.

use busyhour_registrar::upstream::{UpstreamAnswer, UpstreamAsk};
use busyhour_registrar::user_of;
use busyhour_sip::{
    Contacts, DigestChallenge, Flow, HeaderName, Message, Method, RequestBuilder, SipUri,
    Transport,
    auth::{Answer, Secret},
};
use std::{net::SocketAddr, sync::Arc};

/// A REGISTER for one address of record.
pub(super) struct RegisterRequest<'a> {
    pub(super) aor: &'a str,
    pub(super) ask: UpstreamAsk,
    /// Where our side is, as it is named to the registrar, and over which transport.
    pub(super) ours: SocketAddr,
    pub(super) transport: Transport,
    /// The place of the registrar in the configuration.
    pub(super) registrar: usize,
    pub(super) number: u64,
    pub(super) cseq: u32,
    /// Tells the Call-IDs of this run from those of others, whose CSeq is not known any more.
    pub(super) run: u64,
    pub(super) credentials: Option<(HeaderName, String)>,
}

impl RegisterRequest<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Self {
            aor,
            ours,
            transport,
            number,
            ..
        } = *self;
        let (user, domain) = (user_of(aor), domain_of(aor));
        let (registrar, run, cseq) = (self.registrar, self.run, self.cseq);
        let over = transport.uri_suffix();
        let via = format_args!(
            "SIP/2.0/{transport} {ours};branch={BRANCH}{registrar:02x}{number:016x};rport"
        );
        let request = RequestBuilder::new(out, Method::Register, format_args!("sip:{domain}"))
            .header(HeaderName::Via, via)
            .header(HeaderName::MaxForwards, 70)
            .header(HeaderName::From, format_args!("<{aor}>;tag={number:x}"))
            .header(HeaderName::To, format_args!("<{aor}>"))
            .header(
                HeaderName::CallId,
                format_args!("bh-{run:x}-{user}@{domain}"),
            )
            .header(HeaderName::CSeq, format_args!("{cseq} REGISTER"))
            .header(HeaderName::Supported, "path");
        let expires_s = match self.ask {
            UpstreamAsk::Register(expires_s) => Some(expires_s),
            UpstreamAsk::End => Some(0),
            UpstreamAsk::Query => None,
        };
        let request = match expires_s {
            Some(expires_s) => {
                let contact =
                    format_args!("<sip:{user}@{ours}{over};{DOMAIN}={domain}>;expires={expires_s}");
                // What is for the contact comes to us by its Path, whatever else the registrar knows of
                // the address in it (RFC 3327).
                let path = format_args!("<sip:{ours}{over};lr>");
                let request = request.header(HeaderName::Path, path);
                let request = request.header(HeaderName::Contact, contact);
                request.header(HeaderName::Expires, expires_s)
            }
            None => request,
        };
        match &self.credentials {
            Some((name, value)) => request.header(*name, value),
            None => request,
        }
        .finish();
    }
}

/// The registrar and the number of a request, by the branch of its answer.
pub(super) fn names_of(response: &Message<'_>) -> Option<(usize, u64)> {
    let via = response.via().ok()?;
    let rest = via.branch()?.strip_prefix(BRANCH)?;
    let (registrar, number) = (rest.get(..2)?, rest.get(2..)?);
    Some((
        usize::from_str_radix(registrar, 16).ok()?,
        u64::from_str_radix(number, 16).ok()?,
    ))
}

/// What a final answer about an address says.
pub(super) fn read_answer(response: &Message<'_>, status: u16, aor: &str) -> UpstreamAnswer {
    let granted = granted(response, aor);
    let of_header = response.expires().ok().flatten();
    let retry_after = response.header(HeaderName::RetryAfter);
    UpstreamAnswer {
        status,
        is_listed: granted.is_some(),
        expires_s: granted.flatten().or(of_header),
        min_expires_s: response.min_expires().ok().flatten(),
        retry_after_s: retry_after
            .and_then(|text| text.split([' ', ';', '(']).next()?.parse().ok()),
        is_challenge: false,
        service_route: (200..300)
            .contains(&status)
            .then(|| service_route(response))
            .flatten(),
    }
}

/// The values of Route for requests of an address (RFC 3608 §5); nothing if one of them cannot be
/// a route, or all are longer than is kept.
fn service_route(response: &Message<'_>) -> Option<Arc<str>> {
    let mut values = String::new();
    for route in response.routes(HeaderName::ServiceRoute) {
        let uri = route.ok().filter(|uri| uri.param("lr").is_some())?;
        let separator = if values.is_empty() { "" } else { ", " };
        values.push_str(&format!("{separator}<{}>", uri.text));
    }
    (1..=SERVICE_ROUTE_LEN_MAX)
        .contains(&values.len())
        .then(|| values.into())
}

/// The credentials that answer a challenge.
pub(super) fn credentials(
    response: &Message<'_>,
    status: u16,
    (user, secret, hashed_for): (&str, &Secret, &str),
    (domain, client_nonce): (&str, &str),
) -> Option<(HeaderName, String)> {
    let (challenges, answers) = match status {
        401 => (HeaderName::WwwAuthenticate, HeaderName::Authorization),
        407 => (
            HeaderName::ProxyAuthenticate,
            HeaderName::ProxyAuthorization,
        ),
        _ => return None,
    };
    let uri = format!("sip:{domain}");
    response.headers(challenges).find_map(|value| {
        let challenge = DigestChallenge::parse(value).flatten()?;
        let answer = Answer::of_secret(&challenge, user, (secret, hashed_for), "REGISTER", &uri)?;
        Some((answers, answer.counted(1, client_nonce).to_string()))
    })
}

/// The address of record that a contact of ours stands for.
pub(super) fn called_by(flow: Flow, called: &SipUri<'_>, registrar: SocketAddr) -> Option<String> {
    let domain = called.param(DOMAIN)??;
    let is_its = registrar.ip() == flow.remote.ip();
    let user = called.user.filter(|_| is_its)?;
    Some(format!("sip:{user}@{domain}"))
}

pub(super) fn domain_of(aor: &str) -> &str {
    aor.rsplit_once('@').map_or("", |(_, domain)| domain)
}

/// The lifetime of our contact, where it is listed.
fn granted(response: &Message<'_>, aor: &str) -> Option<Option<u32>> {
    let (user, domain) = (user_of(aor), domain_of(aor));
    let Ok(Contacts::List(contacts)) = response.contacts() else {
        return None;
    };
    contacts.flatten().find_map(|contact| {
        let uri = contact.address.uri.as_sip()?;
        let is_ours = uri.user == Some(user) && uri.param(DOMAIN) == Some(Some(domain));
        is_ours.then(|| contact.expires())
    })
}

/// Three long URIs.
const SERVICE_ROUTE_LEN_MAX: usize = 1_024;
const BRANCH: &str = "z9hG4bKbhup";
/// The parameter of our contacts that says in which domain their user is.
const DOMAIN: &str = "bh-domain";
