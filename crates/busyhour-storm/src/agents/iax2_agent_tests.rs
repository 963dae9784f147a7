//! Tests of the IAX2 agent, with answers that are made frame by frame.

use std::net::SocketAddr;
use std::time::Duration;

use busyhour::clock::Instant;

use crate::agents::iax2_agent::Iax2Agent;
use crate::agents::pending::Timing;
use crate::agents::registering_agent::RegisteringAgent;
use crate::plan::users::StormUsers;
use crate::results::tally::Failure;
use crate::wire::batch::Outbox;
use busyhour_iax2::frames::{Command, Element, ElementWriter, Elements, Frame, FullFrame, Kind};
use busyhour_sip::auth::challenge_response;

const LOCAL: &str = "127.0.0.1:40000";

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn local() -> SocketAddr {
    LOCAL.parse().expect("an address")
}

fn agent(password: Option<&str>) -> Iax2Agent {
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
    Iax2Agent::new(users, local(), timing, None)
}

/// Returns the only datagram in `out`, and clears `out`.
fn only(out: &mut Outbox) -> Vec<u8> {
    let all: Vec<Vec<u8>> = out.iter().map(<[u8]>::to_vec).collect();
    out.clear();
    let [one] = &all[..] else {
        panic!("one datagram, not {}", all.len())
    };
    one.clone()
}

fn frame(datagram: &[u8]) -> FullFrame<'_> {
    match Frame::parse(datagram) {
        Ok(Frame::Full(frame)) => frame,
        other => panic!("no full frame: {other:?}"),
    }
}

/// An answer of the server, whose call is 900, to a frame of the device.
fn answer(to: &[u8], command: Command, elements: &[(Element, &[u8])]) -> Vec<u8> {
    let to = frame(to);
    let mut payload = Vec::new();
    for (element, data) in elements {
        ElementWriter::new(&mut payload).data(*element, data);
    }
    let answer = FullFrame {
        source_call: 900,
        destination_call: to.source_call,
        outbound: to.outbound,
        inbound: to.outbound.wrapping_add(1),
        kind: Kind::Iax(command),
        payload: &payload,
        ..FullFrame::default()
    };
    let mut datagram = Vec::new();
    answer.write(&mut datagram);
    datagram
}

fn regack(to: &[u8], name: &[u8], from: SocketAddr) -> Vec<u8> {
    let mut address = Vec::new();
    busyhour_iax2::frames::put_apparent_address(&mut address, from);
    let elements = [
        (Element::Username, name),
        (Element::Refresh, &[0, 60]),
        (Element::ApparentAddress, &address),
    ];
    answer(to, Command::RegisterAck, &elements)
}

/// Registers up to the frame that answers the challenge, and returns that
/// frame.
fn proved(agent: &mut Iax2Agent, out: &mut Outbox) -> Vec<u8> {
    agent.register(at(0), at(0), 6, out);
    let asked = only(out);
    let token = answer(
        &asked,
        Command::CallToken,
        &[(Element::CallToken, b"t0ken")],
    );
    agent.receive(at(1), &token, out);
    let with_token = only(out);
    let elements = Elements::parse(frame(&with_token).payload).expect("sound");
    assert_eq!(elements.data(Element::CallToken), Some(&b"t0ken"[..]));
    assert_eq!(frame(&with_token).outbound, 0);
    let challenge = [(Element::Challenge, &b"1234"[..])];
    let challenge = answer(&with_token, Command::RegisterAuth, &challenge);
    agent.receive(at(2), &challenge, out);
    only(out)
}

#[test]
fn a_device_sends_its_token_then_its_password_and_acknowledges_the_result() {
    let (mut agent, mut out) = (agent(Some("secret{n}")), Outbox::default());
    let proof = proved(&mut agent, &mut out);
    let proof_frame = frame(&proof);
    assert_eq!((proof_frame.outbound, proof_frame.inbound), (1, 1));
    assert_eq!(proof_frame.destination_call, 900);
    let elements = Elements::parse(proof_frame.payload).expect("sound");
    assert_eq!(elements.text(Element::Username), Some("device7"));
    let result = challenge_response("1234", "secret7");
    assert_eq!(elements.text(Element::Md5Result), Some(result.as_str()));
    agent.receive(at(5), &regack(&proof, b"device7", local()), &mut out);
    let ack = only(&mut out);
    assert_eq!(frame(&ack).kind, Kind::Iax(Command::Ack));
    assert_eq!((frame(&ack).outbound, frame(&ack).inbound), (2, 2));
    assert_eq!((agent.in_flight(), agent.tally().acknowledged), (0, 1));
}

#[test]
fn an_invalid_result_is_a_failure() {
    let elsewhere = "192.0.2.1:5".parse().expect("an address");
    for (name, from) in [(&b"device8"[..], local()), (b"device7", elsewhere)] {
        let (mut agent, mut out) = (agent(Some("secret")), Outbox::default());
        let proof = proved(&mut agent, &mut out);
        agent.receive(at(5), &regack(&proof, name, from), &mut out);
        let failures = &agent.tally().failed;
        assert_eq!(failures.get(&Failure::NotListed), Some(&1));
    }
}

#[test]
fn refusals_are_distinguished() {
    let (mut agent, mut out) = (agent(Some("secret")), Outbox::default());
    let proof = proved(&mut agent, &mut out);
    let regrej = answer(
        &proof,
        Command::RegisterReject,
        &[(Element::CauseCode, &[29])],
    );
    agent.receive(at(5), &regrej, &mut out);
    assert_eq!(frame(&only(&mut out)).kind, Kind::Iax(Command::Ack));
    let proof = proved(&mut agent, &mut out);
    let inval = answer(&proof, Command::Invalid, &[]);
    agent.receive(at(5), &inval, &mut out);
    let failures = &agent.tally().failed;
    assert_eq!(failures.get(&Failure::Rejected(29)), Some(&1));
    assert_eq!(failures.get(&Failure::Invalid), Some(&1));
}

#[test]
fn a_challenge_without_a_password_ends_the_registration() {
    let (mut agent, mut out) = (agent(None), Outbox::default());
    agent.register(at(0), at(0), 0, &mut out);
    let asked = only(&mut out);
    let challenge = [(Element::Challenge, &b"1234"[..])];
    let challenge = answer(&asked, Command::RegisterAuth, &challenge);
    agent.receive(at(1), &challenge, &mut out);
    assert_eq!(agent.tally().failed.get(&Failure::Unanswerable), Some(&1));
}

#[test]
fn an_unanswered_frame_is_retransmitted_and_then_given_up() {
    let (mut agent, mut out) = (agent(Some("secret")), Outbox::default());
    let proof = proved(&mut agent, &mut out);
    agent.expire(at(501), &mut out);
    assert!(out.is_empty(), "not before its time");
    agent.expire(at(502), &mut out);
    let again = only(&mut out);
    assert!(frame(&again).is_retransmitted);
    assert_eq!(again[4..], proof[4..], "but for the mark the same");
    let in_work = answer(&proof, Command::Ack, &[]);
    agent.receive(at(600), &in_work, &mut out);
    agent.expire(at(31_000), &mut out);
    assert!(out.is_empty(), "the server has it");
    agent.expire(at(33_000), &mut out);
    assert_eq!(agent.tally().failed.get(&Failure::Timeout), Some(&1));
}

#[test]
fn a_device_is_in_one_call_at_a_time_and_numbers_run_out() {
    let (mut agent, mut out) = (agent(Some("secret")), Outbox::default());
    assert!(agent.register(at(0), at(0), 0, &mut out));
    assert!(!agent.register(at(0), at(0), 0, &mut out));
    for index in 1..0x8000 {
        assert!(agent.register(at(0), at(0), index, &mut out));
        out.clear();
    }
    assert_eq!(agent.in_flight(), 0x7fff);
    assert_eq!(agent.tally().failed.get(&Failure::NoCall), Some(&1));
}
