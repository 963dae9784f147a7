//! CANCEL from the caller (RFC 3261 §9.2, §16.10).

use crate::support::*;
use busyhour_proxy::{EventKind, Received};

fn cancel(bench: &mut Bench, more: &str) -> Vec<Sent> {
    let text = of_invite("CANCEL", more);
    assert_eq!(bench.receive(alice(), &text), Received::Absorbed);
    bench.take()
}

/// RFC 3261 §16.10: 200 at once, CANCEL to every branch, then the best response.
#[test]
fn a_cancel_is_answered_and_goes_to_every_branch() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2], &[3]]));
    bench.reply(&forwarded[0], 180);
    bench.reply(&forwarded[1], 180);
    bench.take_events();
    let sent = cancel(&mut bench, "");
    assert_eq!(
        starts(&sent),
        [
            "200 > 192.0.2.7:40000",
            "CANCEL > 192.0.2.101:5060",
            "CANCEL > 192.0.2.102:5060"
        ]
    );
    assert_eq!(lines(&sent[0].text, "CSeq"), ["1 CANCEL"]);
    assert!(lines(&sent[1].text, "Reason").is_empty());
    assert_eq!(bench.take_events(), [EventKind::Cancelled]);
    bench.reply(&forwarded[0], 487);
    let last = bench.reply(&forwarded[1], 487);
    assert_eq!(
        starts(&last),
        ["ACK > 192.0.2.102:5060", "487 > 192.0.2.7:40000"]
    );
}

/// The forwarded INVITE shows its branch, Call-ID and From to whoever is called.
#[test]
fn nobody_else_cancels_a_call() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    bench.reply(&forwarded[0], 180);
    let text = of_invite("CANCEL", "");
    assert_eq!(bench.receive(bob(1), &text), Received::UnknownCancel);
    assert!(bench.take().is_empty());
    let ok = bench.reply(&forwarded[1], 200);
    assert_eq!(starts(&ok)[0], "200 > 192.0.2.7:40000");

    // Another port of the caller is nobody else, as with a new connection.
    let mut bench = Bench::new();
    bench.call(&invite(), target(1));
    let moved = flow("192.0.2.7:40001");
    assert_eq!(bench.receive(moved, &text), Received::Absorbed);
}

/// An ACK from elsewhere does not end the retransmissions of a refusal.
#[test]
fn nobody_else_acknowledges_a_refusal() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 486);
    bench.absorb(bob(1), &of_invite("ACK", ""));
    assert_eq!(starts(&bench.pass_ms(500)), ["486 > 192.0.2.7:40000"]);
    bench.absorb(alice(), &of_invite("ACK", ""));
    assert!(bench.pass_ms(4_000).is_empty());
}

/// RFC 3326 §2: the caller's reason goes on.
#[test]
fn the_reason_of_a_cancel_is_passed() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 180);
    let reason = "SIP;cause=200;text=\"Call completed elsewhere\"";
    let sent = cancel(
        &mut bench,
        &format!("Reason: {reason}\r\nReason: Q.850;cause=16\r\n"),
    );
    assert_eq!(
        lines(&sent[1].text, "Reason"),
        [format!("{reason}, Q.850;cause=16")]
    );
}

/// RFC 3261 §9.2: the same CANCEL again is answered again, and sent on once.
#[test]
fn a_repeated_cancel_is_answered_again() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 180);
    let first = cancel(&mut bench, "");
    let again = cancel(&mut bench, "");
    assert_eq!(starts(&again), ["200 > 192.0.2.7:40000"]);
    assert_eq!(first[0].text, again[0].text);
}

/// RFC 3261 §9.2: the 200 to CANCEL and the response to INVITE have the same tag.
#[test]
fn the_tag_of_our_responses_is_one() {
    let mut bench = Bench::new();
    bench.begin(alice(), &invite());
    bench.take();
    let sent = cancel(&mut bench, "");
    assert_eq!(
        starts(&sent),
        ["200 > 192.0.2.7:40000", "487 > 192.0.2.7:40000"]
    );
    assert_eq!(lines(&sent[0].text, "To"), lines(&sent[1].text, "To"));
}

/// The caller gives up before it is known where the request goes.
#[test]
fn a_cancel_before_the_targets_are_known_ends_the_call() {
    let mut bench = Bench::new();
    let id = bench.begin(alice(), &invite());
    bench.take();
    cancel(&mut bench, "");
    bench.forward(id, target(1));
    assert!(bench.take().is_empty(), "nothing rings any more");
    bench.absorb(alice(), &of_invite("ACK", ""));
    bench.pass_ms(5_000);
    bench.assert_empty();
}

/// RFC 3261 §9.1: 200 crosses CANCEL: the call is answered all the same.
#[test]
fn a_200_that_crosses_a_cancel_goes_back() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 180);
    let sent = cancel(&mut bench, "");
    let ok = bench.reply(&forwarded[0], 200);
    assert_eq!(starts(&ok), ["200 > 192.0.2.7:40000"]);
    bench.reply(&sent[1], 481);
    bench.pass_ms(64_000);
    bench.assert_empty();
}

/// RFC 3261 §9.2: too late, so it has no effect.
#[test]
fn a_cancel_after_the_200_changes_nothing() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 200);
    assert_eq!(starts(&cancel(&mut bench, "")), ["200 > 192.0.2.7:40000"]);
    assert!(!bench.take_events().contains(&EventKind::Cancelled));
}

/// RFC 3261 §9.2.
#[test]
fn a_cancel_of_nothing_is_told() {
    let mut bench = Bench::new();
    let text = of_invite("CANCEL", "");
    assert_eq!(bench.receive(alice(), &text), Received::UnknownCancel);
    bench.call(&request("OPTIONS", ""), target(1));
    let other = request("CANCEL", "").replace("z9hG4bKaCANCEL", "z9hG4bKaOPTIONS");
    assert_eq!(bench.receive(alice(), &other), Received::UnknownCancel);
}

/// RFC 3261 §9.1: a branch that never said anything gets no CANCEL; it ends with timer B.
#[test]
fn a_cancelled_call_to_a_silent_device_ends() {
    let mut bench = Bench::new();
    bench.call(&invite(), target(1));
    assert_eq!(starts(&cancel(&mut bench, "")), ["200 > 192.0.2.7:40000"]);
    let sent = bench.pass_ms(32_000);
    assert_eq!(
        starts(&sent).last().expect("a response"),
        "487 > 192.0.2.7:40000"
    );
    assert!(starts(&sent).iter().all(|it| !it.starts_with("CANCEL")));
}

/// RFC 3261 §17.1.2: a CANCEL is sent again until it is answered.
#[test]
fn a_cancel_is_retransmitted() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 180);
    let sent = cancel(&mut bench, "");
    let again = bench.pass_ms(1_500);
    assert_eq!(starts(&again), ["CANCEL > 192.0.2.101:5060"; 2]);
    assert_eq!(again[0].text, sent[1].text);
    // RFC 3261 §17.1.2.2: a 100 slows it down, a 200 ends it.
    bench.reply(&sent[1], 100);
    assert!(bench.pass_ms(3_999).is_empty());
    assert_eq!(bench.pass_ms(1).len(), 1);
    let held = bench.proxy.stats().held_bytes;
    bench.reply(&sent[1], 200);
    assert_eq!(
        held - bench.proxy.stats().held_bytes,
        sent[1].text.len() as u64
    );
    assert!(bench.pass_ms(10_000).is_empty());
}

/// RFC 3261 §16.10: after a CANCEL no further group is tried, and no mailbox.
#[test]
fn a_cancelled_call_goes_nowhere_else() {
    let mut bench = Bench::new();
    let mut set = targets(&[&[1], &[2]]);
    set.fallbacks.push(busyhour_proxy::Fallback {
        on: [
            busyhour_proxy::Occasion::Unavailable,
            busyhour_proxy::Occasion::NoAnswer,
        ]
        .into(),
        targets: vec![target(9)],
    });
    let forwarded = bench.call(&invite(), set);
    bench.reply(&forwarded[0], 180);
    cancel(&mut bench, "");
    let last = bench.reply(&forwarded[0], 480);
    assert_eq!(
        starts(&last),
        ["ACK > 192.0.2.101:5060", "487 > 192.0.2.7:40000"]
    );
}
