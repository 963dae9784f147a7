//! Session descriptions that telephones compress.

use crate::{
    Telephone, audio_of, server,
    support::{Place, phone::header, rtpengine::Rtpengine},
};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// A relay that has to rewrite a description has to be given it in plain, and who is called gets it so. What the server
/// cannot decode is refused with what it can (RFC 3261 §8.2.3).
#[test]
fn a_compressed_description_is_relayed_or_refused_with_what_could_be_read() {
    let (relay, place) = (Rtpengine::start(13_300..13_400), Place::new());
    let media = format!("relays = \"{}\"\nuse = \"always\"\n", relay.address);
    let server = server(&place, &media);
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let description = alice.description();
    let invite = alice.invite("bob", "");
    send_encoded(&alice, &invite, "gzip", &gzipped(description.as_bytes()));
    let offered = bob.hear_until("INVITE ");
    assert_eq!(audio_of(&offered).ip().to_string(), "127.0.0.1");
    assert_eq!(header(&offered, "Content-Encoding"), None, "{offered}");
    bob.respond(&offered, "486 Busy Here", "");
    alice.hear_until("SIP/2.0 486 ");
    assert_eq!(server.stat("/traffic/bodies_decoded"), 1);

    let invite = alice.invite("bob", "");
    send_encoded(&alice, &invite, "br", description.as_bytes());
    let answer = alice.hear_until("SIP/2.0 415 ");
    assert_eq!(header(&answer, "Accept-Encoding"), Some("deflate, gzip"));
    assert_eq!(header(&answer, "Accept"), Some("application/sdp"));
    let invite = alice.invite("bob", "");
    send_encoded(&alice, &invite, "gzip", &gzipped(&vec![b'a'; 100_000]));
    alice.hear_until("SIP/2.0 413 ");
    assert_eq!(server.stat("/traffic/bodies_refused"), 2);
}

/// Without a relay the two telephones understand each other, whatever the server can read.
#[test]
fn without_a_relay_a_description_passes_however_it_is_encoded() {
    let place = Place::new();
    let server = server(&place, "use = \"auto\"\n");
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let invite = alice.invite("bob", "");
    send_encoded(&alice, &invite, "br", b"anything");
    let offered = bob.hear_until("INVITE ");
    assert_eq!(header(&offered, "Content-Encoding"), Some("br"));
    assert!(offered.ends_with("\r\n\r\nanything"), "{offered}");
}

fn send_encoded(telephone: &Telephone, invite: &str, encoding: &str, body: &[u8]) {
    let (head, _) = invite.split_once("Content-Type:").unwrap();
    let head = format!(
        "{head}Content-Type: application/sdp\r\nContent-Encoding: {encoding}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let bytes = [head.as_bytes(), body].concat();
    let sent = telephone
        .phone
        .socket
        .send_to(&bytes, telephone.phone.server);
    sent.expect("room in the kernel's buffer");
}

fn gzipped(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(9));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}
