//! Targets for no answer, busy and unavailable, and answers of the proxy's own.

use crate::support::*;
use busyhour_proxy::{Answer, EventKind, Fallback, Occasion, TargetSet};
use busyhour_sip::{HeaderName, Status};
use std::time::Duration;

fn with_mailbox(set: TargetSet, on: &[Occasion]) -> TargetSet {
    let mailbox = Fallback {
        on: on.into(),
        targets: vec![target(9)],
    };
    TargetSet {
        fallbacks: vec![mailbox],
        ring_time: Some(Duration::from_secs(20)),
        ..set
    }
}

#[test]
fn after_the_ring_time_the_mailbox_answers() {
    let mut bench = Bench::new();
    let set = with_mailbox(targets(&[&[1, 2]]), &[Occasion::NoAnswer]);
    let forwarded = bench.call(&invite(), set);
    bench.reply(&forwarded[0], 180);
    bench.pass_ms(19_999);
    let sent = bench.pass_ms(1);
    assert_eq!(
        starts(&sent),
        ["CANCEL > 192.0.2.101:5060", "INVITE > 192.0.2.109:5060"]
    );
    assert!(
        lines(&sent[0].text, "Reason").is_empty(),
        "it is a missed call"
    );
    // A telephone that is answered now still gets the call, and the mailbox ends.
    bench.reply(&sent[1], 180);
    let ok = bench.reply(&forwarded[1], 200);
    assert_eq!(
        starts(&ok),
        ["200 > 192.0.2.7:40000", "CANCEL > 192.0.2.109:5060"]
    );
    assert_eq!(bench.proxy.stats().no_answer, 1);
}

#[test]
fn without_anything_after_it_a_group_rings_on() {
    let mut bench = Bench::new();
    let set = with_mailbox(targets(&[&[1]]), &[Occasion::Busy]);
    let forwarded = bench.call(&invite(), set);
    bench.reply(&forwarded[0], 180);
    assert!(bench.pass_ms(180_000).is_empty());
}

#[test]
fn after_the_ring_time_the_next_group_rings() {
    let mut bench = Bench::new();
    let set = TargetSet {
        ring_time: Some(Duration::from_secs(20)),
        ..targets(&[&[1], &[2]])
    };
    let forwarded = bench.call(&invite(), set);
    bench.reply(&forwarded[0], 180);
    let sent = bench.pass_ms(20_000);
    assert_eq!(
        starts(&sent),
        ["CANCEL > 192.0.2.101:5060", "INVITE > 192.0.2.102:5060"]
    );
    bench.reply(&forwarded[0], 487);
    let last = bench.reply(&sent[1], 486);
    assert_eq!(starts(&last)[1], "486 > 192.0.2.7:40000");
}

/// The first group rings out and the second one is busy: that is what the mailbox is told.
#[test]
fn the_last_group_says_on_which_occasion_the_mailbox_answers() {
    let mut bench = Bench::new();
    let set = with_mailbox(targets(&[&[1], &[2]]), &[Occasion::NoAnswer]);
    let mut set = set;
    let busy = Fallback {
        on: [Occasion::Busy].into(),
        targets: vec![target(8)],
    };
    set.fallbacks.push(busy);
    let forwarded = bench.call(&invite(), set);
    bench.reply(&forwarded[0], 180);
    let sent = bench.pass_ms(20_000);
    bench.reply(&forwarded[0], 487);
    let diverted = bench.reply(&sent[1], 486);
    assert_eq!(starts(&diverted)[1], "INVITE > 192.0.2.108:5060");
}

/// What ends a call is the best of all responses, those of cancelled telephones included,
/// so it waits for them.
#[test]
fn when_the_mailbox_refuses_the_best_response_goes_back() {
    let mut bench = Bench::new();
    let set = with_mailbox(targets(&[&[1]]), &[Occasion::NoAnswer]);
    let forwarded = bench.call(&invite(), set);
    bench.reply(&forwarded[0], 180);
    let sent = bench.pass_ms(20_000);
    let refused = bench.reply(&sent[1], 486);
    assert_eq!(starts(&refused), ["ACK > 192.0.2.109:5060"]);
    let last = bench.reply(&forwarded[0], 487);
    assert_eq!(starts(&last)[1], "486 > 192.0.2.7:40000");
}

#[test]
fn the_mailbox_answers_on_its_occasions_only() {
    use Occasion::{Busy, NoAnswer, Unavailable};
    let cases: [(u16, &[Occasion], bool); 7] = [
        (486, &[Busy], true),
        (486, &[NoAnswer, Unavailable], false),
        (480, &[Unavailable], true),
        (404, &[Busy, Unavailable], true),
        (503, &[Unavailable], true),
        (401, &[Busy, NoAnswer, Unavailable], false),
        (603, &[Busy, NoAnswer, Unavailable], false),
    ];
    for (status, on, diverts) in cases {
        let mut bench = Bench::new();
        let forwarded = bench.call(&invite(), with_mailbox(targets(&[&[1]]), on));
        let sent = bench.reply(&forwarded[0], status);
        let diverted = starts(&sent).contains(&"INVITE > 192.0.2.109:5060".to_owned());
        assert_eq!(diverted, diverts, "{status} {on:?}");
    }
}

#[test]
fn who_is_not_registered_has_a_mailbox_all_the_same() {
    let mut bench = Bench::new();
    let set = with_mailbox(TargetSet::default(), &[Occasion::Unavailable]);
    let sent = bench.call(&invite(), set);
    assert_eq!(starts(&sent), ["INVITE > 192.0.2.109:5060"]);
}

#[test]
fn a_silent_telephone_diverts_as_no_answer() {
    let mut bench = Bench::new();
    let mut set = with_mailbox(targets(&[&[1]]), &[Occasion::NoAnswer]);
    set.ring_time = None;
    bench.call(&invite(), set);
    let sent = bench.pass_ms(32_000);
    assert_eq!(
        starts(&sent).last().expect("sent"),
        "INVITE > 192.0.2.109:5060"
    );
}

#[test]
fn a_mailbox_is_tried_once() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), with_mailbox(targets(&[&[1]]), &[Occasion::Busy]));
    let sent = bench.reply(&forwarded[0], 486);
    let last = bench.reply(&sent[1], 486);
    assert_eq!(
        starts(&last),
        ["ACK > 192.0.2.109:5060", "486 > 192.0.2.7:40000"]
    );
}

#[test]
fn the_caller_of_the_table_may_answer_instead() {
    let mut bench = Bench::new();
    let id = bench.begin(alice(), &invite());
    bench.take();
    let answer = Answer {
        status: Status::TEMPORARILY_UNAVAILABLE,
        reason: Some("Registered By IAX2"),
        headers: &[(HeaderName::Warning, "399 example.org \"IAX2\"")],
    };
    let sent = bench.answer(id, &answer);
    assert!(
        sent[0]
            .text
            .starts_with("SIP/2.0 480 Registered By IAX2\r\n")
    );
    assert_eq!(
        lines(&sent[0].text, "Warning"),
        ["399 example.org \"IAX2\""]
    );
    assert!(
        bench.answer(id, &answer).is_empty(),
        "there is one final response"
    );
    let refused = |event: &EventKind| matches!(event, EventKind::Refused { status: 480, .. });
    assert_eq!(
        bench.take_events().iter().filter(|it| refused(it)).count(),
        1
    );
    bench.absorb(alice(), &of_invite("ACK", ""));
    bench.pass_ms(5_000);
    bench.assert_empty();
}

#[test]
fn an_answer_of_ours_cancels_what_rings() {
    let mut bench = Bench::new();
    let id = bench.begin(alice(), &invite());
    bench.forward(id, target(1));
    let forwarded = bench.take().remove(1);
    bench.reply(&forwarded, 180);
    let sent = bench.answer(id, &Status::FORBIDDEN.into());
    assert_eq!(
        starts(&sent),
        ["403 > 192.0.2.7:40000", "CANCEL > 192.0.2.101:5060"]
    );
}

#[test]
fn a_request_that_nobody_locates_ends() {
    let mut bench = Bench::new();
    let id = bench.begin(alice(), &invite());
    bench.take();
    let sent = bench.pass_ms(32_000);
    assert_eq!(starts(&sent), ["408 > 192.0.2.7:40000"]);
    bench.forward(id, target(1));
    assert!(bench.take().is_empty());
    bench.pass_ms(32_000);
    bench.assert_empty();
}
