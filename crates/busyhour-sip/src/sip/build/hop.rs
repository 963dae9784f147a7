//! Requests that belong to a client transaction: CANCEL, and ACK to a refusal.

use crate::sip::{HeaderName, ListIter, Message, Method, Output, Start};

impl Message<'_> {
    /// Writes the ACK to a response of 300 or more to this INVITE, as it was sent; `to`
    /// is the response's To (RFC 3261 §17.1.1.3).
    ///
    /// ```
    /// use busyhour_sip::Message;
    ///
    /// let sent = b"INVITE sip:bob@192.0.2.8 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2\r\n\
    ///     Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\nMax-Forwards: 69\r\nFrom: <sip:a@x>;tag=1\r\n\
    ///     To: <sip:bob@x>\r\nCall-ID: c\r\nCSeq: 7 INVITE\r\nContent-Length: 0\r\n\r\n";
    /// let mut ack = Vec::new();
    /// Message::parse(sent)?.write_ack("<sip:bob@x>;tag=2", &mut ack);
    /// assert_eq!(
    ///     std::str::from_utf8(&ack)?,
    ///     "ACK sip:bob@192.0.2.8 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2\r\n\
    ///      Max-Forwards: 70\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:bob@x>;tag=2\r\nCall-ID: c\r\n\
    ///      CSeq: 7 ACK\r\nContent-Length: 0\r\n\r\n"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_ack(&self, to: &str, out: &mut impl Output) {
        self.put_hop_request(Method::Ack, to, &[], out);
    }

    /// Writes the CANCEL of this request, as it was sent (RFC 3261 §9.1), with values of
    /// Reason (RFC 3326).
    pub fn write_cancel(&self, reasons: &[&str], out: &mut impl Output) {
        let to = self.header(HeaderName::To).unwrap_or("");
        self.put_hop_request(Method::Cancel, to, reasons, out);
    }

    /// A request with the same Request-URI, topmost Via, Route, From, Call-ID and number.
    fn put_hop_request(
        &self,
        method: Method<'_>,
        to: &str,
        reasons: &[&str],
        out: &mut impl Output,
    ) {
        let (Start::Request { uri, .. }, Ok(cseq)) = (self.start(), self.cseq()) else {
            return;
        };
        out.put_all(&[method.as_str(), " ", uri, " SIP/2.0\r\n"]);
        let top = self.header(HeaderName::Via).unwrap_or("");
        out.put_header("Via", ListIter::new(top).next().unwrap_or(""));
        out.put_all(&["Max-Forwards: ", MAX_FORWARDS, "\r\n"]);
        self.copy_lines(HeaderName::Route, out);
        self.copy_lines(HeaderName::From, out);
        out.put_header("To", to);
        self.copy_lines(HeaderName::CallId, out);
        out.put(b"CSeq: ");
        out.put_decimal(cseq.number.into());
        out.put_all(&[" ", method.as_str(), "\r\n"]);
        for reason in reasons {
            out.put_header("Reason", reason);
        }
        out.put(b"Content-Length: 0\r\n\r\n");
    }

    fn copy_lines(&self, name: HeaderName, out: &mut impl Output) {
        for value in self.headers(name) {
            out.put_header(name.as_str(), value);
        }
    }
}

/// RFC 3261 §8.1.1.6.
const MAX_FORWARDS: &str = "70";
