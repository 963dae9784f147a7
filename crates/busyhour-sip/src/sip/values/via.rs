//! Via values (RFC 3261 §20.42, RFC 3581).

use std::net::{IpAddr, SocketAddr};

use crate::sip::text::lex::Cursor;
use crate::sip::values::uri::take_port;
use crate::sip::values::via_params::ViaParams;
use crate::sip::{Host, Params};

/// One hop that the message took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// `UDP`, `TCP`, `TLS`, … as written.
    pub transport: &'a str,
    /// Where the hop says that it is.
    pub host: Host<'a>,
    /// The port it says, where one is written.
    pub port: Option<u16>,
    /// `branch`, `rport`, `received` and the others.
    pub params: Params<'a>,
    pub(in crate::sip) read: ViaParams<'a>,
    /// Protocol and sent-by as written.
    pub(in crate::sip) hop_text: &'a str,
}

/// The `rport` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedPort {
    /// `;rport` in a request: answer to the source port.
    Asked,
    /// `;rport=N` in a response.
    Answered(u16),
}

impl<'a> Via<'a> {
    /// Reads one value; `None` when its grammar is broken.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        let transport = take_protocol(&mut cursor)?;
        cursor.skip_space();
        let host = Host::take(&mut cursor)?;
        let port = take_port(&mut cursor)?;
        let (params, read) = ViaParams::parse(cursor.rest())?;
        let hop_text = text.get(..text.len() - cursor.rest().len())?;
        Some(Self {
            transport,
            host,
            port,
            params,
            read,
            hop_text,
        })
    }

    /// The transaction's name (RFC 3261 §8.1.1.7).
    pub fn branch(&self) -> Option<&'a str> {
        self.read.branch
    }

    /// RFC 3581; a value that is not a port counts as `;rport` without a value.
    pub fn rport(&self) -> Option<RequestedPort> {
        let port = self.read.rport?.and_then(|port| port.parse().ok());
        Some(port.map_or(RequestedPort::Asked, RequestedPort::Answered))
    }

    /// The address the next hop saw, IPv6 with or without brackets.
    pub fn received(&self) -> Option<IpAddr> {
        let text = self.params.value("received")?;
        text.trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .ok()
    }

    /// The destination of the response to a request that came from `source` over UDP:
    /// the source port if the Via has `rport` (RFC 3581 §4), otherwise the port of
    /// sent-by at the source address (RFC 3261 §18.2.2). `maddr` is ignored, since with
    /// it anyone could direct our responses at a third party.
    pub fn reply_to(&self, source: SocketAddr) -> SocketAddr {
        match self.rport() {
            Some(_) => source,
            None => SocketAddr::new(source.ip(), self.port.unwrap_or(5060)),
        }
    }

    /// Whether sent-by names `address`.
    pub(in crate::sip) fn is_from(&self, address: IpAddr) -> bool {
        match (self.host, address.to_canonical()) {
            (Host::V4(host), IpAddr::V4(address)) => host == address,
            (Host::V6(host), IpAddr::V6(address)) => host == address,
            _ => false,
        }
    }
}

/// `SIP / 2.0 / transport`, white space allowed around the slashes.
fn take_protocol<'a>(cursor: &mut Cursor<'a>) -> Option<&'a str> {
    cursor.skip_space();
    if cursor.eat_text("SIP/2.0/") {
        cursor.skip_space();
        return cursor.token();
    }
    let protocol = cursor.token()?;
    if !protocol.eq_ignore_ascii_case("SIP") || !cursor.eat_spaced(b'/') {
        return None;
    }
    let version = cursor.token()?;
    if version != "2.0" || !cursor.eat_spaced(b'/') {
        return None;
    }
    cursor.token()
}
