//! Reading a PUBLISH (RFC 3903 §6), and writing its answer.

use crate::registrar::{Refusal, check_require, decoded_body};
use crate::watch::{Document, Granted, Package, Unreadable, WatchPolicy};
use busyhour_sip::{HeaderName, Message, Output, ResponseBuilder, Status};
use std::net::SocketAddr;

/// What one PUBLISH asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The event package.
    pub package: Package,
    /// The entity-tag of the publication; `None` begins a new one.
    pub if_match: Option<&'a str>,
    /// Granted lifetime in seconds; zero removes the publication.
    pub granted_s: u32,
    /// The state; `None` leaves the one there is.
    pub document: Option<Document>,
    /// Which request it is: the same number if it is sent again. `None` if it has no name.
    pub request: Option<u64>,
}

impl<'a> Publish<'a> {
    /// Whether it is one of these requests.
    pub(super) fn is_one_of(&self, requests: [Option<u64>; 2]) -> bool {
        self.request.is_some() && requests.contains(&self.request)
    }

    /// Reads the headers and the body that an event state compositor acts on.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadExtension`], [`Refusal::BadEvent`],
    /// [`Refusal::IntervalTooBrief`], [`Refusal::UnsupportedMedia`],
    /// [`Refusal::TooLarge`], and [`Refusal::BadRequest`] when a header or the
    /// body is broken or missing.
    pub fn read(message: &Message<'a>, policy: &WatchPolicy) -> Result<Self, Refusal> {
        check_require(message)?;
        let event = message.event()?.ok_or(Refusal::BadEvent)?;
        let package = Package::from_name(event.package)
            .filter(|package| package.is_published())
            .ok_or(Refusal::BadEvent)?;
        let if_match = if_match(message)?;
        let granted_s = match package {
            // A call may end sooner than any least lifetime, and its end has to be told.
            Package::Dialog => policy.grant_any(message.expires()?),
            _ => policy.grant(message.expires()?),
        };
        let publish = Self {
            package,
            if_match,
            granted_s: granted_s.ok_or(Refusal::IntervalTooBrief(policy.expires_min))?,
            document: document(message, package, policy)?,
            request: request_number(message),
        };
        match (if_match, &publish.document) {
            (None, None) => Err(bad("A New Publication Needs A Body")),
            _ => Ok(publish),
        }
    }
}

/// Writes the 200 to a PUBLISH (RFC 3903 §6, step 6).
pub fn write_published(
    out: &mut impl Output,
    request: &Message<'_>,
    granted: &Granted,
    source: SocketAddr,
    to_tag: &str,
) {
    ResponseBuilder::new(out, request, Status::OK, Some(source))
        .to_tag(to_tag)
        .header(HeaderName::SipEtag, &granted.etag)
        .header(HeaderName::Expires, granted.expires_s)
        .finish();
}

/// Of the Call-ID and CSeq, and of all that it asks for, in case a client counts wrong. It is stored, so it must not depend
/// on the program: FNV-1a.
fn request_number(message: &Message<'_>) -> Option<u64> {
    let (call_id, cseq) = (message.call_id().ok()?, message.cseq().ok()?);
    let cseq = cseq.number.to_be_bytes();
    let texts = [HeaderName::SipIfMatch, HeaderName::Expires].map(|name| message.header(name));
    let texts = texts.map(|text| text.unwrap_or_default());
    let parts = [call_id, texts[0], texts[1]].map(str::as_bytes);
    let parts = parts.into_iter().chain([message.body(), &cseq]);
    let hash = parts.fold(FNV_OFFSET, |hash, part| {
        let bytes = part.iter().chain(&[0]);
        bytes.fold(hash, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
        })
    });
    Some(hash)
}

/// The one entity-tag; a list or anything but a token is malformed.
fn if_match<'a>(message: &Message<'a>) -> Result<Option<&'a str>, Refusal> {
    let mut tags = message.elements(HeaderName::SipIfMatch);
    let is_token = |tag: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
        !tag.is_empty() && tag.bytes().all(plain)
    };
    match (tags.next(), tags.next()) {
        (None, _) => Ok(None),
        (Some(tag), None) if is_token(tag) => Ok(Some(tag)),
        _ => Err(bad("SIP-If-Match Takes One Entity-Tag")),
    }
}

fn document(
    message: &Message<'_>,
    package: Package,
    policy: &WatchPolicy,
) -> Result<Option<Document>, Refusal> {
    if message.body().is_empty() {
        return Ok(None);
    }
    let unsupported = || Refusal::UnsupportedMedia(package.content_type());
    let media = message.content_type()?.ok_or_else(unsupported)?;
    if !media.covers("application", package.subtype()) {
        return Err(unsupported());
    }
    let len_max = policy.publication_len_max;
    let body = decoded_body(message, len_max, package.content_type())?;
    if body.len() > len_max {
        return Err(Refusal::TooLarge);
    }
    let document = Document::read(package, &body, policy.written_len_max());
    document.map(Some).map_err(|Unreadable(reason)| bad(reason))
}

fn bad(reason: &'static str) -> Refusal {
    Refusal::BadRequest(reason.into())
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
