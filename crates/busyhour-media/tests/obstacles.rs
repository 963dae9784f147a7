//! Which offers cannot work from end to end, and bencode as any bytes.

use busyhour_media::{Description, Obstacle, bencode::Value};
use busyhour_sip::{Flow, Message, Transport};
use proptest::prelude::*;

fn obstacles(source: &str, media: &str, contact: &str, to: &str) -> Vec<&'static str> {
    let body = format!("v=0\r\nc=IN IP4 {media}\r\nm=audio 4000 RTP/AVP 0\r\n");
    offer(source, &body, contact, to, Transport::Udp)
}

fn offer(source: &str, body: &str, contact: &str, to: &str, over: Transport) -> Vec<&'static str> {
    let text = format!(
        "INVITE sip:bob@{contact} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2\r\n\
         Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bK1;received={source}\r\nCall-ID: 1\r\n\
         Content-Type: application/sdp\r\n\r\n{body}"
    );
    let message = Message::parse(text.as_bytes()).unwrap();
    let local = "192.0.2.1:5060".parse().unwrap();
    let to = Flow {
        transport: over,
        ..Flow::udp(local, to.parse().unwrap())
    };
    let found = Obstacle::of_offer(&message, to).into_iter();
    found.map(name).collect()
}

fn name(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::WebToPlain => "web to plain",
        Obstacle::PlainToWeb => "plain to web",
        Obstacle::SenderBehindNat { .. } => "sender behind NAT",
        Obstacle::RecipientBehindNat { .. } => "recipient behind NAT",
        Obstacle::NoCommonNetwork { .. } => "no common network",
        Obstacle::OtherFamily { .. } => "IPv4 and IPv6",
    }
}

#[test]
fn addresses_that_do_not_reach_each_other_are_named() {
    let public = ("198.51.100.7", "203.0.113.9", "203.0.113.9:5060");
    let (source, contact, to) = public;
    assert_eq!(obstacles(source, "198.51.100.7", contact, to), [""; 0]);
    assert_eq!(
        obstacles(source, "192.168.1.5", contact, to),
        ["sender behind NAT"]
    );
    assert_eq!(
        obstacles(source, source, "10.0.0.4", to),
        ["recipient behind NAT"]
    );
    let both = obstacles(source, "192.168.1.5", "10.0.0.4", to);
    assert_eq!(both, ["sender behind NAT", "recipient behind NAT"]);
    // An office that calls a public gateway without NAT for SIP, as behind an SBC.
    assert_eq!(
        obstacles("10.0.0.5", "10.0.0.5", contact, to),
        ["no common network"]
    );
    // One office.
    let inside = obstacles("10.0.0.5", "10.0.0.5", "10.0.0.4", "10.0.0.4:5060");
    assert_eq!(inside, [""; 0]);
    assert_eq!(
        obstacles("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1:1"),
        [""; 0]
    );
    assert_eq!(
        obstacles(source, source, contact, "[2001:db8::1]:5060"),
        ["IPv4 and IPv6"]
    );
}

#[test]
fn browsers_and_telephones_do_not_understand_each_other() {
    let web = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:x\r\n\
        a=fingerprint:sha-256 00\r\n";
    let plain = "v=0\r\nc=IN IP4 198.51.100.7\r\nm=audio 4000 RTP/AVP 0\r\n";
    let to = "203.0.113.9:5060";
    let over = |body, over| offer("198.51.100.7", body, "203.0.113.9", to, over);
    assert_eq!(over(web, Transport::Udp), ["web to plain"]);
    assert_eq!(over(plain, Transport::Wss), ["plain to web"]);
    assert_eq!(over(web, Transport::Ws), [""; 0]);
    // A stream that is not used says nothing.
    assert_eq!(
        over("v=0\r\nm=audio 0 RTP/AVP 0\r\n", Transport::Ws),
        [""; 0]
    );
}

#[test]
fn the_address_of_the_first_used_stream_counts() {
    let address = |text: &str| {
        let read = Description::read(text.replace('/', "\r\n").as_bytes());
        read.address.map(|ip| ip.to_string())
    };
    let own = "c=IN IP4 192.0.2.1/m=audio 1 x 0/c=IN IP4 192.0.2.2";
    assert_eq!(address(own).as_deref(), Some("192.0.2.2"));
    let second = "c=IN IP4 192.0.2.1/m=audio 1 x 0/m=video 2 x 0/c=IN IP4 192.0.2.2";
    assert_eq!(address(second).as_deref(), Some("192.0.2.1"));
    assert_eq!(address("c=IN IP4 0.0.0.0/m=audio 1 x 0"), None);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Value::read(&bytes);
        let _ = Description::read(&bytes);
    }

    #[test]
    fn what_was_written_is_read(texts in prop::collection::vec(".*", 0..6), number in any::<i64>()) {
        let list = Value::List(texts.iter().map(|text| Value::text(text)).collect());
        let value = Value::dictionary([("list", list), ("number", Value::Number(number))]);
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        prop_assert_eq!(Value::read(&bytes), Ok(value));
    }
}

#[test]
fn deep_nesting_is_refused() {
    assert!(Value::read(&[b'l'; 10_000]).is_err());
    assert!(Value::read(b"99999999999999999999:x").is_err());
    assert!(Value::read(b"i1ei2e").is_err());
}
