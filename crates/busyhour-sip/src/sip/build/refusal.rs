//! Writes the refusal of a request that was not read (RFC 3261 §8.2.6).

use std::net::SocketAddr;

use crate::sip::build::response::put_status;
use crate::sip::build::top_via::put_read_line;
use crate::sip::{HeaderName, Output, Status, UnreadRequest};

impl UnreadRequest<'_> {
    /// Writes what [`ResponseBuilder`](crate::ResponseBuilder) writes, with `to_tag` in To and
    /// Retry-After in seconds. The request came from `source`.
    pub fn write_refusal(
        &self,
        out: &mut impl Output,
        (status, reason): (Status, &str),
        source: SocketAddr,
        to_tag: &str,
        retry_after_s: u64,
    ) {
        put_status(out, status);
        out.put_text(reason);
        out.put(b"\r\n");
        put_read_line(out, (self.via(), self.via_rest), source.into(), true);
        for line in self.other_vias() {
            out.put_all(&["Via: ", line, "\r\n"]);
        }
        for name in [HeaderName::From, HeaderName::CallId, HeaderName::CSeq] {
            out.put_all(&[name.as_str(), ": ", self.header(name), "\r\n"]);
        }
        out.put_all(&["To: ", self.header(HeaderName::To), ";tag="]);
        out.put_text(to_tag);
        out.put(b"\r\nRetry-After: ");
        out.put_decimal(retry_after_s);
        out.put(b"\r\nContent-Length: 0\r\n\r\n");
    }
}
