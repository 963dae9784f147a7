//! What reading and answering one REGISTER costs, step by step.
//!
//! ```text
//! cargo run --release -p busyhour-sip --example sip_cost
//! ```

use std::hint::black_box;
use std::time::Instant;

use busyhour::clock::UnixTime;
use busyhour_sip::auth::{Algorithm, Answer, Authenticator, Secret};
use busyhour_sip::{
    Contacts, DigestChallenge, DigestCredentials, HeaderName, Message, ResponseBuilder, Status,
};

const REGISTER: &[u8] = b"REGISTER sip:example.org SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bKnashds7;rport\r\n\
    Max-Forwards: 70\r\n\
    From: \"Alice\" <sip:alice@example.org>;tag=456248\r\n\
    To: \"Alice\" <sip:alice@example.org>\r\n\
    Call-ID: 843817637684230@998sdasdh09\r\n\
    CSeq: 1826 REGISTER\r\n\
    Contact: <sip:alice@192.0.2.7:5070;ob>;expires=600\r\n\
    Expires: 7200\r\n\
    User-Agent: Desk/1.0\r\n\
    Content-Length: 0\r\n\r\n";

fn main() {
    let message = Message::parse(REGISTER).expect("sound");
    let source = "192.0.2.7:5070".parse().ok();
    measure("parse the frame", || {
        drop(black_box(Message::parse(black_box(REGISTER))))
    });
    measure("parse and validate", || {
        let _ = black_box(Message::parse(black_box(REGISTER)).map(|message| message.validate()));
    });
    measure("canonical address of record", {
        let mut aor = String::new();
        move || {
            let to = Message::parse(REGISTER).and_then(|message| message.to());
            to.iter()
                .filter_map(|to| to.uri.as_sip())
                .for_each(|uri| uri.canonical_aor(&mut aor));
            black_box(&aor);
        }
    });
    measure("read the contacts", || {
        if let Ok(Contacts::List(contacts)) = black_box(&message).contacts() {
            contacts.for_each(|contact| {
                let _ = black_box(contact);
            });
        }
    });
    let mut out = Vec::with_capacity(1024);
    measure("write a 200", || {
        out.clear();
        ResponseBuilder::new(&mut out, black_box(&message), Status::OK, source)
            .to_tag("t")
            .header(
                HeaderName::Contact,
                "<sip:alice@192.0.2.7:5070;ob>;expires=600",
            )
            .finish();
    });
    Algorithm::ALL.into_iter().for_each(measure_digest);
}

fn measure_digest(algorithm: Algorithm) {
    let server = Authenticator::new("example.org", [7; 32], &[algorithm]).expect("a realm");
    let now = UnixTime::from_secs(1_800_000_000);
    let source = [192, 0, 2, 1].into();
    let challenge = server
        .challenges(now, source, 1, false)
        .next()
        .expect("one")
        .to_string();
    let challenge = DigestChallenge::parse(&challenge).flatten().expect("sound");
    let answer =
        Answer::new(&challenge, "alice", "wonder", "REGISTER", "sip:example.org").expect("known");
    let answer = answer.counted(1, "c0ffee").to_string();
    let credentials = DigestCredentials::parse(&answer).flatten().expect("sound");
    let ha1 = algorithm.hash(&[b"alice", b"example.org", b"wonder"]);
    let secret = Secret::hashed([(algorithm, ha1)]);
    measure(&format!("verify {algorithm} by HA1"), || {
        let _ = black_box(server.verify(
            now,
            source,
            "REGISTER",
            black_box(&credentials),
            Some(&secret),
        ));
    });
}

/// The best of several rounds, in nanoseconds a call.
fn measure(what: &str, mut work: impl FnMut()) {
    let mut round = || {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| work());
        begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let best = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("{what:32} {best:8.0} ns");
}

const CALLS: u32 = 50_000;
const ROUNDS: u32 = 9;
