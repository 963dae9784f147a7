//! Where our requests of a dialog go (RFC 3261 §12.2.1.1).

use crate::registrar::datagram_address;
use busyhour_sip::Flow;
use std::net::{IpAddr, SocketAddr};

/// Which way a request goes whose next hop is `uri`: the first of the route set,
/// or the remote target where there is none. `came` is the way of the request
/// that made or refreshed the dialog.
///
/// Requests go to the address in `uri`, at its port or 5060, if that is the IP
/// address which the dialog's request came from. They go back the way it came:
/// - over a connection, since we open none;
/// - when the other side `keeps_flow`: it asked for answers at its source port
///   (RFC 3581 §4), where it has to hear us then, or for its flow (RFC 5626 §4.3);
/// - when `uri` has another IP address: the other side is behind a translation
///   of addresses, or names a third party that has asked for nothing;
/// - when `uri` has a name, which we do not look up, or wants another transport.
pub(in crate::watch) fn next_hop(came: Flow, keeps_flow: bool, uri: &str) -> Flow {
    match datagram_address(uri) {
        Some((ip, port)) if !keeps_flow && is_same(came, ip) => Flow {
            remote: with_port(came.remote, port),
            ..came
        },
        _ => came,
    }
}

fn is_same(came: Flow, ip: IpAddr) -> bool {
    !came.transport.is_reliable() && came.remote.ip().to_canonical() == ip
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    // The scope of an IPv6 address stays.
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Transport;

    fn goes(keeps_flow: bool, uri: &str) -> String {
        let addresses = ("192.0.2.1:5060", "192.0.2.7:40000");
        let came = Flow::udp(addresses.0.parse().unwrap(), addresses.1.parse().unwrap());
        let tcp = Flow {
            transport: Transport::Tcp,
            ..came
        };
        assert_eq!(next_hop(tcp, keeps_flow, uri), tcp);
        next_hop(came, keeps_flow, uri).remote.to_string()
    }

    #[test]
    fn a_request_goes_to_the_port_of_the_target_at_the_address_that_asked() {
        assert_eq!(goes(false, "sip:bob@192.0.2.7:5070"), "192.0.2.7:5070");
        assert_eq!(goes(false, "sip:192.0.2.7;lr"), "192.0.2.7:5060");
        for elsewhere in [
            "sip:bob@192.0.2.8:5070",
            "sip:bob@example.com",
            "sip:bob@192.0.2.7:5070;transport=tcp",
            "sips:bob@192.0.2.7:5070",
            "tel:123",
        ] {
            assert_eq!(goes(false, elsewhere), "192.0.2.7:40000", "{elsewhere}");
        }
        assert_eq!(goes(true, "sip:bob@192.0.2.7:5070"), "192.0.2.7:40000");
    }
}
