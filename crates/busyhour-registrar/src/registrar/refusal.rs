//! Why a request is refused, and the status of the answer.

#[cfg(doc)]
use busyhour_sip::ACCEPT_ENCODING;
use busyhour_sip::{BodyEncodingError, Host, Message, ParseError, Status};
use std::{borrow::Cow, time::Duration};

/// A request that changes nothing, and the answer that says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// 400: the request breaks a rule; the text stands in the reason phrase.
    BadRequest(Cow<'static, str>),
    /// 403: not in our domains, or not allowed.
    Forbidden(&'static str),
    /// 403: as many contacts live as may.
    TooManyContacts,
    /// 404: no such address of record here.
    NotFound,
    /// 404: the domain of the address of record is not ours; the text, which names it, stands in
    /// the reason phrase. [`not_served`](Self::not_served) makes one.
    NotServed(Box<str>),
    /// 406: no body that we can send is accepted.
    NotAcceptable,
    /// 412: the entity-tag is not the last one of a publication that lives.
    ConditionFailed,
    /// 413: the body is longer than is taken.
    TooLarge,
    /// 513: it names more hops or longer addresses than the server stores.
    TooLongToKeep,
    /// 513: the contacts would not fit into the answer together.
    TooLongToAnswer,
    /// 415: the body must be of this type, and either not encoded or as [`ACCEPT_ENCODING`] says.
    UnsupportedMedia(&'static str),
    /// 416: the scheme of the address of record is not SIP.
    UnsupportedScheme,
    /// 420: these options of Require are unknown.
    BadExtension(String),
    /// 421: it can be had only by those who support this option.
    ExtensionRequired(&'static str),
    /// 423: the wish is shorter than this.
    IntervalTooBrief(Duration),
    /// 439: the device wants its flow kept, and the first proxy on its way does not.
    FirstHopLacksOutbound,
    /// 480: as many publications live as may.
    TooManyPublications,
    /// 480: nobody can be reached there now; the text says why.
    Unavailable(&'static str),
    /// 481: no such dialog, or not through us.
    NoDialog,
    /// 481: no such subscription, or no longer.
    NoSubscription,
    /// 489: an event package that we do not support.
    BadEvent,
    /// 500: an older request of the same Call-ID came after a newer one.
    OutOfOrder,
    /// 555: the contact names a service for push notifications that is not known here (RFC 8599).
    PushNotSupported,
    /// 503: no room, try again later.
    Overloaded(Duration),
    /// 503: too many wrong passwords, try again later. Not 403: many phones take that
    /// as final, but this request may have the right password.
    LoginPaused(Duration),
}

impl Refusal {
    /// The refusal of an address of record in this domain. A long name is cut.
    ///
    /// ```
    /// use busyhour_registrar::Refusal;
    /// use busyhour_sip::Host;
    ///
    /// let refusal = Refusal::not_served(&Host::Name("pbx.example"));
    /// assert_eq!(refusal.reason(), "Domain pbx.example Not Served Here");
    /// assert_eq!(refusal.status().code(), 404);
    /// ```
    pub fn not_served(domain: &Host<'_>) -> Self {
        let domain: String = domain.to_string().chars().take(DOMAIN_LEN_MAX).collect();
        Self::NotServed(format!("Domain {domain} Not Served Here").into())
    }

    /// The status of the answer.
    pub fn status(&self) -> Status {
        match self {
            Self::BadRequest(_) => Status::BAD_REQUEST,
            Self::Forbidden(_) | Self::TooManyContacts => Status::FORBIDDEN,
            Self::NotFound | Self::NotServed(_) => Status::NOT_FOUND,
            Self::NotAcceptable => Status::NOT_ACCEPTABLE,
            Self::ConditionFailed => Status::CONDITIONAL_REQUEST_FAILED,
            Self::TooLarge => Status::REQUEST_ENTITY_TOO_LARGE,
            Self::TooLongToKeep | Self::TooLongToAnswer => Status::MESSAGE_TOO_LARGE,
            Self::UnsupportedMedia(_) => Status::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyPublications | Self::Unavailable(_) => Status::TEMPORARILY_UNAVAILABLE,
            Self::NoDialog | Self::NoSubscription => Status::CALL_DOES_NOT_EXIST,
            Self::BadEvent => Status::BAD_EVENT,
            Self::UnsupportedScheme => Status::UNSUPPORTED_URI_SCHEME,
            Self::BadExtension(_) => Status::BAD_EXTENSION,
            Self::ExtensionRequired(_) => Status::EXTENSION_REQUIRED,
            Self::IntervalTooBrief(_) => Status::INTERVAL_TOO_BRIEF,
            Self::FirstHopLacksOutbound => Status::FIRST_HOP_LACKS_OUTBOUND,
            Self::OutOfOrder => Status::SERVER_INTERNAL_ERROR,
            Self::Overloaded(_) | Self::LoginPaused(_) => Status::SERVICE_UNAVAILABLE,
            Self::PushNotSupported => Status::PUSH_NOT_SUPPORTED,
        }
    }

    /// The reason phrase of the answer.
    pub fn reason(&self) -> &str {
        match self {
            Self::BadRequest(reason) => reason,
            Self::NotServed(reason) => reason,
            Self::Forbidden(reason) | Self::Unavailable(reason) => reason,
            Self::NoSubscription => "Subscription Does Not Exist",
            Self::TooManyContacts => "Too Many Contacts",
            Self::TooManyPublications => "Too Many Publications",
            Self::TooLongToAnswer => "Contacts Exceed A Datagram",
            Self::OutOfOrder => "CSeq Out Of Order",
            Self::LoginPaused(_) => "Too Many Wrong Passwords",
            other => other.status().reason(),
        }
    }
}

/// The body of a request that is taken if it is of this type, decoded if it is encoded.
///
/// # Errors
///
/// [`Refusal::UnsupportedMedia`] if the encoding is unknown, [`Refusal::TooLarge`] if it becomes longer than
/// `len_max` bytes, and [`Refusal::BadRequest`] if it is broken.
///
/// ```
/// use busyhour_registrar::{Refusal, decoded_body};
/// use busyhour_sip::Message;
///
/// let publish = "PUBLISH sip:alice@example.com SIP/2.0\r\nContent-Encoding: br\r\n\r\nbody";
/// let publish = Message::parse(publish.as_bytes()).unwrap();
/// let body = decoded_body(&publish, 4096, "application/pidf+xml");
/// assert_eq!(body, Err(Refusal::UnsupportedMedia("application/pidf+xml")));
/// ```
pub fn decoded_body<'a>(
    message: &Message<'a>,
    len_max: usize,
    content_type: &'static str,
) -> Result<Cow<'a, [u8]>, Refusal> {
    let body = message.decoded_body(len_max);
    body.map_err(|error| match error {
        BodyEncodingError::Unsupported => Refusal::UnsupportedMedia(content_type),
        BodyEncodingError::TooLong => Refusal::TooLarge,
        BodyEncodingError::Broken => Refusal::BadRequest(error.to_string().into()),
    })
}

impl From<ParseError> for Refusal {
    fn from(error: ParseError) -> Self {
        Self::BadRequest(error.to_string().into())
    }
}

/// No DNS name is longer than 253 characters, and nobody reads so long a reason.
const DOMAIN_LEN_MAX: usize = 100;
