use crate::zone::{Zone, at, hop};
use busyhour_proxy::dns::{NotLocated, RecordKind, Transports};
use busyhour_sip::Transport::{Tcp, Tls, Udp};
use std::time::Duration;

/// The example of RFC 3263 §4.1 and §4.2.
fn example() -> Zone {
    Zone::default()
        .naptr(
            "example.com",
            (50, 50),
            ("s", "SIPS+D2T", "_sips._tcp.example.com"),
        )
        .naptr(
            "example.com",
            (90, 50),
            ("s", "SIP+D2T", "_sip._tcp.example.com"),
        )
        .naptr(
            "example.com",
            (100, 50),
            ("s", "SIP+D2U", "_sip._udp.example.com"),
        )
        .srv("_sip._tcp.example.com", (0, 1, 5060), "server1.example.com")
        .srv("_sip._tcp.example.com", (1, 2, 5070), "server2.example.com")
        .a("server1.example.com", "192.0.2.1")
        .a("server2.example.com", "192.0.2.2")
}

#[test]
fn the_domain_chooses_the_transport_and_servers_come_by_priority() {
    let no_tls = Transports {
        tls: false,
        ..Transports::ALL
    };
    let zone = example().only(no_tls);
    assert_eq!(
        zone.addresses("sip:user@example.com"),
        [at(Tcp, "192.0.2.1:5060"), at(Tcp, "192.0.2.2:5070")]
    );
    let (rounds, _) = zone.follow(&hop("sip:user@example.com"));
    let asked: Vec<_> = rounds.iter().map(Vec::len).collect();
    assert_eq!(
        asked,
        [1, 1, 4],
        "NAPTR, SRV, and the addresses of both at once"
    );
}

#[test]
fn a_service_without_records_gives_way_to_the_next() {
    let zone = example();
    assert_eq!(
        zone.addresses("sip:user@example.com")[0],
        at(Tcp, "192.0.2.1:5060")
    );
}

#[test]
fn a_sips_uri_goes_over_tls_or_nowhere() {
    let zone = example().srv(
        "_sips._tcp.example.com",
        (0, 0, 5061),
        "server1.example.com",
    );
    assert_eq!(
        zone.addresses("sips:user@example.com"),
        [at(Tls, "192.0.2.1:5061")]
    );
    let no_tls = Transports {
        tls: false,
        ..Transports::ALL
    };
    let refused = zone.only(no_tls).servers("sips:user@example.com");
    assert_eq!(refused, Err(NotLocated::NoService));
}

#[test]
fn what_a_naptr_of_another_kind_says_is_left_out() {
    let zone = Zone::default()
        .naptr("a.example", (1, 1), ("u", "SIP+D2U", "_sip._udp.b.example"))
        .naptr(
            "a.example",
            (2, 1),
            ("s", "SIP+D2S", "_sip._sctp.a.example"),
        )
        .a("a.example", "192.0.2.9");
    assert_eq!(zone.addresses("sip:a.example"), [at(Udp, "192.0.2.9:5060")]);
}

#[test]
fn without_naptr_the_first_transport_that_has_srv_records_is_taken() {
    let zone = Zone::default()
        .srv("_sip._tcp.a.example", (0, 0, 5080), "b.example")
        .a("b.example", "192.0.2.9")
        .a("a.example", "192.0.2.1");
    assert_eq!(zone.addresses("sip:a.example"), [at(Tcp, "192.0.2.9:5080")]);
}

#[test]
fn a_port_needs_no_srv_and_a_transport_needs_no_naptr() {
    let zone = example().a("example.com", "192.0.2.3");
    let (rounds, servers) = zone.follow(&hop("sip:example.com:5090"));
    assert_eq!(servers.unwrap().order(|| 0), [at(Udp, "192.0.2.3:5090")]);
    assert_eq!(rounds.len(), 1);
    assert_eq!(
        zone.addresses("sip:example.com:5090;transport=tcp"),
        [at(Tcp, "192.0.2.3:5090")]
    );
    assert_eq!(
        zone.addresses("sip:example.com;transport=tcp")[0],
        at(Tcp, "192.0.2.1:5060")
    );
    // No SRV records of that transport: the addresses of the domain itself.
    assert_eq!(
        zone.addresses("sip:example.com;transport=udp"),
        [at(Udp, "192.0.2.3:5060")]
    );
    assert_eq!(
        zone.addresses("sip:example.com;transport=tls"),
        [at(Tls, "192.0.2.3:5061")]
    );
}

#[test]
fn the_root_as_a_target_means_that_there_is_no_such_service() {
    let zone = Zone::default()
        .srv("_sip._udp.a.example", (0, 0, 0), "")
        .a("a.example", "192.0.2.1");
    assert_eq!(
        zone.servers("sip:a.example;transport=udp"),
        Err(NotLocated::NoService)
    );
}

#[test]
fn both_families_are_asked_and_a_name_without_addresses_is_none() {
    let zone = Zone::default()
        .a("a.example", "192.0.2.1")
        .aaaa("a.example", "2001:db8::1");
    assert_eq!(
        zone.addresses("sip:a.example"),
        [at(Udp, "[2001:db8::1]:5060"), at(Udp, "192.0.2.1:5060")]
    );
    assert_eq!(zone.servers("sip:b.example"), Err(NotLocated::NoSuchName));
}

#[test]
fn silence_is_told_apart_from_absence_and_hides_no_server_that_answers() {
    let zone = example().silent("example.com", RecordKind::Naptr);
    assert_eq!(
        zone.addresses("sip:example.com")[0],
        at(Tcp, "192.0.2.1:5060")
    );
    let zone = Zone::default().silent("a.example", RecordKind::A);
    assert_eq!(zone.servers("sip:a.example"), Err(NotLocated::NoAnswer));
    let zone = example().silent("server1.example.com", RecordKind::A);
    assert_eq!(
        zone.addresses("sip:example.com;transport=tcp"),
        [at(Tcp, "192.0.2.2:5070")]
    );
}

#[test]
fn servers_are_valid_as_long_as_the_shortest_answer() {
    let zone = example()
        .ttl("_sip._tcp.example.com", RecordKind::Srv, 30)
        .ttl("server2.example.com", RecordKind::A, 20);
    let servers = zone.servers("sip:example.com;transport=tcp").unwrap();
    assert_eq!(servers.ttl(), Duration::from_secs(20));
}

#[test]
fn addresses_that_lead_nowhere_are_left_out() {
    let zone = Zone::default()
        .a("a.example", "0.0.0.0")
        .a("a.example", "224.0.0.1")
        .a("a.example", "192.0.2.1");
    assert_eq!(zone.addresses("sip:a.example"), [at(Udp, "192.0.2.1:5060")]);
}
