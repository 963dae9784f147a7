//! Writes a device's REGISTER.

use std::net::SocketAddr;

use crate::plan::users::StormUsers;
use busyhour_sip::{HeaderName, Method, RequestBuilder};

/// One REGISTER of one device. The same values always give the same bytes, so
/// the message need not be stored for a retransmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register<'a> {
    pub index: u32,
    pub cseq: u32,
    pub expires_s: u64,
    pub authorization: Option<&'a str>,
}

impl Register<'_> {
    pub fn write(&self, users: &StormUsers, local: SocketAddr, out: &mut Vec<u8>) {
        let Self { index, cseq, .. } = *self;
        let aor = users.aor(index);
        let request =
            RequestBuilder::new(out, Method::Register, format_args!("sip:{}", users.domain))
                .header(
                    HeaderName::Via,
                    format_args!(
                        "SIP/2.0/{} {local};branch={};rport",
                        users.transport.in_via(),
                        users.branch(index, cseq)
                    ),
                )
                .header(HeaderName::MaxForwards, 70)
                .header(
                    HeaderName::From,
                    format_args!("<{aor}>;tag={:08x}{index}", users.run),
                )
                .header(HeaderName::To, format_args!("<{aor}>"))
                .header(HeaderName::CallId, users.call_id(index))
                .header(HeaderName::CSeq, format_args!("{cseq} REGISTER"))
                .header(
                    HeaderName::Contact,
                    format_args!("<{}>", users.contact(index, local)),
                )
                .header(HeaderName::Expires, self.expires_s)
                .header(HeaderName::UserAgent, USER_AGENT);
        match self.authorization {
            Some(value) => request.header(HeaderName::Authorization, value).finish(),
            None => request.finish(),
        }
    }
}

const USER_AGENT: &str = concat!("busyhour-storm/", env!("CARGO_PKG_VERSION"));
