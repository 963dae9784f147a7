//! A peer that is known by its certificate, over real sockets.

use crate::{
    client::pause,
    site::{Bob, Site, respond, self_signed, status},
};
use busyhour_server::server::{CertificateFingerprint, PeerConfig};
use sha2::{Digest, Sha256};
use std::{net::UdpSocket, time::Duration};

/// An INVITE for bob in the name of a stranger, who says so of himself.
pub fn invite(call_id: &str) -> String {
    format!(
        "INVITE sip:bob@example.com SIP/2.0\r\n\
         Via: SIP/2.0/TLS 192.0.2.9:5061;branch=z9hG4bK{call_id};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:0123@pbx.example.net>;tag=p\r\nTo: <sip:bob@example.com>\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 INVITE\r\nContact: <sip:0123@192.0.2.9:5061;transport=tls>\r\n\
         P-Asserted-Identity: <sip:0123@pbx.example.net>\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn a_peer_is_who_shows_its_certificate_and_is_called_on_its_connection() {
    let (pbx, other) = (self_signed("pbx"), self_signed("pbx"));
    let peer = PeerConfig {
        name: "pbx".to_owned(),
        certificates: vec![CertificateFingerprint(
            Sha256::digest(pbx.cert.der()).into(),
        )],
        may_call: true,
        prefixes: vec!["0".to_owned()],
        ..PeerConfig::default()
    };
    let site = Site::new(vec![peer], self_signed("localhost"), None);
    let mut bob = Bob::new(&site);
    let registered = bob.ask("REGISTER", "sip:example.com", "sip:bob@example.com");
    assert_eq!(status(&registered), 200, "{registered}");
    let before = bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com");
    assert_eq!(status(&before), 480, "it is not connected: {before}");

    for own in [None, Some(&other)] {
        let mut stranger = site.connect(own);
        stranger.send(invite("stranger").as_bytes());
        assert_eq!(status(&stranger.message()), 403, "From is not of ours");
    }

    let mut peer = site.connect(Some(&pbx));
    peer.send(invite("from-pbx").as_bytes());
    assert_eq!(status(&peer.message()), 100);
    let ringing = bob.hear();
    assert!(
        ringing.contains("P-Asserted-Identity: <sip:0123@"),
        "{ringing}"
    );
    bob.send(&respond(&ringing, "486 Busy Here", "sip:bob@127.0.0.2"));
    assert_eq!(status(&peer.message()), 486);
    assert!(bob.hear().starts_with("ACK "));

    let trying = bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com");
    assert_eq!(status(&trying), 100, "{trying}");
    let called = peer.message();
    assert!(
        called.starts_with("INVITE sip:0123@example.com "),
        "{called}"
    );
    let contact = "sip:0123@192.0.2.9:5061;transport=tls";
    peer.send(respond(&called, "200 OK", contact).as_bytes());
    let answer = bob.hear();
    assert_eq!(status(&answer), 200, "{answer}");
    assert_eq!(site.server.calls(10).len(), 1);

    let views = site.server.peers();
    let addresses = &views[0].addresses;
    assert_eq!((addresses.len(), addresses[0].state), (1, Some("up")));
    assert!(
        addresses[0].address.starts_with("tls/127.0.0.1:"),
        "{views:?}"
    );

    drop(peer);
    while site.network.streams.stream_stats().connection_count > 0 {
        pause();
    }
    let after = bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com");
    assert_eq!(status(&after), 480, "{after}");
    site.end();
}

/// Its Contact names no transport, which is UDP, where nobody shows a certificate.
#[test]
fn a_peer_with_a_certificate_is_reached_over_tls_alone() {
    let pbx = self_signed("pbx");
    let unproven = UdpSocket::bind("127.0.0.3:0").unwrap();
    let peer = PeerConfig {
        name: "pbx".to_owned(),
        addresses: vec!["tls/127.0.0.3:1".parse().unwrap()],
        certificates: vec![CertificateFingerprint(
            Sha256::digest(pbx.cert.der()).into(),
        )],
        may_call: true,
        prefixes: vec!["0".to_owned()],
        probe_interval: Duration::ZERO,
        ..PeerConfig::default()
    };
    let site = Site::new(vec![peer], self_signed("localhost"), None);
    let mut bob = Bob::new(&site);
    let mut peer = site.connect(Some(&pbx));
    peer.send(invite("from-pbx").as_bytes());
    assert_eq!(status(&peer.message()), 480, "bob has not registered");
    let trying = bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com");
    assert_eq!(status(&trying), 100, "{trying}");
    let contact = format!("sip:0123@{}", unproven.local_addr().unwrap());
    let called = peer.message();
    peer.send(respond(&called, "200 OK", &contact).as_bytes());
    let answer = bob.final_answer();
    assert_eq!(status(&answer), 200, "{answer}");
    bob.send(&bob.within("ACK", &answer));
    assert!(peer.message().starts_with("ACK "));
    drop(peer);
    while site.network.streams.stream_stats().connection_count > 0 {
        pause();
    }
    bob.send(&bob.within("BYE", &answer));
    let refusal = bob.final_answer();
    assert!(status(&refusal) >= 400, "{refusal}");
    unproven.set_nonblocking(true).unwrap();
    let heard = unproven.recv(&mut [0; 2000]);
    assert!(heard.is_err(), "{heard:?} bytes");
    site.end();
}
