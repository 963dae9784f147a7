//! Flows as text, and which addresses are one source.

use busyhour_sip::{Flow, Message, Transport, UnknownTransport, source_of};
use std::net::IpAddr;

#[test]
fn a_flow_is_restored_from_its_texts_except_for_the_connection() {
    let udp = flow(Transport::Udp);
    let texts = udp.local_text();
    assert_eq!(texts, "192.0.2.9:5060", "the form in rows of old versions");
    for (transport, text) in [
        (Transport::Udp, "192.0.2.9:5060"),
        (Transport::Tcp, "tcp/192.0.2.9:5060"),
        (Transport::Tls, "tls/192.0.2.9:5060"),
        (Transport::Ws, "ws/192.0.2.9:5060"),
        (Transport::Wss, "wss/192.0.2.9:5060"),
    ] {
        let flow = flow(transport);
        assert_eq!(flow.local_text(), text);
        let read = Flow::from_texts(text, "192.0.2.1:5062");
        let connection = 0;
        assert_eq!(read, Some(Flow { connection, ..flow }));
    }
    assert_eq!(Flow::from_texts("sctp/192.0.2.9:5060", "192.0.2.1:1"), None);
    assert_eq!(Flow::from_texts("192.0.2.9", "192.0.2.1:1"), None);
    assert_eq!(Flow::from_texts("192.0.2.9:1", "192.0.2.1"), None);
}

#[test]
fn transports_have_names_and_only_udp_loses_messages() {
    for (transport, name, suffix, is_reliable) in [
        (Transport::Udp, "udp", "", false),
        (Transport::Tcp, "tcp", ";transport=tcp", true),
        (Transport::Tls, "tls", ";transport=tls", true),
        (Transport::Ws, "ws", ";transport=ws", true),
        (Transport::Wss, "wss", ";transport=ws", true),
    ] {
        assert_eq!(transport.parameter(), name);
        assert_eq!(transport.to_string(), name.to_uppercase());
        assert_eq!(name.to_uppercase().parse(), Ok(transport));
        assert_eq!(transport.uri_suffix(), suffix);
        assert_eq!(transport.is_reliable(), is_reliable);
    }
    assert_eq!("sctp".parse::<Transport>(), Err(UnknownTransport));
    let web_sockets = [Transport::Ws, Transport::Wss];
    assert!(
        web_sockets
            .iter()
            .all(|it| it.is_web_socket() && it.is_reliable())
    );
    let encrypted = [Transport::Tls, Transport::Wss];
    assert!(encrypted.iter().all(|it| it.is_encrypted()));
    let plain = [Transport::Udp, Transport::Tcp, Transport::Ws];
    assert!(!plain.iter().any(|it| it.is_encrypted()));
}

#[test]
fn datagrams_are_answered_where_via_says_and_others_on_their_connection() {
    let text = "OPTIONS sip:example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bK1\r\n\r\n";
    let message = Message::parse(text.as_bytes()).unwrap();
    let via = message.via().unwrap();
    let udp = flow(Transport::Udp);
    let remote = "192.0.2.1:5070".parse().unwrap();
    assert_eq!(udp.answered_by(&via), Flow { remote, ..udp });
    let tcp = flow(Transport::Tcp);
    assert_eq!(tcp.answered_by(&via), tcp);
}

#[test]
fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
    let source = |text: &str| source_of(text.parse::<IpAddr>().unwrap()).to_string();
    assert_eq!(source("192.0.2.7"), "192.0.2.7");
    assert_eq!(source("::ffff:192.0.2.7"), "192.0.2.7");
    assert_eq!(source("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    assert_eq!(source("2001:db8:1:3::"), "2001:db8:1:3::");
}

fn flow(transport: Transport) -> Flow {
    Flow {
        transport,
        local: "192.0.2.9:5060".parse().unwrap(),
        remote: "192.0.2.1:5062".parse().unwrap(),
        connection: 7,
        node: 0,
    }
}
