//! What a node says of a SIP message that it hands to another one, in few bytes behind that message, as it goes in a datagram.
//!
//! ```text
//! SIP message │ verb (1) │ node of the flow (2) │ number (8) │ detail (8) │ partition + 1 (2) │ local │ remote │ length (1)
//! address: 4 │ four bytes │ port (2)      or      6 │ sixteen bytes │ port (2) │ scope (4)
//! ```
//!
//! It stands behind the SIP message, and says last how long it is. So who opens the datagram cuts it off, and has the SIP
//! message alone in its buffer, without a copy. To write and read it as a text took 23 µs of a refresh in a cluster of three:
//! what does that is cold at a hundred requests a second (docs/missed.md, "A cluster of three").

use crate::server::cluster::node_message::{NodeMessage, NodeVerb};
use busyhour_cluster::Partition;
use busyhour_sip::Flow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// What stands behind the SIP message.
pub(super) struct MessageTrailer {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl MessageTrailer {
    /// `None` for what is about a connection: that does not go in datagrams.
    pub(super) fn of(message: &NodeMessage<'_>) -> Option<Self> {
        let flow = message.flow;
        if flow.transport.is_reliable() || flow.connection != 0 {
            return None;
        }
        let partition = message.registered.map_or(0, |it| 1 + u16::from(it.0));
        let mut trailer = Self {
            bytes: [0; LEN_MAX],
            len: 0,
        };
        trailer.put(&[message.what as u8]);
        trailer.put(&flow.node.to_be_bytes());
        trailer.put(&message.number.to_be_bytes());
        trailer.put(&message.detail.to_be_bytes());
        trailer.put(&partition.to_be_bytes());
        trailer.put_address(flow.local);
        trailer.put_address(flow.remote);
        let len = trailer.len as u8;
        trailer.put(&[len]);
        Some(trailer)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Reads what a node has said, and how long its SIP message is, which stands in front; `None` for what no node of this
    /// version says.
    pub(super) fn read(from: u16, opened: &[u8]) -> Option<(NodeMessage<'static>, usize)> {
        let (len, rest) = opened.split_last()?;
        let sip_len = rest.len().checked_sub(usize::from(*len))?;
        let mut reader = TrailerReader(&rest[sip_len..]);
        let what = *NodeVerb::ALL.get(usize::from(reader.take::<1>()?[0]))?;
        let node = u16::from_be_bytes(reader.take()?);
        let number = u64::from_be_bytes(reader.take()?);
        let detail = u64::from_be_bytes(reader.take()?);
        let registered = match u16::from_be_bytes(reader.take()?) {
            0 => None,
            partition => Some(Partition(u8::try_from(partition - 1).ok()?)),
        };
        let (local, remote) = (reader.address()?, reader.address()?);
        let flow = Flow {
            node,
            ..Flow::udp(local, remote)
        };
        let message = NodeMessage {
            detail,
            number,
            registered,
            ..NodeMessage::new(what, from, flow)
        };
        reader.0.is_empty().then_some((message, sip_len))
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn put_address(&mut self, address: SocketAddr) {
        let port = address.port().to_be_bytes();
        match address {
            SocketAddr::V4(v4) => {
                self.put(&[V4]);
                self.put(&v4.ip().octets());
                self.put(&port);
            }
            SocketAddr::V6(v6) => {
                self.put(&[V6]);
                self.put(&v6.ip().octets());
                self.put(&port);
                self.put(&v6.scope_id().to_be_bytes());
            }
        }
    }
}

/// What is still to be read.
struct TrailerReader<'b>(&'b [u8]);

impl TrailerReader<'_> {
    fn take<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn address(&mut self) -> Option<SocketAddr> {
        match self.take::<1>()? {
            [V4] => {
                let ip = IpAddr::V4(Ipv4Addr::from(self.take::<4>()?));
                Some(SocketAddr::new(ip, u16::from_be_bytes(self.take()?)))
            }
            [V6] => {
                let ip = Ipv6Addr::from(self.take::<16>()?);
                let port = u16::from_be_bytes(self.take()?);
                let scope = u32::from_be_bytes(self.take()?);
                Some(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            _ => None,
        }
    }
}

const V4: u8 = 4;
const V6: u8 = 6;
/// With two addresses of IPv6.
const LEN_MAX: usize = 1 + 2 + 8 + 8 + 2 + 2 * 23 + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Transport;
    use proptest::prelude::*;

    fn flows() -> [Flow; 2] {
        let flow = |local: &str, remote: &str| Flow {
            node: 3,
            ..Flow::udp(local.parse().unwrap(), remote.parse().unwrap())
        };
        [
            flow("192.0.2.1:5060", "192.0.2.7:40000"),
            flow("[2001:db8::1%4]:65535", "[fe80::7%70000]:1"),
        ]
    }

    #[test]
    fn every_trailer_is_read_as_it_was_written() {
        for flow in flows() {
            for what in NodeVerb::ALL {
                for registered in [None, Some(Partition(0)), Some(Partition(255))] {
                    let message = NodeMessage {
                        detail: u64::MAX,
                        ..NodeMessage::new(what, 2, flow).numbered(u64::MAX - 7)
                    };
                    let message = message.registering(registered);
                    let trailer = MessageTrailer::of(&message).expect("no connection");
                    assert!(trailer.bytes().len() <= LEN_MAX);
                    for sip in [&b""[..], b"BYE sip:a SIP/2.0\r\n\0\xff"] {
                        let written = [sip, trailer.bytes()].concat();
                        let read = MessageTrailer::read(2, &written);
                        assert_eq!(read, Some((message, sip.len())));
                    }
                }
            }
        }
    }

    /// Nodes of other versions read and write the same.
    #[test]
    fn a_trailer_is_written_as_it_ever_was() {
        let [flow, _] = flows();
        let message = NodeMessage::new(NodeVerb::Send, 2, flow).numbered(9);
        let trailer = MessageTrailer::of(&message.registering(Some(Partition(7))));
        let mut expected = vec![
            2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8,
        ];
        expected.extend([4, 192, 0, 2, 1, 0x13, 0xc4, 4, 192, 0, 2, 7, 0x9c, 0x40, 35]);
        assert_eq!(trailer.expect("no connection").bytes(), expected);
        let numbers = NodeVerb::ALL.map(|it| it as usize);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn what_is_about_a_connection_has_no_trailer() {
        let [flow, _] = flows();
        for flow in [
            Flow {
                transport: Transport::Tcp,
                ..flow
            },
            Flow {
                connection: 1,
                ..flow
            },
        ] {
            let message = NodeMessage::new(NodeVerb::Send, 2, flow);
            assert!(MessageTrailer::of(&message).is_none());
        }
    }

    proptest! {
        /// What is read is what would be written, whatever has changed; so bytes that mean nothing are not read.
        #[test]
        fn what_is_read_would_be_written_so(
            sip in prop::collection::vec(any::<u8>(), 0..80),
            is_v6 in any::<bool>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let flow = flows()[usize::from(is_v6)];
            let message = NodeMessage::new(NodeVerb::Send, 2, flow).registering(Some(Partition(7)));
            let trailer = MessageTrailer::of(&message).expect("no connection");
            let mut bytes = [&sip[..], trailer.bytes()].concat();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if let Some((message, sip_len)) = MessageTrailer::read(2, &bytes) {
                let trailer = MessageTrailer::of(&message).expect("no connection");
                prop_assert_eq!(trailer.bytes(), &bytes[sip_len..]);
            }
        }
    }

    #[test]
    fn a_changed_byte_is_another_message_or_none() {
        let [flow, _] = flows();
        let message = NodeMessage::new(NodeVerb::Handle, 2, flow).numbered(9);
        let trailer = MessageTrailer::of(&message).expect("no connection");
        let known = Some((message, 0));
        for place in 0..trailer.bytes().len() {
            let mut bytes = trailer.bytes().to_vec();
            bytes[place] ^= 0x81;
            assert_ne!(MessageTrailer::read(2, &bytes), known, "byte {place}");
        }
    }
}
