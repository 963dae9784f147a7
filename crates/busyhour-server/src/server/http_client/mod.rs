//! The interface to an HTTP client: parts of the server that ask other servers hand requests
//! over and are called back.

mod answer;
pub(in crate::server) mod breaker;
mod client_stats;
mod request;
mod url;

pub use answer::{HttpAnswer, HttpFailure};
pub use client_stats::HttpClientStats;
pub use request::{HttpPurpose, HttpRequest};
pub use url::{HttpUrl, HttpUrlMistake};

/// Sends requests over HTTP; the machine's sockets, or a simulation's.
pub trait HttpClient: Send + Sync {
    /// Hands a request over. Never blocks, and never calls `listener` before it returns.
    ///
    /// Requests of one [purpose](HttpPurpose) to one host wait for each other only: a host that
    /// answers slowly, or nobody at all, delays no others.
    ///
    /// # Errors
    ///
    /// When too many requests of this purpose wait for the host, or when there is no client;
    /// then `listener` is dropped without having been called.
    fn send(&self, request: HttpRequest, listener: HttpListener) -> Result<(), HttpFailure>;

    /// The counters; empty for a client that does not count.
    fn stats(&self) -> HttpClientStats {
        HttpClientStats::default()
    }
}

/// What is called once with what became of a request, on the client's thread. It must not block:
/// it hands the answer to a serializer. A panic in it ends nothing else.
pub type HttpListener = Box<dyn FnOnce(Result<HttpAnswer, HttpFailure>) + Send>;

/// No client: every request is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHttpClient;

impl HttpClient for NoHttpClient {
    fn send(&self, _request: HttpRequest, _listener: HttpListener) -> Result<(), HttpFailure> {
        Err(HttpFailure::Unavailable)
    }
}
