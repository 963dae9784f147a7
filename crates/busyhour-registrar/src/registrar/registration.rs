//! Reads a REGISTER: what its headers request, before any binding changes.

use super::{
    Extensions, FlowKey, Refusal,
    outbound::{GRUU, OUTBOUND},
    sips,
};
use busyhour_sip::Flow;
use busyhour_sip::{ContactIter, ContactText, Contacts, HeaderName, Message, ParseError};
use std::{borrow::Cow, fmt::Write};

/// The wishes of one REGISTER.
#[derive(Debug, Clone)]
pub struct Registration<'a> {
    /// Canonical address of record.
    pub aor: &'a str,
    /// Its Call-ID.
    pub call_id: &'a str,
    /// Its CSeq number.
    pub cseq: u32,
    /// What it asks for.
    pub wish: ContactRequest<'a>,
    /// The Path header values, comma separated.
    pub path: Cow<'a, str>,
    /// The User-Agent header, empty when there was none.
    pub user_agent: &'a str,
    /// What it asks of outbound and GRUU.
    pub extensions: Extensions,
    /// Which way it came.
    pub flow: Flow,
}

/// What a REGISTER asks for.
#[derive(Debug, Clone)]
pub enum ContactRequest<'a> {
    /// No Contact: tell the bindings.
    Query,
    /// `Contact: *` with `Expires: 0`: remove every binding.
    RemoveAll,
    /// Add, refresh or remove these contacts.
    Update(Vec<RequestedContact<'a>>),
}

/// The wish for one contact.
#[derive(Debug, Clone)]
pub struct RequestedContact<'a> {
    /// The contact URI as written.
    pub uri: &'a str,
    /// Parameters other than `q` and `expires`, each with its leading semicolon.
    pub parameters: String,
    /// Preference in thousandths.
    pub q_milli: Option<u16>,
    /// With outbound, the key that identifies the binding instead of the URI.
    pub key: Option<FlowKey<'a>>,
    /// Lifetime in seconds: its own `expires`, else the Expires header.
    pub expires_s: Option<u32>,
}

impl<'a> Registration<'a> {
    /// Reads the headers that a registrar acts on (RFC 3261 §10.3, steps 2 and 6).
    ///
    /// # Errors
    ///
    /// [`Refusal::BadExtension`] when Require names something unknown,
    /// [`Refusal::FirstHopLacksOutbound`], and
    /// [`Refusal::BadRequest`] when a header is missing, repeated or broken,
    /// `*` stands without `Expires: 0`, or a SIPS contact came an unsafe way.
    pub fn read(message: &Message<'a>, aor: &'a str, flow: Flow) -> Result<Self, Refusal> {
        check_require(message)?;
        let mut wish = ContactRequest::read(message)?;
        sips::check(message, wish.contacts(), flow)?;
        let extensions = Extensions::read(message, wish.contacts())?;
        if !extensions.outbound {
            wish.forget_keys();
        }
        Ok(Self {
            aor,
            call_id: message.call_id()?,
            cseq: message.cseq()?.number,
            wish,
            extensions,
            path: path(message)?,
            user_agent: message.header(HeaderName::UserAgent).unwrap_or(""),
            flow,
        })
    }
}

impl<'a> ContactRequest<'a> {
    fn read(message: &Message<'a>) -> Result<Self, Refusal> {
        let expires_s = message.expires()?;
        if let Some(only) = message.only_contact() {
            return Ok(Self::Update(vec![RequestedContact::read(&only, expires_s)]));
        }
        match message.contacts()? {
            Contacts::Star if expires_s == Some(0) => Ok(Self::RemoveAll),
            Contacts::Star => Err(Refusal::BadRequest(STAR_NEEDS_ZERO.into())),
            Contacts::List(contacts) => Self::list(contacts, expires_s),
        }
    }

    fn contacts(&self) -> &[RequestedContact<'a>] {
        match self {
            Self::Update(wishes) => wishes,
            Self::Query | Self::RemoveAll => &[],
        }
    }

    /// Without outbound the URI identifies a contact (RFC 3261 §10.3).
    /// The URIs of the contacts that are named.
    pub fn uris(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.contacts().iter().map(|contact| contact.uri)
    }

    fn forget_keys(&mut self) {
        if let Self::Update(wishes) = self {
            wishes.iter_mut().for_each(|wish| wish.key = None);
        }
    }

    fn list(contacts: ContactIter<'_, 'a>, expires_s: Option<u32>) -> Result<Self, Refusal> {
        let wishes: Result<Vec<_>, Refusal> = contacts
            .map(|contact| Ok(RequestedContact::read(&contact?.text(), expires_s)))
            .collect();
        let wishes = wishes?;
        Ok(match wishes.is_empty() {
            true => Self::Query,
            false => Self::Update(wishes),
        })
    }
}

impl<'a> RequestedContact<'a> {
    /// Whether it is to live: a removal requests a lifetime of zero.
    pub(super) fn is_living(&self) -> bool {
        self.expires_s != Some(0)
    }

    fn read(contact: &ContactText<'a>, expires_s: Option<u32>) -> Self {
        Self {
            uri: contact.uri,
            parameters: parameters(contact),
            key: FlowKey::of(&contact.params),
            q_milli: contact.q.map(|q| q.thousandths()),
            expires_s: contact.expires().or(expires_s),
        }
    }
}

/// Whether all that Require names is known (RFC 3261 §8.2.2.3).
///
/// # Errors
///
/// [`Refusal::BadExtension`] with the unknown options, [`Refusal::BadRequest`] if it
/// names something that cannot be an option.
pub fn check_require(message: &Message<'_>) -> Result<(), Refusal> {
    check_require_beside(message, &[])
}

/// As [`check_require`], where the method has options of its own.
pub(crate) fn check_require_beside(message: &Message<'_>, own: &[&str]) -> Result<(), Refusal> {
    if message.header(HeaderName::Require).is_none() {
        return Ok(());
    }
    for option in message.elements(HeaderName::Require) {
        if !is_token(option) {
            return Err(ParseError::Malformed(HeaderName::Require).into());
        }
    }
    let unknown: Vec<_> = message
        .elements(HeaderName::Require)
        .filter(|option| {
            let mut known = SUPPORTED.iter().chain(own);
            !known.any(|known| known.eq_ignore_ascii_case(option))
        })
        .collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(Refusal::BadExtension(unknown.join(", "))),
    }
}

fn path<'a>(message: &Message<'a>) -> Result<Cow<'a, str>, Refusal> {
    if message.header(HeaderName::Path).is_none() {
        return Ok(Cow::Borrowed(""));
    }
    for route in message.routes(HeaderName::Path) {
        route?;
    }
    let mut lines = message.headers(HeaderName::Path);
    Ok(match (lines.next(), lines.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) if !only.contains(FOLD) => Cow::Borrowed(only),
        _ => {
            let all: Vec<_> = message.headers(HeaderName::Path).collect();
            Cow::Owned(all.join(", ").replace(FOLD, " "))
        }
    })
}

/// The parameters to repeat in answers, quoted where the value needs it.
fn parameters(contact: &ContactText<'_>) -> String {
    let mut text = String::new();
    for (name, value) in contact.params.iter() {
        if !OF_THE_LEASE
            .iter()
            .any(|own| own.eq_ignore_ascii_case(name))
        {
            push_parameter(&mut text, name, value);
        }
    }
    text
}

fn push_parameter(text: &mut String, name: &str, value: Option<&str>) {
    // Writing to a String can't fail.
    let _ = match value {
        None => write!(text, ";{name}"),
        Some(value) if is_token(value) => write!(text, ";{name}={value}"),
        Some(value) => write!(text, ";{name}=\"{}\"", value.replace(FOLD, " ")),
    };
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~[]:".contains(&byte)
}

/// Options that may stand in Require (RFC 3327, RFC 5626, RFC 5627).
pub const SUPPORTED: [&str; 3] = ["path", OUTBOUND, GRUU];
/// The option of those who can be told the states of a list (RFC 4662 §4.2).
pub const EVENTLIST: &str = "eventlist";
/// The option of a SUBSCRIBE that brings its list with it (RFC 5367 §4).
pub const RECIPIENT_LIST: &str = "recipient-list-subscribe";
/// Parameters that belong to the lease, or that we write, and not to the contact.
const OF_THE_LEASE: [&str; 4] = ["q", "expires", "pub-gruu", "temp-gruu"];
/// Line ends that may stand in a value that was folded.
const FOLD: [char; 2] = ['\r', '\n'];
const STAR_NEEDS_ZERO: &str = "Contact: * Needs Expires: 0";
