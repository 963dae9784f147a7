//! Calls whose media a real rtpengine relays, and calls for which there is none.

#[path = "../support/mod.rs"]
mod support;

mod compressed;
mod forking;
mod late_offer;
mod relays;

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};
use support::{
    Place, ServerProcess,
    phone::{Phone, header},
    rtpengine::Rtpengine,
    wait_until,
};

/// A telephone with a socket for its media.
struct Telephone {
    phone: Phone,
    media: UdpSocket,
}

impl Telephone {
    /// One at 127.0.0.`host` that has registered.
    fn new(server: &ServerProcess, host: u8, user: &str) -> Self {
        Self::of(Phone::new(server, host, user))
    }

    fn of(mut phone: Phone) -> Self {
        let register = phone.register_request();
        let answer = phone.ask(&register);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        let media = UdpSocket::bind((phone.address().ip(), 0)).unwrap();
        media
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self { phone, media }
    }

    fn description(&self) -> String {
        let address = self.media.local_addr().unwrap();
        described(&address.ip().to_string(), address.port())
    }

    fn contact(&self) -> String {
        format!(
            "Contact: <sip:{}@{}>\r\n",
            self.phone.user,
            self.phone.address()
        )
    }

    fn invite(&mut self, to: &str, description: &str) -> String {
        let uri = format!("sip:{to}@example.com");
        let headers = format!("{}Max-Forwards: 70\r\n", self.contact());
        let request = self.phone.request("INVITE", &uri, &uri, &headers);
        with_description(&request, description)
    }

    fn hear_until(&self, begin: &str) -> String {
        loop {
            let heard = self.phone.hear(Duration::from_secs(60)).expect("a message");
            if heard.starts_with(begin) {
                return heard;
            }
        }
    }

    /// The response to a request, with a description if it has any.
    fn respond(&self, request: &str, status: &str, description: &str) {
        let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"];
        let lines = request
            .lines()
            .filter(|line| kept.iter().any(|it| line.starts_with(it)));
        let lines: String = lines
            .map(
                |line| match line.starts_with("To:") && !line.contains("tag=") {
                    true => format!("{line};tag=t\r\n"),
                    false => format!("{line}\r\n"),
                },
            )
            .collect();
        let answer = format!(
            "SIP/2.0 {status}\r\n{lines}{}Content-Length: 0\r\n\r\n",
            self.contact()
        );
        self.phone.send(&match description.is_empty() {
            true => answer,
            false => with_description(&answer, description),
        });
    }

    /// A request within the dialog of this answer.
    fn within(&self, method: &str, cseq: u32, answer: &str) -> String {
        let mut routes: Vec<_> = answer
            .lines()
            .filter_map(|line| line.strip_prefix("Record-Route: "))
            .collect();
        routes.reverse();
        let of = |name| header(answer, name).unwrap();
        format!(
            "{method} {} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK{method}{cseq};rport\r\n\
             Max-Forwards: 70\r\nRoute: {}\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\n\
             CSeq: {cseq} {method}\r\n{}Content-Length: 0\r\n\r\n",
            of("Contact").trim_matches(['<', '>']),
            self.phone.address(),
            routes.join(", "),
            of("From"),
            of("To"),
            of("Call-ID"),
            self.contact(),
        )
    }
}

fn described(ip: &str, port: u16) -> String {
    let family = if ip.contains(':') { 6 } else { 4 };
    format!(
        "v=0\r\no=- 1 1 IN IP{family} {ip}\r\ns=-\r\nc=IN IP{family} {ip}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
}

fn with_description(message: &str, description: &str) -> String {
    let len = description.len();
    message.replace(
        "Content-Length: 0\r\n\r\n",
        &format!("Content-Type: application/sdp\r\nContent-Length: {len}\r\n\r\n{description}"),
    )
}

/// Where a description wants its audio.
fn audio_of(message: &str) -> SocketAddr {
    let after = |begin: &str| {
        let line = message.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("no {begin} in {message}"))
    };
    let port = after("m=audio ").split(' ').next().unwrap();
    let (_, ip) = after("c=IN IP").split_once(' ').unwrap();
    SocketAddr::new(ip.trim().parse().unwrap(), port.parse().unwrap())
}

/// RTP from one side is heard at the other.
fn is_heard(from: &Telephone, relay: SocketAddr, to: &Telephone, sequence: u16) {
    let mut packet = vec![0x80, 0];
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 1, 0, 0, 0, host_of(from)]);
    packet.extend([0x55; 160]);
    let deadline = Instant::now() + Duration::from_secs(60);
    to.media
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut room = [0; 2000];
    while Instant::now() < deadline {
        from.media.send_to(&packet, relay).unwrap();
        while let Ok((len, source)) = to.media.recv_from(&mut room) {
            if room[..len] == packet[..] {
                let relays_own = ["127.0.0.1", "::1"].contains(&&*source.ip().to_string());
                assert!(relays_own && source != from.media.local_addr().unwrap());
                return;
            }
        }
    }
    panic!("{sequence} is not heard");
}

fn host_of(telephone: &Telephone) -> u8 {
    match telephone.phone.address() {
        SocketAddr::V4(address) => address.ip().octets()[3],
        SocketAddr::V6(_) => 0,
    }
}

fn server(place: &Place, media: &str) -> ServerProcess {
    place.server(&configuration(media))
}

fn configuration(media: &str) -> String {
    format!("[sip]\nauth = \"open\"\ndomains = [\"example.com\"]\n[media]\n{media}")
}

/// A call that is answered: the server's answer to the caller.
fn call(alice: &mut Telephone, bob: &Telephone) -> (String, String) {
    let invite = alice.invite("bob", &alice.description());
    alice.phone.send(&invite);
    let offered = bob.hear_until("INVITE ");
    bob.respond(&offered, "180 Ringing", "");
    bob.respond(&offered, "200 OK", &bob.description());
    let answer = alice.hear_until("SIP/2.0 200 ");
    let cseq = header(&answer, "CSeq").unwrap().split(' ').next().unwrap();
    alice
        .phone
        .send(&alice.within("ACK", cseq.parse().unwrap(), &answer));
    bob.hear_until("ACK ");
    (offered, answer)
}

#[test]
fn the_media_of_a_call_goes_through_a_relay_from_the_offer_to_the_end() {
    let (relay, place) = (Rtpengine::start(13_000..13_100), Place::new());
    // Nobody is at the first address: the call goes to the other one.
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (gone, here) = (nobody.local_addr().unwrap(), relay.address);
    let server = server(
        &place,
        &format!("relays = \"{gone}=1000,{here}\"\nuse = \"always\"\n"),
    );
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let (offered, answer) = call(&mut alice, &bob);
    let (to_alice, to_bob) = (audio_of(&offered), audio_of(&answer));
    assert!(to_alice.ip().to_string() == "127.0.0.1" && to_bob.ip() == to_alice.ip());
    is_heard(&alice, to_bob, &bob, 1);
    is_heard(&bob, to_alice, &alice, 2);
    is_heard(&alice, to_bob, &bob, 3);
    // Hold, by another offer of the caller.
    let held = format!("{}a=sendonly\r\n", alice.description());
    let again = with_description(&alice.within("INVITE", 50, &answer), &held);
    alice.phone.send(&again);
    let offered = bob.hear_until("INVITE ");
    assert_eq!(audio_of(&offered).ip().to_string(), "127.0.0.1");
    assert!(offered.contains("a=sendonly"), "{offered}");
    bob.respond(&offered, "200 OK", &bob.description());
    let answer = alice.hear_until("SIP/2.0 200 ");
    alice.phone.send(&alice.within("ACK", 50, &answer));
    bob.hear_until("ACK ");
    assert_eq!(relay.calls(), 1);
    alice.phone.send(&alice.within("BYE", 51, &answer));
    let bye = bob.hear_until("BYE ");
    bob.respond(&bye, "200 OK", "");
    alice.hear_until("SIP/2.0 200 ");
    wait_until(|| relay.calls() == 0, || "the call stays".to_owned());
    server.wait_for("/media/call_count", |count| count == 0);
    assert!(server.stat("/media/rewritten") >= 4);
    let media: serde_json::Value = serde_json::from_str(&server.get("/api/media")).unwrap();
    assert_eq!(media["media"][0]["state"], "down", "{media}");
    assert_eq!(media["media"][1]["state"], "up", "{media}");
    assert!(media["media"][1]["round_trip_ns"].is_u64(), "{media}");
    server.wait_for_log("media relay does not answer");
}

/// A Call-ID is no secret: who watches a lamp is told it.
#[test]
fn nobody_ends_the_media_of_a_call_with_the_same_name() {
    let (relay, place) = (Rtpengine::start(13_500..13_600), Place::new());
    let media = format!("relays = \"{}\"\nuse = \"always\"\n", relay.address);
    let server = server(&place, &media);
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let mut carol = Telephone::new(&server, 4, "carol");
    let (_, answer) = call(&mut alice, &bob);
    let to_bob = audio_of(&answer);
    is_heard(&alice, to_bob, &bob, 1);
    let invite = carol.invite("bob", &carol.description());
    let own = header(&invite, "Call-ID").unwrap().to_owned();
    let same = invite.replace(&own, header(&answer, "Call-ID").unwrap());
    carol.phone.send(&same);
    let offered = bob.hear_until("INVITE ");
    bob.respond(&offered, "200 OK", &bob.description());
    let hers = carol.hear_until("SIP/2.0 200 ");
    // A dialog that nobody knows.
    let bye = carol
        .within("BYE", 60, &hers)
        .replace(";tag=t", ";tag=nobody");
    carol.phone.send(&bye);
    let bye = bob.hear_until("BYE ");
    bob.respond(&bye, "481 Call/Transaction Does Not Exist", "");
    carol.hear_until("SIP/2.0 481 ");
    assert_eq!(server.stat("/media/call_count"), 1);
    is_heard(&alice, to_bob, &bob, 2);
}

#[test]
fn a_call_that_is_refused_or_cancelled_leaves_nothing_at_the_relay() {
    let (relay, place) = (Rtpengine::start(13_100..13_200), Place::new());
    let media = format!("relays = \"{}\"\nuse = \"always\"\n", relay.address);
    let server = server(&place, &media);
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let invite = alice.invite("bob", &alice.description());
    alice.phone.send(&invite);
    let offered = bob.hear_until("INVITE ");
    assert_eq!(relay.calls(), 1);
    bob.respond(&offered, "486 Busy Here", "");
    alice.hear_until("SIP/2.0 486 ");
    wait_until(|| relay.calls() == 0, || "a refused call stays".to_owned());
    let invite = alice.invite("bob", &alice.description());
    alice.phone.send(&invite);
    let offered = bob.hear_until("INVITE ");
    bob.respond(&offered, "180 Ringing", "");
    alice.hear_until("SIP/2.0 180 ");
    let cancel = invite.split("Content-Type").next().unwrap();
    let cancel = cancel.replace("INVITE", "CANCEL") + "Content-Length: 0\r\n\r\n";
    alice.phone.send(&cancel);
    let heard = bob.hear_until("CANCEL ");
    bob.respond(&heard, "200 OK", "");
    bob.respond(&offered, "487 Request Terminated", "");
    alice.hear_until("SIP/2.0 487 ");
    wait_until(
        || relay.calls() == 0,
        || "a cancelled call stays".to_owned(),
    );
}

#[test]
fn without_a_relay_calls_are_refused_or_go_on_and_others_are_not_delayed() {
    for without in ["refuse", "pass"] {
        let (relay, place) = (Rtpengine::start(13_200..13_300), Place::new());
        let media = format!(
            "relays = \"{}\"\nuse = \"always\"\nwithout_relay = \"{without}\"\n",
            relay.address
        );
        let server = server(&place, &media);
        let mut alice = Telephone::new(&server, 2, "alice");
        let bob = Telephone::new(&server, 3, "bob");
        call(&mut alice, &bob);
        drop(relay);
        // Nobody else waits for the relay. On a slow machine it may be given up before the
        // registration comes: then that shows nothing, and is tried again.
        let mut tries = 0;
        let mut is_served_meanwhile = || {
            tries += 1;
            let invite = alice.invite("bob", &alice.description());
            alice.phone.send(&invite);
            server.wait_for("/media/calls", |calls| calls == 1 + tries);
            let carol = format!("carol{tries}");
            Telephone::new(&server, 4, &carol);
            let is_still_asked = server.stat("/media/unanswered") < tries;
            if without == "refuse" {
                let answer = alice.hear_until("SIP/2.0 480 ");
                assert!(
                    answer.contains(header(&invite, "Call-ID").unwrap()),
                    "{answer}"
                );
            } else {
                let offered = bob.hear_until("INVITE ");
                assert_eq!(audio_of(&offered), alice.media.local_addr().unwrap());
                bob.respond(&offered, "486 Busy Here", "");
                alice.hear_until("SIP/2.0 486 ");
            }
            is_still_asked
        };
        assert!((0..10).any(|_| is_served_meanwhile()));
        let counter = if without == "refuse" {
            "refused"
        } else {
            "passed"
        };
        assert_eq!(server.stat(&format!("/media/{counter}")), tries);
        has_record(&server, "\"media_failure\":\"relay-failed\"");
        server.wait_for_log("the media relays (media.relays)");
    }
}

/// A server that has begun anew does not know the call, and ends it at the relay all the same.
#[test]
fn the_media_of_a_call_outlives_a_restart_and_ends_with_its_bye() {
    let (relay, place) = (Rtpengine::start(13_600..13_700), Place::new());
    let media = format!("relays = \"{}\"\nuse = \"always\"\n", relay.address);
    let configuration = configuration(&media);
    let first = place.server(&configuration);
    let mut alice = Telephone::new(&first, 2, "alice");
    let bob = Telephone::new(&first, 3, "bob");
    let (offered, answer) = call(&mut alice, &bob);
    let (to_alice, to_bob) = (audio_of(&offered), audio_of(&answer));
    is_heard(&alice, to_bob, &bob, 1);
    let address = first.sip;
    first.kill();
    let again = place.server_at(address, &configuration);
    is_heard(&alice, to_bob, &bob, 2);
    is_heard(&bob, to_alice, &alice, 3);
    assert_eq!(relay.calls(), 1);
    alice.phone.send(&alice.within("BYE", 51, &answer));
    let bye = bob.hear_until("BYE ");
    bob.respond(&bye, "200 OK", "");
    alice.hear_until("SIP/2.0 200 ");
    wait_until(|| relay.calls() == 0, || "the call stays".to_owned());
    assert_eq!(again.stat("/media/errors"), 0);
}

#[test]
fn a_call_whose_media_cannot_flow_is_named_with_the_reason() {
    let place = Place::new();
    let server = server(&place, "use = \"auto\"\n");
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let web = described("127.0.0.2", 9).replace("RTP/AVP", "UDP/TLS/RTP/SAVPF")
        + "a=ice-ufrag:x\r\na=fingerprint:sha-256 00\r\n";
    let invite = alice.invite("bob", &web);
    alice.phone.send(&invite);
    let offered = bob.hear_until("INVITE ");
    server.wait_for_log("the media of a call cannot flow");
    server.wait_for_log("a browser offers DTLS-SRTP with ICE to plain RTP");
    assert_eq!(server.stat("/media/obstructed"), 1);
    bob.respond(&offered, "486 Busy Here", "");
    alice.hear_until("SIP/2.0 486 ");
    has_record(&server, "\"media_failure\":\"web-to-plain\"");
    // Of one source, ten of a hundred lines a second; all are counted.
    for _ in 0..100 {
        let invite = alice.invite("bob", &web);
        alice.phone.send(&invite);
        bob.hear_until("INVITE ");
    }
    server.wait_for("/traffic/log_lines_suppressed", |count| count > 0);
    server.wait_for("/media/obstructed", |count| count == 101);
}

/// A record of an ended call says so.
fn has_record(server: &ServerProcess, text: &str) {
    let records = || server.get("/api/v1/call-records");
    wait_until(|| records().contains(text), records);
}

/// Who has a relay of his own, or wants none, is not told to give one.
#[test]
fn a_call_that_is_to_use_no_relay_is_not_named() {
    let place = Place::new();
    let server = server(&place, "use = \"never\"\n");
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let web = described("127.0.0.2", 9) + "a=ice-ufrag:x\r\na=fingerprint:sha-256 00\r\n";
    let invite = alice.invite("bob", &web);
    alice.phone.send(&invite);
    let offered = bob.hear_until("INVITE ");
    bob.respond(&offered, "200 OK", &bob.description());
    alice.hear_until("SIP/2.0 200 ");
    assert_eq!(server.stat("/media/obstructed"), 0);
    assert!(!server.log().contains("media of a call cannot flow"));
}
