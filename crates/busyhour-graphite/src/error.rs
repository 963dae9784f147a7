use thiserror::Error;

/// Why a request got no data: what, where and what to do, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The request itself is wrong (HTTP 400).
    #[error("{0}")]
    Request(String),
    /// The request is well-formed and asks for more than is allowed (HTTP 413).
    #[error("{1}")]
    TooLarge(Limit, String),
    /// A source could not give what it has (HTTP 500).
    #[error("{0}")]
    Source(String),
}

/// The limit that a request went beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Values fetched from sources.
    Points,
    /// Series matched.
    Series,
    /// Seconds between `from` and `until`.
    Range,
    /// Bytes of values and of the answer.
    Memory,
    /// Calls within calls, or the length of an expression.
    Depth,
    /// Time spent.
    Duration,
}

impl Error {
    pub(super) fn request(what: impl Into<String>) -> Self {
        Self::Request(what.into())
    }
}
