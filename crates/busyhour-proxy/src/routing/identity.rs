//! What belongs to this proxy.

use busyhour_sip::{Host, SipUri};

/// Tells the proxy's own addresses and URIs from others.
pub trait Identity {
    /// Whether messages to this host and port come to this proxy: one of its addresses,
    /// or a domain it is responsible for. No port is the default one.
    fn is_us(&self, host: &Host<'_>, port: Option<u16>) -> bool;

    /// Whether this proxy put this URI into a Record-Route. A proxy whose URIs are signed
    /// checks the signature here.
    fn is_record_route(&self, uri: &SipUri<'_>) -> bool;

    /// Whether the proxy knows an option that a request wants of it in Proxy-Require.
    fn supports(&self, _option: &str) -> bool {
        false
    }
}

impl<T: Identity + ?Sized> Identity for &T {
    fn is_us(&self, host: &Host<'_>, port: Option<u16>) -> bool {
        (**self).is_us(host, port)
    }

    fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
        (**self).is_record_route(uri)
    }

    fn supports(&self, option: &str) -> bool {
        (**self).supports(option)
    }
}
