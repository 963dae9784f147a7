//! The headers in which a request proves who sent it.

use busyhour_sip::{HeaderName, Status};

/// In which headers a request proves who sent it, and how it is asked (RFC 3261 §22.2,
/// §22.3).
#[derive(Clone, Copy)]
pub(super) struct Asking {
    pub(super) credentials: HeaderName,
    pub(super) challenge: HeaderName,
    pub(super) status: Status,
}

/// As the server that a request is for.
pub(super) const AS_SERVER: Asking = Asking {
    credentials: HeaderName::Authorization,
    challenge: HeaderName::WwwAuthenticate,
    status: Status::UNAUTHORIZED,
};
/// As a proxy on its way.
pub(super) const AS_PROXY: Asking = Asking {
    credentials: HeaderName::ProxyAuthorization,
    challenge: HeaderName::ProxyAuthenticate,
    status: Status::PROXY_AUTHENTICATION_REQUIRED,
};
