//! OPTIONS that ask whether somebody is there.

use busyhour_sip::{HeaderName, Method, RequestBuilder, Transport};
use std::net::SocketAddr;

/// Writes an OPTIONS outside of any dialog (RFC 3261 §11.1). Any response is a sign of life, even
/// an error. `name` tells it from all others.
pub(in crate::server) fn write_options(
    out: &mut Vec<u8>,
    uri: &str,
    (transport, ours): (Transport, SocketAddr),
    branch: &str,
    name: &str,
) {
    RequestBuilder::new(out, Method::Options, uri)
        .header(
            HeaderName::Via,
            format_args!("SIP/2.0/{transport} {ours};branch={branch}{name};rport"),
        )
        .header(HeaderName::MaxForwards, 70)
        .header(HeaderName::From, format_args!("<sip:{ours}>;tag={name}"))
        .header(HeaderName::To, format_args!("<{uri}>"))
        .header(HeaderName::CallId, name)
        .header(HeaderName::CSeq, "1 OPTIONS")
        .header(
            HeaderName::Contact,
            format_args!("<sip:{ours}{}>", transport.uri_suffix()),
        )
        .finish();
}
