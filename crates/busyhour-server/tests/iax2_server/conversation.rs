//! Each test is one situation.

use crate::host::{Host, PASSWORD, config, device};
use crate::wire::*;
use busyhour_iax2::CallTokens;
use busyhour_registrar::watch::{MessageCounts, MessageSummary};
use busyhour_server::server::{Authentication, Limits, ServerConfig};
use std::{net::SocketAddr, time::Duration};

/// A first frame with an empty call token.
fn hello(call: u16, user: &str) -> Wire {
    first(call, user, REGREQ).with(IE_CALLTOKEN, "")
}

fn first(call: u16, user: &str, subclass: u8) -> Wire {
    let frame = Wire {
        scall: call,
        ts: 3,
        subclass,
        ..Wire::default()
    };
    frame.with(IE_USERNAME, user).with(IE_REFRESH, [0, 60])
}

/// The first frame again, with the call token.
fn vouched(host: &mut Host, from: SocketAddr, call: u16, user: &str, subclass: u8) -> Wire {
    let answer = host.ask_one(from, &hello(call, user));
    assert_eq!((answer.subclass, answer.dcall), (CALLTOKEN, call));
    let token = answer.element(IE_CALLTOKEN).expect("a token");
    first(call, user, subclass).with(IE_CALLTOKEN, token)
}

/// The frame that answers a challenge.
pub fn proof(regauth: &Wire, user: &str, password: &str, subclass: u8) -> Wire {
    assert_eq!(regauth.subclass, REGAUTH);
    assert_eq!(regauth.element(IE_AUTHMETHODS), Some(&[0, 2][..]));
    let result = md5_result(&regauth.text(IE_CHALLENGE), password);
    let frame = Wire {
        scall: regauth.dcall,
        dcall: regauth.scall,
        ts: 20,
        oseq: 1,
        iseq: 1,
        subclass,
        ..Wire::default()
    };
    let frame = frame.with(IE_USERNAME, user).with(IE_REFRESH, [1, 44]);
    frame.with(IE_MD5_RESULT, result)
}

fn ack(of: &Wire, oseq: u8) -> Wire {
    Wire {
        scall: of.dcall,
        dcall: of.scall,
        ts: of.ts,
        oseq,
        iseq: of.oseq + 1,
        subclass: ACK,
        ..Wire::default()
    }
}

/// Lets the call go on until the server sends its challenge; returns the
/// REGAUTH.
pub fn challenged(host: &mut Host, from: SocketAddr, call: u16, user: &str) -> Wire {
    let frame = vouched(host, from, call, user, REGREQ);
    host.ask_one(from, &frame)
}

/// Lets the call go on until the server sends REGACK; returns it.
fn registered(host: &mut Host, from: SocketAddr, call: u16, user: &str) -> Wire {
    let regauth = challenged(host, from, call, user);
    let regack = host.ask_one(from, &proof(&regauth, user, PASSWORD, REGREQ));
    assert_eq!(regack.subclass, REGACK, "{regack:?}");
    regack
}

/// Registers: up to REGACK, which is acknowledged.
pub fn register(host: &mut Host, from: SocketAddr, call: u16, user: &str) {
    let regack = registered(host, from, call, user);
    assert_eq!(host.ask(from, &ack(&regack, 2)), []);
}

pub fn release(host: &mut Host, from: SocketAddr, call: u16, user: &str) {
    let frame = vouched(host, from, call, user, REGREL);
    let regauth = host.ask_one(from, &frame);
    let regack = host.ask_one(from, &proof(&regauth, user, PASSWORD, REGREL));
    assert_eq!(regack.subclass, REGACK, "{regack:?}");
    assert_eq!(regack.element(IE_REFRESH), None);
    assert_eq!(host.ask(from, &ack(&regack, 2)), []);
}

fn rejected(host: &mut Host, user: &str, password: &str) -> Wire {
    let regauth = challenged(host, device(), 5, user);
    let regrej = host.ask_one(device(), &proof(&regauth, user, password, REGREQ));
    assert_eq!(regrej.subclass, REGREJ, "{regrej:?}");
    assert_eq!((regrej.oseq, regrej.iseq), (1, 2));
    assert_eq!(host.ask(device(), &ack(&regrej, 2)), []);
    regrej
}

#[test]
fn a_device_registers_and_the_answer_leaves_when_it_is_durable() {
    let mut host = Host::new();
    let regauth = challenged(&mut host, device(), 5, "alice");
    assert_eq!((regauth.oseq, regauth.iseq), (0, 1));
    assert_eq!(regauth.text(IE_USERNAME), "alice");
    host.receive(
        device(),
        &proof(&regauth, "alice", PASSWORD, REGREQ).encode(),
    );
    assert_eq!(host.answers(device()), [], "the disk has not answered");
    host.settle();
    assert_eq!(host.disk.contents().bindings.len(), 1);
    let regack = host.answers(device()).remove(0);
    assert_eq!((regack.subclass, regack.oseq, regack.iseq), (REGACK, 1, 2));
    assert_eq!(regack.scall, regauth.scall);
    assert_eq!(regack.text(IE_USERNAME), "alice");
    assert_eq!(regack.element(IE_REFRESH), Some(&[1, 44][..]));
    assert_eq!(regack.element(IE_DATETIME).map(<[u8]>::len), Some(4));
    let address = [2, 0, 0x11, 0xd9, 192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(regack.element(IE_APPARENT_ADDR), Some(&address[..]));
    assert_eq!(host.ask(device(), &ack(&regack, 2)), []);
    let stats = host.stats();
    assert_eq!((stats.iax2.accepted, stats.iax2.completed), (1, 1));
    assert_eq!(
        (stats.iax2.call_count, stats.registrar.binding_count),
        (0, 1)
    );
    assert_eq!(host.contacts(), ["iax:alice@192.0.2.7:4569"]);
}

#[test]
fn regack_says_how_many_messages_wait() {
    let mut host = Host::new();
    let regack = registered(&mut host, device(), 5, "alice");
    assert_eq!(regack.element(IE_MSGCOUNT), None, "no mailbox is known");
    let summary = |new, old| MessageSummary {
        voice: Some(MessageCounts {
            new,
            old,
            ..MessageCounts::default()
        }),
        ..MessageSummary::default()
    };
    for (call, (new, old), octets) in [
        (6, (2, 8), [8, 2]),
        (7, (300, 256), [255, 255]),
        (8, (0, 0), [0, 0]),
    ] {
        host.server
            .set_mailbox("alice", summary(new, old), Box::new(drop))
            .unwrap();
        let regack = registered(&mut host, device(), call, "alice");
        assert_eq!(regack.element(IE_MSGCOUNT), Some(&octets[..]));
    }
    let lamp = MessageSummary {
        waiting: Some(true),
        ..MessageSummary::default()
    };
    host.server
        .set_mailbox("alice", lamp, Box::new(drop))
        .unwrap();
    let regack = registered(&mut host, device(), 9, "alice");
    assert_eq!(regack.element(IE_MSGCOUNT), Some(&[255, 255][..]));
}

#[test]
fn an_ipv6_address_is_reported_in_full() {
    let mut host = Host::new();
    let from: SocketAddr = "[2001:db8::7]:4570".parse().unwrap();
    let regack = registered(&mut host, from, 5, "alice");
    let told = regack.element(IE_APPARENT_ADDR).expect("an address");
    assert_eq!(told[..8], [10, 0, 0x11, 0xda, 0, 0, 0, 0]);
    assert_eq!(told[8..12], [0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!((told[23], told.len()), (7, 28));
    assert_eq!(host.contacts(), ["iax:alice@[2001:db8::7]:4570"]);
}

#[test]
fn nothing_is_kept_for_an_unknown_address() {
    let mut host = Host::new();
    for call in 1..=100 {
        let from = SocketAddr::from(([198, 51, 100, call as u8], 4569));
        let frame = hello(call, "alice");
        let answers = host.ask(from, &frame);
        assert!(answers[0].encode().len() < 3 * frame.encode().len());
    }
    let iax2 = host.stats().iax2;
    assert_eq!(
        (iax2.tokens_issued, iax2.call_count, iax2.record_count),
        (100, 0, 0)
    );
}

#[test]
fn a_call_token_is_good_for_its_address_and_for_ten_seconds() {
    let mut host = Host::new();
    let frame = vouched(&mut host, device(), 5, "alice", REGREQ);
    let other = SocketAddr::from(([192, 0, 2, 8], 4569));
    assert_eq!(
        host.ask_one(other, &frame).subclass,
        CALLTOKEN,
        "another address"
    );
    host.pass(Duration::from_millis(10_001));
    assert_eq!(
        host.ask_one(device(), &frame).subclass,
        CALLTOKEN,
        "the token is too old"
    );
    let forged = first(5, "alice", REGREQ).with(IE_CALLTOKEN, "f".repeat(32));
    assert_eq!(
        host.ask_one(device(), &forged).subclass,
        CALLTOKEN,
        "forged"
    );
    let iax2 = host.stats().iax2;
    assert_eq!((iax2.tokens_refused, iax2.opened), (3, 0));
}

#[test]
fn a_device_without_call_tokens_is_refused_unless_they_are_optional() {
    let mut host = Host::new();
    let refused = host.ask_one(device(), &first(5, "alice", REGREQ));
    assert_eq!(
        (refused.subclass, refused.oseq, refused.iseq),
        (REGREJ, 0, 1)
    );
    assert_eq!(refused.text(IE_CAUSE), "No Call Token");
    assert_eq!(refused.element(IE_CAUSECODE), Some(&[29][..]));
    assert_eq!(
        host.ask(device(), &ack(&refused, 1)),
        [],
        "no other frame is sent"
    );

    let mut host = Host::with(ServerConfig {
        call_tokens: CallTokens::Optional,
        ..config()
    });
    let regauth = host.ask_one(device(), &first(5, "alice", REGREQ));
    let regack = host.ask_one(device(), &proof(&regauth, "alice", PASSWORD, REGREQ));
    assert_eq!(regack.subclass, REGACK);
}

#[test]
fn an_open_server_asks_for_no_password() {
    let mut host = Host::with(ServerConfig {
        authentication: Authentication::Open,
        ..config()
    });
    let frame = vouched(&mut host, device(), 5, "alice", REGREQ);
    let regack = host.ask_one(device(), &frame);
    assert_eq!((regack.subclass, regack.oseq, regack.iseq), (REGACK, 0, 1));
    assert_eq!(host.ask(device(), &ack(&regack, 1)), []);
    assert_eq!(host.stats().iax2.completed, 1);
}

#[test]
fn a_device_with_a_wrong_password_is_refused() {
    for (user, password) in [("alice", "guess"), ("nobody", ""), ("hashed", PASSWORD)] {
        let mut host = Host::new();
        let regrej = rejected(&mut host, user, password);
        assert_eq!(regrej.text(IE_CAUSE), "Registration Refused", "{user}");
        assert_eq!(regrej.element(IE_CAUSECODE), Some(&[29][..]));
        let stats = host.stats();
        assert_eq!(
            (stats.iax2.denied, stats.registrar.requests),
            (1, 0),
            "{user}"
        );
        assert_eq!((stats.iax2.completed, stats.iax2.call_count), (1, 0));
    }
}

#[test]
fn a_source_of_wrong_passwords_is_ignored_for_a_while() {
    let mut host = Host::new();
    for call in 5..10 {
        let regrej = attempt(&mut host, device(), call, "guess");
        assert_eq!(regrej.subclass, REGREJ, "{regrej:?}");
    }
    let regrej = attempt(&mut host, device(), 10, PASSWORD);
    assert_eq!(regrej.subclass, REGREJ, "{regrej:?}");
    assert_eq!(regrej.text(IE_CAUSE), "Try Again Later");
    assert_eq!(host.stats().registrar.logins_paused, 1);

    let elsewhere = "192.0.2.99:4569".parse().unwrap();
    let regack = attempt(&mut host, elsewhere, 5, PASSWORD);
    assert_eq!(regack.subclass, REGACK, "no other device is affected");

    host.pass(Duration::from_secs(1));
    let regack = attempt(&mut host, device(), 11, PASSWORD);
    assert_eq!(regack.subclass, REGACK, "{regack:?}");
}

/// A whole call of alice with this password; returns the last answer.
fn attempt(host: &mut Host, from: SocketAddr, call: u16, password: &str) -> Wire {
    let regauth = challenged(host, from, call, "alice");
    let answer = host.ask_one(from, &proof(&regauth, "alice", password, REGREQ));
    assert_eq!(host.ask(from, &ack(&answer, 2)), []);
    answer
}

#[test]
fn a_call_cannot_change_its_account() {
    let mut host = Host::new();
    let regauth = challenged(&mut host, device(), 5, "alice");
    let regrej = host.ask_one(device(), &proof(&regauth, "bob", PASSWORD, REGREQ));
    assert_eq!(regrej.subclass, REGREJ);
    assert_eq!(host.contacts(), [""; 0]);
}

#[test]
fn names_that_are_no_users_are_refused() {
    let mut host = Host::new();
    let nameless = Wire {
        elements: vec![],
        ..first(5, "", REGREQ)
    };
    let answer = host.ask_one(device(), &nameless.with(IE_CALLTOKEN, ""));
    assert_eq!(answer.text(IE_CAUSE), "No Username");
    for (call, user) in [(6, "a b"), (7, "a@b"), (8, "<>"), (9, "a:b")] {
        let regauth = challenged(&mut host, device(), call, user);
        let regrej = host.ask_one(device(), &proof(&regauth, user, PASSWORD, REGREQ));
        assert_eq!(regrej.subclass, REGREJ, "{user}");
    }
    assert_eq!(host.stats().registrar.forbidden, 4);
}

#[test]
fn a_refresh_is_within_the_policy() {
    for (asked, granted) in [
        ([0, 5], [0, 60]),
        ([1, 44], [1, 44]),
        ([255, 255], [28, 32]),
    ] {
        let mut host = Host::new();
        let regauth = challenged(&mut host, device(), 5, "alice");
        let mut frame = proof(&regauth, "alice", PASSWORD, REGREQ);
        frame.elements[1].1 = asked.to_vec();
        let regack = host.ask_one(device(), &frame);
        assert_eq!(regack.element(IE_REFRESH), Some(&granted[..]));
    }
}

#[test]
fn a_binding_ends_by_its_time_or_by_its_device() {
    let mut host = Host::new();
    register(&mut host, device(), 5, "alice");
    host.pass(Duration::from_secs(301));
    assert_eq!(host.contacts(), [""; 0]);
    assert_eq!(host.stats().registrar.expired, 1);
    register(&mut host, device(), 6, "alice");
    release(&mut host, device(), 7, "alice");
    assert_eq!(host.contacts(), [""; 0]);
    assert_eq!(host.stats().registrar.removed, 1);
    release(&mut host, device(), 8, "alice");
}

#[test]
fn a_device_that_moved_has_its_new_address() {
    let mut host = Host::new();
    register(&mut host, device(), 5, "alice");
    register(&mut host, device(), 6, "alice");
    let there = SocketAddr::from(([198, 51, 100, 1], 1024));
    register(&mut host, there, 5, "alice");
    assert_eq!(host.contacts(), ["iax:alice@198.51.100.1:1024"]);
    let registrar = host.stats().registrar;
    assert_eq!(
        (registrar.added, registrar.refreshed, registrar.removed),
        (2, 1, 1)
    );
}

#[test]
fn a_duplicate_frame_gets_the_same_answer() {
    let mut host = Host::new();
    let mut frame = vouched(&mut host, device(), 5, "alice", REGREQ);
    let regauth = host.ask_one(device(), &frame);
    frame.is_again = true;
    let again = host.ask_one(device(), &frame);
    assert_eq!(
        again,
        Wire {
            is_again: true,
            ..regauth.clone()
        }
    );

    let mut frame = proof(&regauth, "alice", PASSWORD, REGREQ);
    host.receive(device(), &frame.encode());
    frame.is_again = true;
    host.receive(device(), &frame.encode());
    let waiting = host.answers(device());
    assert_eq!(
        waiting.len(),
        1,
        "the server has the frame, and no answer yet"
    );
    assert_eq!(
        (waiting[0].subclass, waiting[0].ts, waiting[0].iseq),
        (ACK, 20, 2)
    );
    host.settle();
    let regack = host.answers(device()).remove(0);
    let again = host.ask_one(device(), &frame);
    assert_eq!(
        again,
        Wire {
            is_again: true,
            ..regack
        }
    );
    let stats = host.stats();
    assert_eq!((stats.iax2.duplicates, stats.iax2.requests), (3, 1));
}

#[test]
fn late_duplicates_are_recognised_for_as_long_as_a_token_is_good() {
    let mut host = Host::new();
    let first = vouched(&mut host, device(), 5, "alice", REGREQ);
    let regauth = host.ask_one(device(), &first);
    let second = proof(&regauth, "alice", PASSWORD, REGREQ);
    let regack = host.ask_one(device(), &second);
    host.ask(device(), &ack(&regack, 2));
    for frame in [&first, &second] {
        let answer = host.ask_one(device(), frame);
        assert_eq!((answer.subclass, answer.scall), (ACK, regauth.scall));
        assert_eq!((answer.oseq, answer.iseq, answer.ts), (2, 2, frame.ts));
    }
    let stats = host.stats();
    assert_eq!(
        (stats.iax2.late_duplicates, stats.registrar.requests),
        (2, 1)
    );
    host.pass(Duration::from_millis(10_001));
    assert_eq!(host.ask_one(device(), &second).subclass, INVAL);
    assert_eq!(host.ask_one(device(), &first).subclass, CALLTOKEN);
    host.pass(Duration::from_secs(30));
    assert_eq!(host.stats().iax2.record_count, 0, "swept");
}

#[test]
fn a_number_can_be_used_again_at_once() {
    let mut host = Host::new();
    for _ in 0..50 {
        register(&mut host, device(), 5, "alice");
    }
    let stats = host.stats();
    assert_eq!((stats.iax2.completed, stats.iax2.record_count), (50, 1));
    assert_eq!((stats.registrar.added, stats.registrar.refreshed), (1, 49));
}

#[test]
fn a_device_that_restarted_can_begin_a_new_call() {
    let mut host = Host::new();
    let old = challenged(&mut host, device(), 5, "alice");
    register(&mut host, device(), 5, "alice");
    assert_eq!(host.stats().iax2.replaced, 1);
    let late = host.ask_one(device(), &proof(&old, "alice", PASSWORD, REGREQ));
    assert_eq!((late.subclass, late.scall), (INVAL, old.scall));
}

#[test]
fn a_frame_without_acknowledgement_is_retransmitted_and_then_given_up() {
    let mut host = Host::new();
    let regauth = challenged(&mut host, device(), 5, "alice");
    let mut waits = Vec::new();
    for half_seconds in 1..=60 {
        host.pass(Duration::from_millis(500));
        for frame in host.answers(device()) {
            assert_eq!(
                frame,
                Wire {
                    is_again: true,
                    ..regauth.clone()
                }
            );
            waits.push(half_seconds);
        }
    }
    assert_eq!(waits, [1, 3, 7, 15], "0.5, 1.5, 3.5 and 7.5 s");
    let iax2 = host.stats().iax2;
    assert_eq!(
        (iax2.retransmitted, iax2.timed_out, iax2.call_count),
        (4, 1, 0)
    );
    let late = host.ask_one(device(), &proof(&regauth, "alice", PASSWORD, REGREQ));
    assert_eq!(late.subclass, INVAL);
}

#[test]
fn an_acknowledged_challenge_waits_but_not_for_ever() {
    let mut host = Host::new();
    let regauth = challenged(&mut host, device(), 5, "alice");
    assert_eq!(host.ask(device(), &ack(&regauth, 1)), []);
    host.pass(Duration::from_secs(19));
    assert_eq!(
        (host.answers(device()), host.stats().iax2.call_count),
        (vec![], 1)
    );
    host.pass(Duration::from_secs(2));
    assert_eq!(host.stats().iax2.timed_out, 1);
    let failures = host.server.failures_of("alice");
    let [failure] = &failures[..] else {
        panic!("{failures:?}");
    };
    let told = (&*failure.reason, failure.protocol, failure.count);
    assert_eq!(told, ("asked for a password, never answered", "iax2", 1));
    register(&mut host, device(), 6, "alice");
    assert_eq!(host.server.failures_of("alice"), []);
    challenged(&mut host, device(), 8, "alice");
    register(&mut host, device(), 9, "alice");
    host.pass(Duration::from_secs(40));
    assert_eq!(
        host.server.failures_of("alice"),
        [],
        "the device answered later"
    );
    assert_eq!(host.answers(device()).len(), 4, "the REGAUTH again");
    challenged(&mut host, device(), 7, "nobody");
    host.pass(Duration::from_secs(40));
    assert_eq!(host.server.failures(9), [], "the device has no account");
}

#[test]
fn a_missing_frame_is_requested_and_sent_again_on_request() {
    let mut host = Host::new();
    let regauth = challenged(&mut host, device(), 5, "alice");
    let mut lag = ack(&regauth, 2);
    lag.subclass = LAGRQ;
    let vnak = host.ask_one(device(), &lag);
    assert_eq!((vnak.subclass, vnak.iseq), (VNAK, 1), "frame 1 is missing");
    let regack = host.ask_one(device(), &proof(&regauth, "alice", PASSWORD, REGREQ));
    let asked = Wire {
        subclass: VNAK,
        iseq: 1,
        ..ack(&regack, 2)
    };
    let again = host.ask_one(device(), &asked);
    assert_eq!(
        again,
        Wire {
            is_again: true,
            ..regack
        }
    );
    let iax2 = host.stats().iax2;
    assert_eq!((iax2.vnaks_sent, iax2.vnaks_received), (1, 1));
}

#[test]
fn a_call_answers_lag_requests_and_pings_with_their_time_stamps() {
    let mut host = Host::new();
    let regauth = challenged(&mut host, device(), 5, "alice");
    for (oseq, asked, answered) in [(1, LAGRQ, LAGRP), (2, PING, PONG)] {
        let frame = Wire {
            subclass: asked,
            ts: 777,
            ..ack(&regauth, oseq)
        };
        let answer = host.ask_one(device(), &frame);
        assert_eq!((answer.subclass, answer.ts), (answered, 777));
        assert_eq!((answer.oseq, answer.iseq), (oseq, oseq + 1));
    }
    let unknown = Wire {
        subclass: 99,
        ..ack(&regauth, 3)
    };
    let answer = host.ask_one(device(), &unknown);
    assert_eq!(
        (answer.subclass, answer.element(IE_UNKNOWN)),
        (UNSUPPORT, Some(&[99][..]))
    );
}

#[test]
fn answers_outside_of_a_call_are_not_answered() {
    let mut host = Host::new();
    let frame = |dcall, subclass| Wire {
        scall: 5,
        dcall,
        subclass,
        ..Wire::default()
    };
    for dcall in [0, 1, 77] {
        for subclass in [ACK, INVAL, VNAK, CALLTOKEN] {
            assert_eq!(host.ask(device(), &frame(dcall, subclass)), []);
        }
    }
    let answer = host.ask_one(device(), &frame(77, REGREQ));
    assert_eq!(
        (answer.subclass, answer.scall, answer.dcall),
        (INVAL, 77, 5)
    );
    let iax2 = host.stats().iax2;
    assert_eq!((iax2.stray, iax2.invalid_sent), (12, 1));
}

#[test]
fn a_frame_that_is_no_registration_is_answered_without_a_call() {
    let mut host = Host::new();
    let frame = |subclass| Wire {
        scall: 5,
        ts: 9,
        subclass,
        ..Wire::default()
    };
    for (asked, answered) in [(POKE, PONG), (NEW, REJECT), (99, UNSUPPORT)] {
        let answer = host.ask_one(device(), &frame(asked));
        assert_eq!((answer.subclass, answer.dcall, answer.ts), (answered, 5, 9));
        assert_eq!((answer.oseq, answer.iseq), (0, 1));
        assert_eq!(host.ask(device(), &ack(&answer, 1)), []);
    }
    assert_eq!(host.stats().iax2.opened, 0);
}

#[test]
fn a_device_can_end_its_call() {
    let mut host = Host::new();
    for (call, subclass, answers) in [(5, INVAL, 0), (6, 5, 1)] {
        let regauth = challenged(&mut host, device(), call, "alice");
        let end = Wire {
            subclass,
            ..ack(&regauth, 1)
        };
        assert_eq!(host.ask(device(), &end).len(), answers);
    }
    let iax2 = host.stats().iax2;
    assert_eq!((iax2.aborted, iax2.call_count), (2, 0));
}

#[test]
fn invalid_bytes_are_counted_and_have_no_effect() {
    let mut host = Host::new();
    for noise in [&[][..], &[0x80], &[0x80; 11], &[0, 7, 1, 2, 3], &[0, 0, 1]] {
        host.receive(device(), noise);
    }
    let mut cut = hello(5, "alice").encode();
    cut.pop();
    cut.pop();
    cut.push(9);
    host.receive(device(), &cut);
    assert_eq!(host.answers(device()), []);
    let iax2 = host.stats().iax2;
    assert_eq!((iax2.malformed, iax2.media), (4, 2));
}

#[test]
fn tables_have_bounds_and_refusals_are_counted() {
    let mut host = Host::with(ServerConfig {
        limits: Limits {
            iax2_calls_per_source_max: 3,
            ..Limits::default()
        },
        ..config()
    });
    for call in 1..=3 {
        challenged(&mut host, device(), call, "alice");
    }
    let frame = vouched(&mut host, device(), 4, "alice", REGREQ);
    assert_eq!(
        host.ask(device(), &frame),
        [],
        "there is no room, and no answer is sent"
    );
    let other = SocketAddr::from(([192, 0, 2, 8], 4569));
    challenged(&mut host, other, 4, "alice");
    let iax2 = host.stats().iax2;
    assert_eq!((iax2.refused_source_limit, iax2.call_count), (1, 4));
}

#[test]
fn a_refusal_of_the_store_is_reported_to_the_device() {
    let mut host = Host::new();
    let regauth = challenged(&mut host, device(), 5, "alice");
    host.disk.set_behaviour(busyhour_store::DiskBehaviour {
        failures_per_mille: 1000,
        ..Default::default()
    });
    let regrej = host.ask_one(device(), &proof(&regauth, "alice", PASSWORD, REGREQ));
    assert_eq!(regrej.subclass, REGREJ);
    assert_eq!(regrej.element(IE_CAUSECODE), Some(&[41][..]));
    assert_eq!(host.stats().registrar.store_failures, 1);
}
