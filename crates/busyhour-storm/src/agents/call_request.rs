//! Writes a caller's requests.

use std::net::SocketAddr;

use crate::plan::call_plan::CallPlan;
use crate::plan::users::StormUsers;
use busyhour_sip::{HeaderName, Method, RequestBuilder};

/// The identities that each request of a call repeats. The same values always give the
/// same bytes, so no message need be stored for a retransmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRequest<'a> {
    pub method: Method<'static>,
    pub call: u32,
    /// The device that is called.
    pub device: u32,
    /// The user that calls.
    pub caller: u32,
    pub cseq: u32,
    /// The number in the branch.
    pub branch: u32,
    /// The value of To; `None` before the device has answered.
    pub to: Option<&'a str>,
    /// The contact that answered, and the value of Route; `None` outside of a dialog.
    pub dialog: Option<(&'a str, &'a str)>,
    pub authorization: Option<&'a str>,
}

impl CallRequest<'_> {
    pub fn write(&self, users: &StormUsers, plan: &CallPlan, local: SocketAddr, out: &mut Vec<u8>) {
        let called = users.aor(self.device);
        let (via, branch) = (
            users.transport.in_via(),
            users.branch(self.call, self.branch),
        );
        let request = match self.dialog {
            Some((target, _)) => RequestBuilder::new(out, self.method, target),
            None => RequestBuilder::new(out, self.method, &called),
        };
        let mut request = request
            .header(
                HeaderName::Via,
                format_args!("SIP/2.0/{via} {local};branch={branch};rport"),
            )
            .header(HeaderName::MaxForwards, 70);
        if let Some((_, route)) = self.dialog.filter(|(_, route)| !route.is_empty()) {
            request = request.header(HeaderName::Route, route);
        }
        let from = users.aor(self.caller);
        request = request.header(
            HeaderName::From,
            format_args!("<{from}>;tag={:08x}c{}", users.run, self.call),
        );
        request = match self.to {
            Some(to) => request.header(HeaderName::To, to),
            None => request.header(HeaderName::To, format_args!("<{called}>")),
        };
        request = request
            .header(HeaderName::CallId, plan.call_id(self.call, self.device))
            .header(
                HeaderName::CSeq,
                format_args!("{} {}", self.cseq, self.method.as_str()),
            );
        if let Some(value) = self.authorization {
            request = request.header(HeaderName::ProxyAuthorization, value);
        }
        if self.method != Method::Invite {
            return request.finish();
        }
        let contact = users.contact(self.caller, local);
        request
            .header(HeaderName::Contact, format_args!("<{contact}>"))
            .body(SDP_TYPE, SDP);
    }
}

pub(crate) const SDP_TYPE: &str = "application/sdp";
/// One stream of audio; nothing is ever sent there.
pub(crate) const SDP: &[u8] = b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\n\
    c=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 8\r\na=sendrecv\r\n";
