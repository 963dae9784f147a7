//! HEP version 3, in which a capture server such as Homer receives copies of messages
//! (Homer Encapsulation Protocol, sipcapture.org, revision 12).
//!
//! A packet is `HEP3`, its length, and chunks: vendor, type, length, value. All numbers are
//! in network order. The length is a number of 16 bits, so a long message does not fit.

use crate::{Flow, Transport};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// A copy of a message for a capture server.
///
/// ```
/// use busyhour_sip::{Flow, hep::HepPacket};
/// use std::time::Duration;
///
/// let flow = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
/// let packet = HepPacket {
///     source: flow.remote,
///     destination: flow.local,
///     transport: flow.transport,
///     since_1970: Duration::from_micros(1_700_000_000_000_001),
///     capture_id: 2001,
///     password: "",
///     correlation_id: "call",
///     payload: b"OPTIONS sip:192.0.2.1 SIP/2.0\r\n\r\n",
/// };
/// let mut bytes = Vec::new();
/// packet.write(&mut bytes).unwrap();
/// assert!(bytes.starts_with(b"HEP3"));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HepPacket<'a> {
    /// Who sent the message.
    pub source: SocketAddr,
    /// Who it was sent to.
    pub destination: SocketAddr,
    /// What carried it.
    pub transport: Transport,
    /// When.
    pub since_1970: Duration,
    /// The number of the program that has captured it.
    pub capture_id: u32,
    /// The password for the capture server; empty for none.
    pub password: &'a str,
    /// What messages of one dialog have in common: the Call-ID. Empty for nothing.
    pub correlation_id: &'a str,
    /// The message as it was on the wire.
    pub payload: &'a [u8],
}

/// A packet cannot be longer than 65,535 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLongForHep;

impl HepPacket<'_> {
    /// Appends the packet.
    ///
    /// # Errors
    ///
    /// When it is too long; then nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), TooLongForHep> {
        let begin = out.len();
        self.write_chunks(out);
        match u16::try_from(out.len() - begin) {
            Ok(len) => {
                out[begin + MAGIC.len()..][..2].copy_from_slice(&len.to_be_bytes());
                Ok(())
            }
            Err(_) => {
                out.truncate(begin);
                Err(TooLongForHep)
            }
        }
    }

    fn write_chunks(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0, 0]);
        let (source, destination) = (self.source, self.destination);
        match (source.ip().to_canonical(), destination.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                chunk(out, Chunk::Family, &[FAMILY_V4]);
                chunk(out, Chunk::SourceV4, &from.octets());
                chunk(out, Chunk::DestinationV4, &to.octets());
            }
            _ => {
                chunk(out, Chunk::Family, &[FAMILY_V6]);
                chunk(out, Chunk::SourceV6, &v6(source.ip()));
                chunk(out, Chunk::DestinationV6, &v6(destination.ip()));
            }
        }
        let protocol = match self.transport {
            Transport::Udp => PROTOCOL_UDP,
            _ => PROTOCOL_TCP,
        };
        chunk(out, Chunk::Protocol, &[protocol]);
        chunk(out, Chunk::SourcePort, &source.port().to_be_bytes());
        chunk(
            out,
            Chunk::DestinationPort,
            &destination.port().to_be_bytes(),
        );
        // Seconds have 32 bits, and are enough until 2106.
        let seconds = u32::try_from(self.since_1970.as_secs()).unwrap_or(u32::MAX);
        chunk(out, Chunk::Seconds, &seconds.to_be_bytes());
        let micros = self.since_1970.subsec_micros();
        chunk(out, Chunk::Micros, &micros.to_be_bytes());
        chunk(out, Chunk::Type, &[TYPE_SIP]);
        chunk(out, Chunk::CaptureId, &self.capture_id.to_be_bytes());
        if !self.password.is_empty() {
            chunk(out, Chunk::Password, self.password.as_bytes());
        }
        if !self.correlation_id.is_empty() {
            chunk(out, Chunk::CorrelationId, self.correlation_id.as_bytes());
        }
        chunk(out, Chunk::Payload, self.payload);
    }
}

/// The types of the generic vendor.
#[derive(Clone, Copy)]
enum Chunk {
    Family = 0x0001,
    Protocol = 0x0002,
    SourceV4 = 0x0003,
    DestinationV4 = 0x0004,
    SourceV6 = 0x0005,
    DestinationV6 = 0x0006,
    SourcePort = 0x0007,
    DestinationPort = 0x0008,
    Seconds = 0x0009,
    Micros = 0x000a,
    Type = 0x000b,
    CaptureId = 0x000c,
    Password = 0x000e,
    Payload = 0x000f,
    CorrelationId = 0x0011,
}

/// A value that is too long makes the packet too long, so that its length is not read.
fn chunk(out: &mut Vec<u8>, kind: Chunk, value: &[u8]) {
    let len = u16::try_from(CHUNK_HEAD_LEN + value.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&VENDOR.to_be_bytes());
    out.extend_from_slice(&(kind as u16).to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
}

fn v6(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

impl<'a> HepPacket<'a> {
    /// The copy of a message that came on a flow, or that is sent on it.
    pub fn of_flow(flow: Flow, is_incoming: bool, payload: &'a [u8]) -> Self {
        let (source, destination) = match is_incoming {
            true => (flow.remote, flow.local),
            false => (flow.local, flow.remote),
        };
        Self {
            source,
            destination,
            transport: flow.transport,
            since_1970: Duration::ZERO,
            capture_id: 0,
            password: "",
            correlation_id: "",
            payload,
        }
    }
}

const MAGIC: &[u8] = b"HEP3";
const VENDOR: u16 = 0;
const CHUNK_HEAD_LEN: usize = 6;
/// AF_INET and AF_INET6 of Linux.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const TYPE_SIP: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(packet: &HepPacket<'_>) -> Vec<u8> {
        let mut out = b"before".to_vec();
        packet.write(&mut out).unwrap();
        out.split_off(6)
    }

    #[test]
    fn a_packet_has_these_bytes() {
        let flow = Flow::udp(
            "192.0.2.1:5060".parse().unwrap(),
            "192.0.2.7:5062".parse().unwrap(),
        );
        let packet = HepPacket {
            since_1970: Duration::new(1_700_000_000, 123_456_789),
            capture_id: 2001,
            password: "pw",
            correlation_id: "id",
            ..HepPacket::of_flow(flow, true, b"BYE")
        };
        let expected: &[&[u8]] = &[
            b"HEP3\x00\x76",
            b"\0\0\0\x01\0\x07\x02",
            b"\0\0\0\x03\0\x0a\xc0\x00\x02\x07",
            b"\0\0\0\x04\0\x0a\xc0\x00\x02\x01",
            b"\0\0\0\x02\0\x07\x11",
            b"\0\0\0\x07\0\x08\x13\xc6",
            b"\0\0\0\x08\0\x08\x13\xc4",
            b"\0\0\0\x09\0\x0a\x65\x53\xf1\x00",
            b"\0\0\0\x0a\0\x0a\x00\x01\xe2\x40",
            b"\0\0\0\x0b\0\x07\x01",
            b"\0\0\0\x0c\0\x0a\x00\x00\x07\xd1",
            b"\0\0\0\x0e\0\x08pw",
            b"\0\0\0\x11\0\x08id",
            b"\0\0\0\x0f\0\x09BYE",
        ];
        let expected = expected.concat();
        assert_eq!(written(&packet), expected);
    }

    #[test]
    fn an_outgoing_message_over_tls_and_ipv6_has_the_other_family() {
        let flow = Flow {
            transport: Transport::Tls,
            local: "[2001:db8::1]:5061".parse().unwrap(),
            remote: "[2001:db8::7]:40000".parse().unwrap(),
            connection: 7,
            node: 0,
        };
        let bytes = written(&HepPacket::of_flow(flow, false, b"BYE"));
        let begins = b"HEP3\x00\x7e\0\0\0\x01\0\x07\x0a\0\0\0\x05\0\x16\x20\x01\x0d\xb8";
        assert!(bytes.starts_with(begins), "{bytes:x?}");
        let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|part| part == wanted);
        assert!(has(b"\0\0\0\x02\0\x07\x06") && has(b"\0\0\0\x07\0\x08\x13\xc5"));
        assert!(!has(b"\0\0\0\x0e"), "there is no password");
    }

    #[test]
    fn a_message_that_does_not_fit_is_refused_and_leaves_nothing() {
        let flow = Flow::udp(
            "192.0.2.1:5060".parse().unwrap(),
            "192.0.2.7:5062".parse().unwrap(),
        );
        let longest = 65_535 - written(&HepPacket::of_flow(flow, true, b"")).len();
        let payload = vec![b'a'; longest + 1];
        let bytes = written(&HepPacket::of_flow(flow, true, &payload[1..]));
        assert_eq!((bytes.len(), &bytes[4..6]), (65_535, &[255, 255][..]));
        let mut out = b"before".to_vec();
        let too_long = HepPacket::of_flow(flow, true, &payload).write(&mut out);
        assert_eq!(too_long, Err(TooLongForHep));
        assert_eq!(out, b"before");
    }
}
