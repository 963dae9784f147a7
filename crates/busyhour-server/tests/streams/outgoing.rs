//! Connections that the server makes, to peers and to telephones that have ended theirs.

use crate::{
    authority::Authority,
    client::{Client, connect, ok, pause},
    peers::invite,
    site::{Bob, Made, Site, proven, respond, self_signed, status},
};
use busyhour_server::{
    net::{StreamOptions, StreamPolicy},
    server::{CertificateFingerprint, HolderKey, Network, PeerConfig, SendError},
};
use busyhour_sip::{Flow, HeaderName, Message, Transport};
use rcgen::{Certificate, SanType};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use sha2::{Digest, Sha256};
use socket2::SockRef;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

type Secured = Client<StreamOwned<ServerConnection, TcpStream>>;

/// A peer that takes calls.
struct Gateway(TcpListener);

impl Gateway {
    /// Each has an address of its own.
    fn at(host: u8) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
        let patience = Some(Duration::from_secs(60));
        SockRef::from(&listener).set_read_timeout(patience).unwrap();
        Self(listener)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.0.accept().expect("the server connects");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream
    }

    /// Takes a connection over TLS of a client that `authority` vouches for.
    fn accept_tls(&self, own: &Made, authority: &Certificate) -> Secured {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let key = own.signing_key.serialize_pem();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(vec![own.cert.der().clone()], key);
        let session = ServerConnection::new(Arc::new(config.unwrap())).unwrap();
        Client::over(StreamOwned::new(session, self.accept()))
    }
}

fn peer(addresses: &[String]) -> PeerConfig {
    PeerConfig {
        name: "gateway".to_owned(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        prefixes: vec!["0".to_owned()],
        probe_interval: Duration::ZERO,
        ..PeerConfig::default()
    }
}

fn call(bob: &mut Bob) -> String {
    bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com")
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// The BYE of who was called by this INVITE, and has answered it with the tag `t`.
fn hang_up(invite: &str) -> String {
    let message = Message::parse(invite.as_bytes()).unwrap();
    let of = |name| message.header(name).unwrap();
    let routes: Vec<_> = message.headers(HeaderName::RecordRoute).collect();
    format!(
        "BYE {} SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.3;branch=z9hG4bKbye\r\nMax-Forwards: 70\r\n\
         Route: {}\r\nFrom: {};tag=t\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 1 BYE\r\n\
         Content-Length: 0\r\n\r\n",
        of(HeaderName::Contact).trim_matches(['<', '>']),
        routes.join(", "),
        of(HeaderName::To),
        of(HeaderName::From),
        of(HeaderName::CallId),
    )
}

#[test]
fn a_call_goes_out_over_tcp_and_on_to_the_next_address_when_that_connection_ends() {
    let (first, second) = (Gateway::at(3), Gateway::at(4));
    let addresses = [&first, &second].map(|it| format!("tcp/{}", it.address()));
    let site = Site::new(vec![peer(&addresses)], self_signed("localhost"), None);
    let mut bob = Bob::new(&site);
    assert_eq!(status(&call(&mut bob)), 100);
    let mut connection = Client::over(first.accept());
    let called = connection.message();
    let ours = site.address(Transport::Tcp);
    assert!(
        called.contains(&format!("Via: SIP/2.0/TCP {ours};")),
        "{called}"
    );
    assert!(
        called.contains(&format!("@{ours};transport=tcp;lr>")),
        "{called}"
    );
    let contact = format!("sip:0123@{};transport=tcp", first.address());
    connection.send(respond(&called, "200 OK", &contact).as_bytes());
    let answer = bob.final_answer();
    assert_eq!(status(&answer), 200, "{answer}");
    for method in ["ACK", "BYE"] {
        bob.send(&bob.within(method, &answer));
        let heard = connection.message();
        assert!(heard.starts_with(&format!("{method} sip:0123@")), "{heard}");
        connection.send(respond(&heard, "200 OK", &contact).as_bytes());
    }
    assert_eq!(status(&bob.final_answer()), 200);

    // The peer hangs up over the connection that the server has made.
    assert_eq!(status(&call(&mut bob)), 100);
    let called = connection.message();
    connection.send(respond(&called, "200 OK", &contact).as_bytes());
    bob.send(&bob.within("ACK", &bob.final_answer()));
    assert!(connection.message().starts_with("ACK "));
    connection.send(hang_up(&called).as_bytes());
    let bye = bob.hear_request("BYE");
    bob.send(&respond(&bye, "200 OK", "sip:bob@127.0.0.2"));
    assert_eq!(status(&connection.message()), 200);
    assert_eq!(site.server.calls(10).len(), 0);
    assert_eq!(
        site.network.streams.stream_stats().connects,
        1,
        "it is kept"
    );

    // It takes one more, and dies.
    assert_eq!(status(&call(&mut bob)), 100);
    assert!(connection.message().starts_with("INVITE "));
    drop((connection, first));
    let mut spare = Client::over(second.accept());
    let called = spare.message();
    spare.send(respond(&called, "486 Busy Here", "sip:0123@127.0.0.4").as_bytes());
    assert_eq!(status(&bob.final_answer()), 486);
    assert!(spare.message().starts_with("ACK "));

    // Nobody is there to connect to.
    assert_eq!(status(&call(&mut bob)), 100);
    let called = spare.message();
    spare.send(respond(&called, "603 Decline", "sip:0123@127.0.0.4").as_bytes());
    assert_eq!(status(&bob.final_answer()), 603);
    assert!(site.server.peers()[0].attempts_failed > 0);
    site.end();
}

#[test]
fn over_tls_each_side_shows_whom_an_authority_vouches_for() {
    let authority = Authority::new();
    let gateway = Gateway::at(5);
    let own = authority.vouch(dns("gateway.example.net"));
    let other = authority.vouch(dns("other.example.net"));
    let trunk = PeerConfig {
        host: Some("gateway.example.net".to_owned()),
        ..peer(&[format!("tls/{}", gateway.address())])
    };
    let made = authority.vouch(dns("localhost"));
    let site = Site::new(vec![trunk], made, Some(&authority));
    let mut bob = Bob::new(&site);
    assert_eq!(status(&call(&mut bob)), 100);
    // The server ends the handshake.
    assert_eq!(gateway.accept_tls(&other, &authority).next(), None);
    let refused = bob.final_answer();
    assert_eq!(status(&refused), 500, "{refused}");

    // The address rests for a moment after its failure.
    while status(&call(&mut bob)) != 100 || site.network.streams.stream_stats().connects < 2 {
        bob.final_answer();
    }
    let mut connection = gateway.accept_tls(&own, &authority);
    let called = connection.message();
    let start = "INVITE sip:0123@gateway.example.net SIP/2.0\r\nVia: SIP/2.0/TLS ";
    assert!(called.starts_with(start), "{called}");
    connection.send(respond(&called, "486 Busy Here", "sip:0123@127.0.0.5").as_bytes());
    assert_eq!(status(&bob.final_answer()), 486);
    site.end();
}

#[test]
fn over_tls_a_certificate_that_is_written_down_needs_no_authority() {
    let authority = Authority::new();
    let gateway = Gateway::at(6);
    let own = self_signed("whoever");
    let trunk = PeerConfig {
        certificates: vec![CertificateFingerprint(
            Sha256::digest(own.cert.der()).into(),
        )],
        ..peer(&[format!("tls/{}", gateway.address())])
    };
    let made = authority.vouch(dns("localhost"));
    let site = Site::new(vec![trunk], made, None);
    let mut bob = Bob::new(&site);
    assert_eq!(status(&call(&mut bob)), 100);
    let mut connection = gateway.accept_tls(&own, &authority);
    let called = connection.message();
    assert!(
        called.starts_with("INVITE sip:0123@example.com "),
        "{called}"
    );
    site.end();
}

/// RFC 5922 §7.1: by the domain in its certificate, if an authority vouches for it.
#[test]
fn a_peer_is_known_by_the_name_that_an_authority_vouches_for() {
    let authority = Authority::new();
    let pbx = PeerConfig {
        certificate_names: vec!["pbx.example.net".to_owned()],
        may_call: true,
        ..peer(&[])
    };
    let site = Site::new(vec![pbx], self_signed("localhost"), Some(&authority));
    let mut bob = Bob::new(&site);
    let registered = bob.ask("REGISTER", "sip:example.com", "sip:bob@example.com");
    assert_eq!(status(&registered), 200, "{registered}");
    let strangers = [
        self_signed("pbx.example.net"),
        authority.vouch(dns("x.example.net")),
    ];
    for stranger in &strangers {
        let mut stranger = site.connect(Some(stranger));
        stranger.send(invite("stranger").as_bytes());
        assert_eq!(status(&stranger.message()), 403);
    }
    let uri = SanType::URI("sip:PBX.example.net".try_into().unwrap());
    let mut known = site.connect(Some(&authority.vouch(uri)));
    known.send(invite("known").as_bytes());
    assert_eq!(status(&known.message()), 100);
    assert!(bob.hear().starts_with("INVITE "));
    site.end();
}

#[test]
fn options_go_over_the_connection_and_their_answer_marks_the_peer_up() {
    let gateway = Gateway::at(7);
    let probed = PeerConfig {
        probe_interval: Duration::from_secs(3600),
        ..peer(&[format!("tcp/{}", gateway.address())])
    };
    let site = Site::new(vec![probed], self_signed("localhost"), None);
    let mut connection = Client::over(gateway.accept());
    let question = connection.message();
    assert!(question.starts_with("OPTIONS sip:127.0.0.7:"), "{question}");
    assert!(question.contains("Via: SIP/2.0/TCP "), "{question}");
    assert_eq!(site.server.peers()[0].addresses[0].state, Some("unknown"));
    connection.send(ok(&question).as_bytes());
    while site.server.peers()[0].addresses[0].state != Some("up") {
        pause();
    }
    site.end();
}

/// It registers over TCP, names the port where it listens, and ends its connection.
#[test]
fn a_telephone_that_listens_is_connected_to_when_its_own_connection_is_gone() {
    let site = Site::new(Vec::new(), self_signed("localhost"), None);
    let telephone = Gateway::at(1);
    let contact = format!("sip:bob@{};transport=tcp", telephone.address());
    let mut bob = Bob::new(&site);
    let mut connection = Client::over(connect(site.address(Transport::Tcp)));
    let mut request = || {
        let request = bob.request("REGISTER", "sip:example.com", "sip:bob@example.com");
        let (head, rest) = request.split_once("Contact: <").unwrap();
        let (_, rest) = rest.split_once('>').unwrap();
        let head = head.replace("/UDP ", "/TCP ");
        format!("{head}Contact: <{contact}>{rest}")
    };
    connection.send(request().as_bytes());
    let challenge = connection.message();
    connection.send(proven(&request(), &challenge).as_bytes());
    let registered = connection.message();
    assert_eq!(status(&registered), 200, "{registered}");
    drop(connection);
    while site.network.streams.stream_stats().connection_count > 0 {
        pause();
    }
    let trying = bob.ask("INVITE", "sip:bob@example.com", "sip:bob@example.com");
    assert_eq!(status(&trying), 100, "{trying}");
    let mut ringing = Client::over(telephone.accept());
    let called = ringing.message();
    assert!(
        called.starts_with(&format!("INVITE {contact} SIP/2.0")),
        "{called}"
    );
    ringing.send(respond(&called, "486 Busy Here", &contact).as_bytes());
    assert_eq!(status(&bob.final_answer()), 486);
    site.end();
}

/// Addresses that cannot be connected to rest, and those of one host are bounded.
#[test]
fn an_address_rests_after_a_failure_and_a_host_has_sixteen() {
    let site = Site::new(Vec::new(), self_signed("localhost"), None);
    let network = &site.network;
    let to = |port: u16| Flow {
        transport: Transport::Tcp,
        ..Flow::udp(site.address(Transport::Tcp), ([127, 0, 0, 9], port).into())
    };
    // Nobody listens below 1024.
    let stats = || network.streams.stream_stats();
    // On a slow machine some have rested enough before the last one is tried.
    let mut ports = 1..1000;
    assert!(ports.any(|port| network.connect(to(port), None) == Err(SendError::Full)));
    assert!(stats().connects >= 16 && stats().connects_refused == 1);
    let rests = || {
        let before = stats().connects;
        network.connect(to(1), None) == Err(SendError::FlowFailed) && stats().connects == before
    };
    // The thread of connections may not have seen the failure yet.
    while !rests() {
        pause();
    }
    site.end();
}

/// An account that calls ever new addresses, which its own name servers invent, leaves the others
/// room; and what it has is free again when the connections have ended.
#[test]
fn one_holder_takes_a_part_of_the_connections() {
    let listener = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = StreamOptions {
        policy: StreamPolicy {
            connects_max: 160,
            ..StreamPolicy::default()
        },
        ..StreamOptions::default()
    };
    let site = Site::with(Vec::new(), self_signed("localhost"), None, options);
    let streams = &site.network.streams;
    let connect = |host: u8, holder: u32| {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let remote = SocketAddr::from(([127, 0, 0, host], port));
        let flow = Flow {
            transport: Transport::Tcp,
            ..Flow::udp(here, remote)
        };
        streams.connect(flow, Some(HolderKey::new(holder)))
    };
    let made: Vec<_> = (2..22)
        .map(|host| connect(host, 7).expect("its share"))
        .collect();
    assert_eq!(connect(22, 7), Err(SendError::Full));
    assert_eq!(connect(2, 7), Ok(made[0]), "what is there is used");
    connect(22, 8).expect("another has room");
    assert_eq!(connect(22, 7), connect(22, 8), "and it is for all");
    let stats = streams.stream_stats();
    assert_eq!((stats.connects_refused, stats.connects_over_share), (1, 1));
    // As soon as one of them has ended, there is room again.
    drop(listener.accept().unwrap());
    while connect(23, 7) == Err(SendError::Full) {
        pause();
    }
    site.end();
}

/// Each domain has a connection of its own to the address that it shares with another one, and
/// what shows the certificate of the other is not spoken to (RFC 5922 §7.3).
#[test]
fn a_connection_to_a_domain_is_not_used_for_another_one_at_the_same_address() {
    let (authority, gateway) = (Authority::new(), Gateway::at(8));
    let site = Site::new(
        Vec::new(),
        authority.vouch(dns("localhost")),
        Some(&authority),
    );
    let streams = &site.network.streams;
    let ours = site.address(Transport::Tls);
    let flow = Flow {
        transport: Transport::Tls,
        ..Flow::udp(ours, gateway.address())
    };
    let to = |domain: &str| streams.flow_to_domain(flow, domain).expect("TLS");
    let one = to("one.example");
    assert_eq!(to("one.example"), one);
    assert_eq!(streams.connect(one, None), Ok(one));
    let certificate = authority.vouch(dns("one.example"));
    let mut first = gateway.accept_tls(&certificate, &authority);
    let datagram = |text: &str| site.runtime.buffers().copy_from(text.as_bytes()).unwrap();
    let options = "OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";
    streams.send(one, datagram(options)).expect("a connection");
    assert_eq!(first.message(), options);

    let two = to("two.example");
    assert_ne!(two, one);
    assert_eq!(streams.connect(two, None), Ok(two));
    let mut second = gateway.accept_tls(&certificate, &authority);
    let _ = streams.send(two, datagram(options));
    assert_eq!(second.next(), None, "its certificate is for another domain");
    while streams.stream_stats().connect_failures == 0 {
        pause();
    }
    assert_eq!(streams.connect(two, None), Err(SendError::FlowFailed));
    assert_eq!(
        streams.connect(to("two.example"), None),
        Err(SendError::FlowFailed)
    );
    assert_eq!(streams.connect(one, None), Ok(one));

    drop(first);
    while streams.connect(one, None).is_ok() {
        pause();
    }
    let again = to("one.example");
    assert_ne!(again, one, "a number is that of one connection");
    // It rests, since nothing had come on the last one.
    while streams.connect(again, None) != Ok(again) {
        pause();
    }
    site.end();
}

/// Where somebody asks for connections without an end, others and the trunks still get theirs.
#[test]
fn one_source_takes_a_part_of_the_connections_and_none_of_those_of_peers() {
    let listener = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let at = |host: u8| SocketAddr::from(([127, 0, 0, host], port));
    let options = StreamOptions {
        reserved: vec![at(200)],
        policy: StreamPolicy {
            connects_max: 160,
            ..StreamPolicy::default()
        },
        ..StreamOptions::default()
    };
    let site = Site::with(Vec::new(), self_signed("localhost"), None, options);
    let streams = &site.network.streams;
    let connect = |local: IpAddr, remote| {
        let flow = Flow::udp(SocketAddr::new(local, 0), remote);
        let flow = Flow {
            transport: Transport::Tcp,
            ..flow
        };
        streams.connect(flow, None)
    };
    let here = Ipv4Addr::LOCALHOST.into();
    let alike = |host: u16| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, host], port));
    // Nobody is there, but each rests before the next attempt.
    let mut hosts = 2..1000;
    let beyond = |host| connect(Ipv6Addr::LOCALHOST.into(), alike(host)) == Err(SendError::Full);
    assert!(hosts.any(beyond), "an eighth is for one network of 64 bits");
    connect(here, at(2)).expect("there is room for others");
    let mut others = 3..200;
    assert!(others.any(|host| connect(here, at(host)) == Err(SendError::Full)));
    connect(here, at(200)).expect("a peer has its place");
    site.end();
}
