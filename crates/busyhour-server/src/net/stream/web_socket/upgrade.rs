//! The HTTP request that opens a WebSocket (RFC 6455 §4.2, RFC 7118 §4.1).

use super::Origins;
use tungstenite::{
    Error,
    error::ProtocolError,
    handshake::{
        machine::TryParse,
        server::{Request, create_response, write_response},
    },
    http::{HeaderMap, HeaderValue, header},
};

/// What the beginning of a connection for WebSockets is.
pub(super) enum Upgrade {
    /// More of the request has to come.
    Incomplete,
    /// A WebSocket from now on: so many bytes were the request, and this answers it.
    Opened { bytes: usize, answer: Vec<u8> },
    /// No WebSocket; this answers, and says why.
    Refused { answer: Vec<u8> },
}

impl Upgrade {
    /// Reads a request that begins with `bytes`.
    pub fn read(bytes: &[u8], origins: &Origins) -> Self {
        let head = bytes.get(..REQUEST_LEN_MAX).unwrap_or(bytes);
        match Request::try_parse(head) {
            Ok(Some((bytes, request))) => answer(&request, origins)
                .map_or_else(|refusal| refusal, |answer| Self::Opened { bytes, answer }),
            Ok(None) if bytes.len() < REQUEST_LEN_MAX => Self::Incomplete,
            Ok(None) => refuse("431 Request Header Fields Too Large", "too many headers"),
            Err(Error::Protocol(ProtocolError::WrongHttpMethod)) => not_upgraded(),
            Err(_) => refuse("400 Bad Request", "not a request of HTTP/1.1"),
        }
    }
}

/// The answer that opens the WebSocket.
fn answer(request: &Request, origins: &Origins) -> Result<Vec<u8>, Upgrade> {
    let headers = request.headers();
    if !headers.contains_key(header::UPGRADE) {
        return Err(not_upgraded());
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if !origins.allow(text(header::ORIGIN), text(header::HOST)) {
        let why = "sip.ws_origins does not list the origin of this page";
        return Err(refuse("403 Forbidden", why));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION) != Some(&HeaderValue::from_static("13")) {
        let status = "426 Upgrade Required\r\nSec-WebSocket-Version: 13";
        return Err(refuse(status, "the version of the WebSocket has to be 13"));
    }
    if !offers_sip(headers) {
        let why = "Sec-WebSocket-Protocol has to offer sip (RFC 7118)";
        return Err(refuse("400 Bad Request", why));
    }
    let bad = |error: Error| refuse("400 Bad Request", &error.to_string());
    let mut response = create_response(request).map_err(bad)?;
    let chosen = HeaderValue::from_static(SIP);
    response
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_PROTOCOL, chosen);
    let mut answer = Vec::with_capacity(160);
    write_response(&mut answer, &response).map_err(bad)?;
    Ok(answer)
}

fn offers_sip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut offered = lines.flat_map(|line| line.to_str().unwrap_or("").split(','));
    offered.any(|protocol| protocol.trim().eq_ignore_ascii_case(SIP))
}

/// Somebody looks whether the port lives, or has taken it for the dashboard's.
fn not_upgraded() -> Upgrade {
    let status = "426 Upgrade Required\r\nUpgrade: websocket";
    refuse(status, "SIP is spoken here over WebSocket (RFC 7118)")
}

/// `status` may have headers behind it.
fn refuse(status: &str, why: &str) -> Upgrade {
    let len = why.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\n\
         Content-Length: {len}\r\n\r\n{why}\n"
    );
    Upgrade::Refused {
        answer: answer.into(),
    }
}

/// The subprotocol of RFC 7118.
const SIP: &str = "sip";
/// Browsers send half a kilobyte, and cookies of a shared host.
pub(super) const REQUEST_LEN_MAX: usize = 8 << 10;
