use hyper::{HeaderMap, StatusCode, body::Bytes};
use thiserror::Error;

/// What a server has answered, whatever its status. Redirections are not followed.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body; empty if it did not come whole and the request does not need it.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HttpFailure {
    /// There is no HTTP client here, or it cannot be started.
    #[error("there is no HTTP client")]
    Unavailable,
    /// As many requests wait for the host as may.
    #[error("too many requests wait for this host")]
    Full,
    /// The host's name has no address, nobody listens there, or its certificate is not valid.
    #[error("no connection: {0}")]
    Connect(String),
    /// There was no whole answer within the request's time limit.
    #[error("no answer in time")]
    Late,
    /// The body is longer than the request allows.
    #[error("the answer is too long")]
    TooLong,
    /// The connection broke, or what came is not HTTP.
    #[error("broken connection: {0}")]
    Broken(String),
    /// The client was stopped first.
    #[error("the HTTP client was stopped")]
    Stopped,
}
