//! Descriptions that come compressed are read, and leave in plain (RFC 3261 §7.4.1).

use busyhour::clock::Instant;
use busyhour_media::{
    DESCRIPTION_BYTES_MAX, Description, MediaActions, MediaTable, MediaWish, Outcome, Passing,
    RelayConfig, Relays, Verdict, bencode::Value,
};
use busyhour_sip::{Flow, Message};
use flate2::{Compression, write::ZlibEncoder};
use std::io::Write;

const OFFER: &str = "v=0\r\nc=IN IP4 192.0.2.7\r\nm=audio 4000 RTP/AVP 0\r\n";
const RELAYED: &str = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 30000 RTP/AVP 0\r\n";

#[test]
fn a_compressed_description_is_rewritten_and_leaves_in_plain() {
    for header in ["Content-Encoding", "e", "content-encoding "] {
        let datagram = invite(header, "deflate", &deflated(OFFER.as_bytes()));
        let (verdict, mut site) = pass(&datagram);
        assert_eq!(verdict, Verdict::Held);
        let (relay, asked) = site.out.commands.pop().unwrap();
        let space = asked.iter().position(|byte| *byte == b' ').unwrap();
        let command = Value::read(&asked[space + 1..]).unwrap();
        let description = command.get("sdp").and_then(Value::as_text);
        assert_eq!(description, Some(OFFER));
        let mut reply = asked[..=space].to_vec();
        let said = [("result", "ok"), ("sdp", RELAYED)];
        let said = said.map(|(name, text)| (name, Value::text(text)));
        Value::dictionary(said).write(&mut reply);
        let Site { table, relays, out } = &mut site;
        table.replied(Instant::ZERO, relay, &reply, relays, out);
        let Outcome::Rewritten(bytes) = out.ready.pop().unwrap().outcome else {
            panic!("it leaves as it came");
        };
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with(&format!("\r\n\r\n{RELAYED}")), "{text}");
        assert!(!text.contains("deflate"), "{text}");
        assert_eq!(text.matches("Content-Length").count(), 1, "{text}");
    }
}

#[test]
fn what_cannot_be_decoded_or_becomes_too_long_is_not_read() {
    let is_read = |encoding: &str, body: &[u8]| {
        let datagram = invite("Content-Encoding", encoding, body);
        let is_read = Description::of(&Message::parse(&datagram).unwrap()).is_some();
        assert_eq!(pass(&datagram).0 == Verdict::Held, is_read);
        is_read
    };
    let of_len = |len: usize| [OFFER.as_bytes(), &vec![b'a'; len - OFFER.len()]].concat();
    assert!(is_read(
        "deflate",
        &deflated(&of_len(DESCRIPTION_BYTES_MAX))
    ));
    assert!(!is_read(
        "deflate",
        &deflated(&of_len(DESCRIPTION_BYTES_MAX + 1))
    ));
    assert!(!is_read("br", OFFER.as_bytes()));
    let whole = deflated(OFFER.as_bytes());
    assert!(!is_read("deflate", &whole[..whole.len() - 1]));
    assert!(is_read("identity", OFFER.as_bytes()));
}

struct Site {
    table: MediaTable<u32>,
    relays: Relays,
    out: MediaActions<u32>,
}

/// An INVITE that is about to leave, at a site with one relay for all calls.
fn pass(datagram: &[u8]) -> (Verdict<u32>, Site) {
    let relay = RelayConfig {
        address: "127.0.0.1:2223".parse().unwrap(),
        weight: 1,
    };
    let mut site = Site {
        table: MediaTable::new(5, 100, true),
        relays: Relays::new(&[relay], 1, Instant::ZERO),
        out: MediaActions::default(),
    };
    let message = Message::parse(datagram).unwrap();
    let [local, remote] = ["192.0.2.1:5060", "192.0.2.9:5060"].map(|it| it.parse().unwrap());
    let passing = Passing {
        datagram,
        message: &message,
        to: Flow::udp(local, remote),
        cause: None,
        wish: MediaWish::Always,
        is_followed: true,
    };
    let Site { table, relays, out } = &mut site;
    let verdict = table.passing(Instant::ZERO, passing, 1, relays, out);
    (verdict, site)
}

fn invite(header: &str, encoding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "INVITE sip:bob@192.0.2.9 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKb1\r\n\
         Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKa\r\nFrom: <sip:alice@x>;tag=a\r\n\
         To: <sip:bob@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nContent-Type: application/sdp\r\n\
         {header}: {encoding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(9));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}
