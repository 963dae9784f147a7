use super::HttpUrl;
use hyper::{HeaderMap, Method, body::Bytes};
use std::time::Duration;

/// A request to another server.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// Who asks.
    pub purpose: HttpPurpose,
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: HttpUrl,
    /// Headers beside `Host`, `Content-Length` and `User-Agent`, which the client sets.
    pub headers: HeaderMap,
    /// The body; may be empty.
    pub body: Bytes,
    /// From the moment at which it is handed over until the whole answer is there.
    pub time_limit: Duration,
    /// The longest body of an answer.
    pub answer_bytes_max: usize,
    /// Whether a status without a whole body says nothing. Otherwise a body that is too long, late or
    /// broken is left out of the answer.
    pub needs_body: bool,
}

/// What requests are for: those of one purpose never wait for those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpPurpose {
    /// Whether somebody's credentials are right.
    Credentials,
    /// Waking devices.
    Push,
    /// Telling others what has changed.
    Webhooks,
    /// Telling a collector how long requests took.
    Spans,
}

impl HttpRequest {
    /// A request with a time limit of ten seconds, and room for an answer of 64 KiB.
    pub fn new(purpose: HttpPurpose, method: Method, url: HttpUrl) -> Self {
        Self {
            purpose,
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            time_limit: Duration::from_secs(10),
            answer_bytes_max: 64 << 10,
            needs_body: false,
        }
    }
}
