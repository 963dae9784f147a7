//! Tests of the watching agent; the test writes the server's messages itself.

use super::*;
use crate::plan::args::Transport;
use std::time::Duration;

const LOCAL: &str = "127.0.0.1:40001";

fn agent(devices: u32) -> WatchAgent {
    let users = StormUsers {
        user: "device{n}".parse().expect("a pattern"),
        password: None,
        domain: "example.org".into(),
        first: 1,
        stride: 1,
        algorithm: None,
        expires_s: 60,
        transport: Transport::Udp,
        run: 0xbeef,
    };
    let timing = Timing::with_t1(Duration::from_millis(500));
    WatchAgent::new(users, devices, LOCAL.parse().expect("an address"), timing)
}

fn taken(out: &mut Outbox) -> Vec<String> {
    let all = out.iter();
    let all = all.map(|one| String::from_utf8(one.to_vec()).expect("text"));
    let all = all.collect();
    out.clear();
    all
}

fn response(request: &str, status: Status) -> Vec<u8> {
    let request = Message::parse(request.as_bytes()).expect("sound");
    let mut bytes = Vec::new();
    let answer = ResponseBuilder::new(&mut bytes, &request, status, None);
    let answer = answer.to_tag("t");
    answer
        .header(HeaderName::Contact, "<sip:here@192.0.2.1>")
        .finish();
    bytes
}

fn ok(request: &str) -> Vec<u8> {
    response(request, Status::OK)
}

fn notify(watcher: u32, cseq: u32, basic: &str, state: &str) -> Vec<u8> {
    let body = format!("<basic>{basic}</basic>");
    format!(
        "NOTIFY sip:device1@{LOCAL} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bKn{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:device1@example.org>;tag=t\r\nTo: <sip:device1@example.org>;tag=w\r\n\
         Call-ID: 0000beef.{watcher}@storm\r\nCSeq: {cseq} NOTIFY\r\nEvent: presence\r\n\
         Subscription-State: {state}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[test]
fn a_watcher_keeps_the_state_of_the_last_notify_and_answers_each() {
    let (mut agent, mut out) = (agent(2), Outbox::default());
    for _ in 0..3 {
        agent.subscribe(Instant::ZERO, &mut out);
    }
    let requests = taken(&mut out);
    assert!(requests[2].starts_with("SUBSCRIBE sip:device1@example.org SIP/2.0\r\n"));
    assert_eq!(
        Message::parse(requests[2].as_bytes())
            .expect("sound")
            .validate(),
        Ok(())
    );
    for request in &requests {
        agent.receive(Instant::ZERO, &ok(request), &mut out);
    }
    assert_eq!(
        (agent.tally.subscribed, agent.in_flight()),
        (3, 3),
        "nothing told yet"
    );
    for watcher in 0..3 {
        agent.receive(
            Instant::ZERO,
            &notify(watcher, 1, "closed", "active"),
            &mut out,
        );
    }
    assert_eq!(agent.in_flight(), 0);
    agent.receive(Instant::ZERO, &notify(0, 3, "open", "active"), &mut out);
    agent.receive(Instant::ZERO, &notify(0, 2, "closed", "active"), &mut out);
    assert_eq!(taken(&mut out).len(), 5);
    assert_eq!((agent.tally.notified, agent.tally.again), (4, 1));
    assert_eq!(
        agent.wrong(|device| Some(device == 0)),
        1,
        "watcher 2 of device 0"
    );
    assert_eq!(agent.wrong(|_| None), 0);
}

#[test]
fn a_notify_of_no_watcher_is_481_and_an_end_is_counted_once() {
    let (mut agent, mut out) = (agent(1), Outbox::default());
    agent.receive(Instant::ZERO, &notify(0, 1, "open", "active"), &mut out);
    assert!(taken(&mut out)[0].starts_with("SIP/2.0 481 "));
    agent.subscribe(Instant::ZERO, &mut out);
    agent.receive(Instant::ZERO, &ok(&taken(&mut out)[0]), &mut out);
    for cseq in [1, 2] {
        let last = notify(0, cseq, "open", "terminated;reason=timeout");
        agent.receive(Instant::ZERO, &last, &mut out);
    }
    assert_eq!((agent.tally.ended, agent.tally.unexpected), (1, 1));
    assert_eq!(agent.wrong(|_| Some(true)), 1, "it would hear no more");
}

#[test]
fn a_watcher_whose_subscription_is_lost_is_wrong_and_others_are_right() {
    let (mut agent, mut out) = (agent(3), Outbox::default());
    for index in 0..3 {
        agent.subscribe(Instant::ZERO, &mut out);
        agent.receive(Instant::ZERO, &ok(&taken(&mut out)[0]), &mut out);
        let told = notify(index, 1, "open", "active");
        agent.receive(Instant::ZERO, &told, &mut out);
        out.clear();
    }
    let truth = |device| Some(device != 2);
    assert_eq!((agent.in_flight(), agent.wrong(truth)), (0, 1));
    for index in 0..agent.len() {
        agent.ask_again(Instant::ZERO, index, truth, &mut out);
    }
    let asked = taken(&mut out);
    assert_eq!((asked.len(), agent.in_flight()), (2, 2), "{asked:?}");
    assert!(
        asked[0].starts_with("SUBSCRIBE sip:here@192.0.2.1 SIP/2.0\r\n"),
        "{asked:?}"
    );
    assert!(asked[0].contains("To: <sip:device1@example.org>;tag=t\r\n"));
    assert!(asked[0].contains("CSeq: 2 SUBSCRIBE\r\n"));
    let gone = response(&asked[0], Status::CALL_DOES_NOT_EXIST);
    agent.receive(Instant::ZERO, &gone, &mut out);
    agent.receive(Instant::ZERO, &ok(&asked[1]), &mut out);
    assert_eq!(agent.in_flight(), 1, "it is to be told again");
    let told = notify(1, 2, "open", "active");
    agent.receive(Instant::ZERO, &told, &mut out);
    assert_eq!((agent.in_flight(), agent.wrong(truth)), (0, 2));
    let tally = agent.tally;
    assert_eq!((tally.subscribed, tally.ended, tally.failed), (3, 1, 0));
}

#[test]
fn a_notify_after_a_refusal_does_not_change_the_count() {
    let (mut agent, mut out) = (agent(1), Outbox::default());
    agent.subscribe(Instant::ZERO, &mut out);
    let refused = response(&taken(&mut out)[0], Status::FORBIDDEN);
    agent.receive(Instant::ZERO, &refused, &mut out);
    let told = notify(0, 1, "open", "active");
    agent.receive(Instant::ZERO, &told, &mut out);
    assert_eq!((agent.in_flight(), agent.tally.failed), (0, 1));
}

#[test]
fn an_unanswered_subscribe_is_retransmitted_and_given_up() {
    let (mut agent, mut out) = (agent(1), Outbox::default());
    agent.subscribe(Instant::ZERO, &mut out);
    let mut sent = 0;
    while let Some(deadline) = agent.next_deadline() {
        if agent.in_flight() == 0 {
            break;
        }
        agent.expire(deadline, &mut out);
        sent += taken(&mut out).len();
    }
    assert_eq!((sent, agent.tally.failed, agent.in_flight()), (11, 1, 0));
}
