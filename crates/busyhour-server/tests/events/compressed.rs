//! Bodies that telephones compress (RFC 3261 §20.12), as liblinphone does with its lists.

use crate::{
    panel::Panel,
    world::{World, body, header, ok, open_config},
};
use busyhour_registrar::watch::WatchPolicy;
use busyhour_server::server::ServerConfig;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use std::io::Write;

/// What a linphone of Debian 12 sends.
const LIST: &str = "Supported: eventlist\r\nEvent: presence\r\nExpires: 3600\r\n\
    Content-Type: application/resource-lists+xml\r\nRequire: recipient-list-subscribe\r\n\
    Accept: multipart/related\r\nAccept: application/pidf+xml\r\nAccept: application/rlmi+xml\r\n\
    Content-Disposition: recipient-list\r\nAccept-Encoding: deflate\r\n";
const PRESENCE: &str = "Event: presence\r\nContent-Type: application/pidf+xml\r\n";

fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn gzipped(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// A request with this body, and what is sent then.
fn ask(world: &mut World, method: &str, user: &str, headers: &str, body: &[u8]) -> Vec<String> {
    let request = world.request(method, user, None, &format!("{method}-{user}"), headers, "");
    let len = format!("Content-Length: {}", body.len());
    let request = request.replace("Content-Length: 0", &len);
    world.receive_bytes(&[request.as_bytes(), body].concat());
    world.sent()
}

fn list_of(users: usize) -> String {
    let entry = |number| format!("  <entry uri=\"sip:user{number}@example.com\"/>\n");
    let entries: String = (0..users).map(entry).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<resource-lists \
         xmlns=\"urn:ietf:params:xml:ns:resource-lists\">\n <list>\n{entries} </list>\n</resource-lists>\n"
    )
}

fn presence(note: &str) -> String {
    format!(
        "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:alice@example.com\">\
         <tuple id=\"t\"><status><basic>open</basic></status><note>{note}</note></tuple></presence>"
    )
}

fn with_room() -> ServerConfig {
    ServerConfig {
        watch: WatchPolicy {
            list_datagram_len_max: 60_000,
            ..WatchPolicy::default()
        },
        ..open_config()
    }
}

#[test]
fn a_list_that_comes_compressed_is_watched() {
    let mut world = World::with(with_room());
    for (encoding, body) in [
        ("deflate", deflated(list_of(60).as_bytes())),
        ("gzip", gzipped(list_of(60).as_bytes())),
        ("identity", list_of(60).into_bytes()),
    ] {
        let headers = format!("{LIST}Content-Encoding: {encoding}\r\n");
        let sent = ask(&mut world, "SUBSCRIBE", encoding, &headers, &body);
        assert!(sent[0].starts_with("SIP/2.0 200 "), "{}", sent[0]);
        let mut panel = Panel::default();
        panel.take(&sent[1]);
        assert_eq!(panel.lamps.len(), 60, "{encoding}");
    }
    let traffic = world.stats().traffic;
    assert_eq!((traffic.bodies_decoded, traffic.bodies_refused), (2, 0));
}

#[test]
fn a_presence_that_comes_compressed_is_told() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    let plain = presence(&"away ".repeat(200));
    for bytes in [deflated(plain.as_bytes()), gzipped(plain.as_bytes())] {
        let encoding = if bytes[0] == 0x78 { "deflate" } else { "gzip" };
        let headers = format!("{PRESENCE}Content-Encoding: {encoding}\r\n");
        let sent = ask(&mut world, "PUBLISH", "alice", &headers, &bytes);
        assert!(sent[0].starts_with("SIP/2.0 200 "), "{}", sent[0]);
        assert!(sent[1].starts_with("NOTIFY "), "{}", sent[1]);
        assert!(body(&sent[1]).contains("away away"), "{}", sent[1]);
        world.receive(&ok(&sent[1]));
    }
    assert_eq!(world.stats().traffic.bodies_decoded, 2);
}

/// Bytes that would become a thousand times as many, that end too early, and that are of another encoding.
#[test]
fn what_is_too_long_in_plain_or_broken_is_refused_and_counted() {
    let mut world = World::open();
    let bomb = deflated(&vec![b' '; 60_000_000]);
    let list = format!("{LIST}Content-Encoding: deflate\r\n");
    let sent = ask(&mut world, "SUBSCRIBE", "bomb", &list, &bomb);
    assert!(sent[0].starts_with("SIP/2.0 413 "), "{sent:?}");
    let published = format!("{PRESENCE}Content-Encoding: deflate\r\n");
    // Longer than a publication may be, though it is short as it comes.
    let long = deflated(presence(&"x".repeat(5_000)).as_bytes());
    assert!(long.len() < 500);
    let sent = ask(&mut world, "PUBLISH", "alice", &published, &long);
    assert!(sent[0].starts_with("SIP/2.0 413 "), "{sent:?}");
    let cut = &deflated(presence("x").as_bytes())[..50];
    let sent = ask(&mut world, "PUBLISH", "bob", &published, cut);
    assert!(
        sent[0].starts_with("SIP/2.0 400 Body Cannot Be Decoded"),
        "{sent:?}"
    );
    let plain = list_of(2).into_bytes();
    let unknown = format!("{LIST}Content-Encoding: zstd\r\n");
    let sent = ask(&mut world, "SUBSCRIBE", "carol", &unknown, &plain);
    assert!(sent[0].starts_with("SIP/2.0 415 "), "{sent:?}");
    assert_eq!(header(&sent[0], "Accept"), "application/resource-lists+xml");
    assert_eq!(header(&sent[0], "Accept-Encoding"), "deflate, gzip");
    let stats = world.stats();
    assert_eq!(
        (stats.traffic.bodies_decoded, stats.traffic.bodies_refused),
        (0, 4)
    );
    assert_eq!(
        (stats.watch.watcher_count, stats.publish.publication_count),
        (0, 0)
    );
}

#[test]
fn options_tells_which_encodings_are_read() {
    let mut world = World::open();
    let answer = world.ask("OPTIONS", "alice", "", "");
    assert_eq!(header(&answer, "Accept-Encoding"), "deflate, gzip");
}
