//! Why a registration is refused, and with which answer.

use crate::proto::sip::{ParseError, Status};
use std::{borrow::Cow, time::Duration};

/// A registration that changes nothing, and the answer that says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// 400: the request breaks a rule; the text stands in the reason phrase.
    BadRequest(Cow<'static, str>),
    /// 403: none of ours, or not allowed.
    Forbidden(&'static str),
    /// 404: no such address of record here.
    NotFound,
    /// 416: the scheme of the address of record is not SIP.
    UnsupportedScheme,
    /// 420: these options of Require are unknown.
    BadExtension(String),
    /// 423: the wish is shorter than this.
    IntervalTooBrief(Duration),
    /// 500: an older registration of the same Call-ID came after a newer one.
    OutOfOrder,
    /// 503: no room, try again later.
    Overloaded(Duration),
}

impl Refusal {
    /// The status of the answer.
    pub fn status(&self) -> Status {
        match self {
            Self::BadRequest(_) => Status::BAD_REQUEST,
            Self::Forbidden(_) => Status::FORBIDDEN,
            Self::NotFound => Status::NOT_FOUND,
            Self::UnsupportedScheme => Status::UNSUPPORTED_URI_SCHEME,
            Self::BadExtension(_) => Status::BAD_EXTENSION,
            Self::IntervalTooBrief(_) => Status::INTERVAL_TOO_BRIEF,
            Self::OutOfOrder => Status::SERVER_INTERNAL_ERROR,
            Self::Overloaded(_) => Status::SERVICE_UNAVAILABLE,
        }
    }

    /// The reason phrase of the answer.
    pub fn reason(&self) -> &str {
        match self {
            Self::BadRequest(reason) => reason,
            Self::Forbidden(reason) => reason,
            Self::OutOfOrder => "CSeq Out Of Order",
            other => other.status().reason(),
        }
    }
}

impl From<ParseError> for Refusal {
    fn from(error: ParseError) -> Self {
        Self::BadRequest(error.to_string().into())
    }
}
