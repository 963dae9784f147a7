//! Tests of the SIP agent; response builders act as the server.

use std::time::Duration;

use busyhour::clock::{Instant, UnixTime};

use crate::agents::pending::Timing;
use crate::agents::registering_agent::RegisteringAgent;
use crate::agents::sip_agent::SipAgent;
use crate::plan::users::StormUsers;
use crate::results::tally::Failure;
use crate::wire::batch::Outbox;
use busyhour_sip::auth::{Algorithm, AuthOutcome, Authenticator, Secret};
use busyhour_sip::{HeaderName, Message, ResponseBuilder, Status};

const LOCAL: &str = "127.0.0.1:40000";
const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
const HERE: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn agent(password: Option<&str>) -> SipAgent {
    let users = StormUsers {
        user: "device{n}".parse().expect("a pattern"),
        password: password.map(|password| password.parse().expect("a pattern")),
        domain: "example.org".into(),
        transport: crate::plan::args::Transport::Udp,
        first: 1,
        stride: 1,
        algorithm: None,
        expires_s: 60,
        run: 0xbeef,
    };
    let timing = Timing::with_t1(Duration::from_millis(500));
    SipAgent::new(users, LOCAL.parse().expect("an address"), timing, None)
}

/// Returns the only datagram in `out`, and clears `out`.
fn only(out: &mut Outbox) -> Vec<u8> {
    let all: Vec<Vec<u8>> = out.iter().map(<[u8]>::to_vec).collect();
    out.clear();
    let [one] = &all[..] else {
        panic!("one datagram, not {}", all.len())
    };
    assert_eq!(
        Message::parse(one).map(|request| request.validate()),
        Ok(Ok(()))
    );
    one.clone()
}

fn answer(request: &[u8], status: Status, headers: &[(HeaderName, String)]) -> Vec<u8> {
    let request = Message::parse(request).expect("sound");
    let mut out = Vec::new();
    let builder = ResponseBuilder::new(&mut out, &request, status, LOCAL.parse().ok()).to_tag("t");
    let builder = headers.iter().fold(builder, |builder, (name, value)| {
        builder.header(*name, value)
    });
    builder.finish();
    out
}

fn ok(request: &[u8]) -> Vec<u8> {
    let contact = Message::parse(request)
        .expect("sound")
        .header(HeaderName::Contact)
        .expect("a contact")
        .to_owned();
    answer(
        request,
        Status::OK,
        &[(HeaderName::Contact, format!("{contact};expires=60"))],
    )
}

fn header(request: &[u8], name: HeaderName) -> Option<String> {
    Message::parse(request)
        .expect("sound")
        .header(name)
        .map(str::to_owned)
}

#[test]
fn a_registration_ends_with_its_own_contact_and_latency_counts_from_due() {
    let (mut agent, mut out) = (agent(None), Outbox::default());
    assert!(agent.register(at(30), at(10), 4, &mut out));
    assert!(
        !agent.register(at(30), at(30), 4, &mut out),
        "one at a time"
    );
    let request = only(&mut out);
    assert_eq!(
        header(&request, HeaderName::To).as_deref(),
        Some("<sip:device5@example.org>")
    );
    agent.receive(at(40), &ok(&request), &mut out);
    assert_eq!((agent.tally().acknowledged, agent.in_flight()), (1, 0));
    assert_eq!(agent.next_deadline(), None);
    let latency = agent.tally().latency_ns.max();
    assert!((29_900_000..30_100_000).contains(&latency), "{latency}");
    agent.receive(at(41), &ok(&request), &mut out);
    assert_eq!((agent.tally().acknowledged, agent.tally().late), (1, 1));
}

#[test]
fn a_challenge_is_answered_and_its_nonce_used_again() {
    let server = Authenticator::new("example.org", [1; 32], &[Algorithm::Sha256, Algorithm::Md5])
        .expect("a realm");
    let secret = Secret::plaintext("pw5");
    let challenges: Vec<_> = server
        .challenges(NOW, HERE, 1, false)
        .map(|value| (HeaderName::WwwAuthenticate, value.to_string()))
        .collect();
    let judge = |request: &[u8]| {
        let request = Message::parse(request).expect("sound");
        let credentials = request
            .credentials(HeaderName::Authorization)
            .next()
            .expect("there")
            .expect("sound");
        assert_eq!(
            (credentials.username, credentials.algorithm),
            ("device5", "SHA-256")
        );
        server.verify(NOW, HERE, "REGISTER", &credentials, Some(&secret))
    };
    let (mut agent, mut out) = (agent(Some("pw{n}")), Outbox::default());
    agent.register(at(0), at(0), 4, &mut out);
    let first = only(&mut out);
    assert_eq!(header(&first, HeaderName::Authorization), None);
    agent.receive(
        at(1),
        &answer(&first, Status::UNAUTHORIZED, &challenges),
        &mut out,
    );
    let second = only(&mut out);
    assert_eq!(
        judge(&second),
        AuthOutcome::Accepted {
            nonce_count: Some(1)
        }
    );
    assert_eq!(
        header(&second, HeaderName::CSeq).as_deref(),
        Some("2 REGISTER")
    );
    agent.receive(at(2), &ok(&second), &mut out);
    agent.register(at(3), at(3), 4, &mut out);
    assert_eq!(
        judge(&only(&mut out)),
        AuthOutcome::Accepted {
            nonce_count: Some(2)
        }
    );
    assert_eq!(
        (agent.tally().challenged, agent.tally().acknowledged),
        (1, 1)
    );
}

#[test]
fn a_second_challenge_means_a_wrong_secret_unless_it_is_stale() {
    let challenge = |stale: &str| {
        let value =
            format!("Digest realm=\"r\", nonce=\"n\", algorithm=MD5, qop=\"auth\", stale={stale}");
        vec![(HeaderName::WwwAuthenticate, value)]
    };
    let (mut agent, mut out) = (agent(Some("pw")), Outbox::default());
    agent.register(at(0), at(0), 0, &mut out);
    for stale in ["false", "true", "true"] {
        let request = only(&mut out);
        agent.receive(
            at(1),
            &answer(&request, Status::UNAUTHORIZED, &challenge(stale)),
            &mut out,
        );
    }
    let request = only(&mut out);
    agent.receive(
        at(2),
        &answer(&request, Status::UNAUTHORIZED, &challenge("false")),
        &mut out,
    );
    assert_eq!(agent.tally().failed.get(&Failure::Status(401)), Some(&1));
    assert!(out.is_empty() && agent.in_flight() == 0);
}

/// RFC 3261 §17.1.2.2: 500 ms, 1 s, 2 s, then every 4 s, until 32 s.
#[test]
fn retransmissions_follow_timer_e_and_end_with_timer_f() {
    let (mut agent, mut out) = (agent(None), Outbox::default());
    agent.register(at(0), at(0), 0, &mut out);
    let first = only(&mut out);
    let mut sent_at = Vec::new();
    while let Some(deadline) = agent.next_deadline() {
        agent.expire(deadline, &mut out);
        if !out.is_empty() {
            assert_eq!(only(&mut out), first, "the same bytes again");
            sent_at.push((deadline - Instant::ZERO).as_millis());
        }
    }
    assert_eq!(
        sent_at,
        [
            500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500
        ]
    );
    assert_eq!(agent.tally().failed.get(&Failure::Timeout), Some(&1));
    assert_eq!(agent.tally().retransmitted, 10);
}

#[test]
fn a_provisional_answer_slows_the_retransmissions() {
    let (mut agent, mut out) = (agent(None), Outbox::default());
    agent.register(at(0), at(0), 0, &mut out);
    let request = only(&mut out);
    agent.receive(at(1), &answer(&request, Status::TRYING, &[]), &mut out);
    agent.expire(at(500), &mut out);
    only(&mut out);
    assert_eq!(agent.next_deadline(), Some(at(4500)));
}

#[test]
fn after_a_423_the_required_lifetime_is_requested() {
    let (mut agent, mut out) = (agent(None), Outbox::default());
    agent.register(at(0), at(0), 0, &mut out);
    let least = |seconds: &str| [(HeaderName::MinExpires, seconds.to_owned())];
    agent.receive(
        at(1),
        &answer(&only(&mut out), Status::INTERVAL_TOO_BRIEF, &least("90")),
        &mut out,
    );
    let second = only(&mut out);
    assert_eq!(header(&second, HeaderName::Expires).as_deref(), Some("90"));
    agent.receive(
        at(2),
        &answer(&second, Status::INTERVAL_TOO_BRIEF, &least("90")),
        &mut out,
    );
    assert_eq!(agent.tally().failed.get(&Failure::Status(423)), Some(&1));
}

#[test]
fn a_response_without_the_contact_does_not_count_as_acknowledged() {
    let (mut agent, mut out) = (agent(None), Outbox::default());
    agent.register(at(0), at(0), 0, &mut out);
    let request = only(&mut out);
    let stranger = String::from_utf8(ok(&request))
        .expect("text")
        .replace("beef", "beed");
    for datagram in [&b"noise"[..], stranger.as_bytes(), &request] {
        agent.receive(at(1), datagram, &mut out);
    }
    assert_eq!((agent.tally().unexpected, agent.in_flight()), (3, 1));
    agent.receive(at(2), &answer(&request, Status::OK, &[]), &mut out);
    assert_eq!(agent.tally().failed.get(&Failure::NotListed), Some(&1));
    assert_eq!(agent.tally().acknowledged, 0);
}

#[test]
fn without_a_password_a_challenge_is_a_failure() {
    let (mut agent, mut out) = (agent(None), Outbox::default());
    agent.register(at(0), at(0), 0, &mut out);
    let value = "Digest realm=\"r\", nonce=\"n\"".to_owned();
    let challenge = answer(
        &only(&mut out),
        Status::UNAUTHORIZED,
        &[(HeaderName::WwwAuthenticate, value)],
    );
    agent.receive(at(1), &challenge, &mut out);
    assert_eq!(agent.tally().failed.get(&Failure::Status(401)), Some(&1));
}
