//! A flow in little memory.

use busyhour_sip::{Flow, Transport};
use std::net::{SocketAddr, SocketAddrV4};

/// A [`Flow`] as it is kept with each call: that of IPv4 takes a third of the memory. Any other
/// one has memory of its own.
#[derive(Debug, Clone)]
pub(crate) enum CompactFlow {
    V4 {
        transport: Transport,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        connection: u32,
        node: u16,
    },
    Other(Box<Flow>),
}

impl CompactFlow {
    pub fn get(&self) -> Flow {
        match self {
            Self::V4 {
                transport,
                local,
                remote,
                connection,
                node,
            } => Flow {
                transport: *transport,
                local: (*local).into(),
                remote: (*remote).into(),
                connection: *connection,
                node: *node,
            },
            Self::Other(flow) => **flow,
        }
    }
}

impl From<Flow> for CompactFlow {
    fn from(flow: Flow) -> Self {
        match (flow.local, flow.remote) {
            (SocketAddr::V4(local), SocketAddr::V4(remote)) => Self::V4 {
                transport: flow.transport,
                local,
                remote,
                connection: flow.connection,
                node: flow.node,
            },
            _ => Self::Other(Box::new(flow)),
        }
    }
}

const _: () = assert!(size_of::<CompactFlow>() <= 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_flow_is_kept() {
        let addresses = [
            "192.0.2.1:5060",
            "[2001:db8::1%3]:5061",
            "[::ffff:192.0.2.1]:1",
        ];
        let addresses = addresses.map(|address| address.parse().expect("an address"));
        let transports = [Transport::Udp, Transport::Tls, Transport::Wss];
        for (local, remote) in addresses
            .iter()
            .flat_map(|one| addresses.map(|it| (*one, it)))
        {
            for transport in transports {
                let flow = Flow {
                    transport,
                    local,
                    remote,
                    connection: 7,
                    node: 3,
                };
                assert_eq!(CompactFlow::from(flow).get(), flow);
            }
        }
    }
}
