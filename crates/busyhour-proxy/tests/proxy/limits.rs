//! Bounds: breadth (RFC 5393 §5), the table, its bytes, its branches; and what a call
//! costs.

use crate::support::*;
use busyhour_proxy::{Fallback, Occasion, Policy, RequestRefusal, TargetSet};
use std::time::Duration;

fn breadths(sent: &[Sent]) -> Vec<&str> {
    sent.iter()
        .map(|sent| lines(&sent.text, "Max-Breadth")[0])
        .collect()
}

/// RFC 5393 §5.3.3.1: the branches share what came.
#[test]
fn max_breadth_is_divided_among_parallel_branches() {
    let sent = Bench::new().call(
        &request("INVITE", "Max-Breadth: 8\r\n"),
        targets(&[&[1, 2, 3]]),
    );
    assert_eq!(breadths(&sent), ["3", "3", "2"]);
    let sent = Bench::new().call(&invite(), targets(&[&[1, 2]]));
    assert_eq!(breadths(&sent), ["30", "30"]);
}

/// RFC 5393 §5.3.3.2: what is too broad is tried one after the other.
#[test]
fn a_group_that_is_too_broad_is_tried_in_parts() {
    let mut bench = Bench::new();
    let text = request("INVITE", "Max-Breadth: 2\r\n");
    let first = bench.call(&text, targets(&[&[1, 2, 3]]));
    assert_eq!(breadths(&first), ["1", "1"]);
    bench.reply(&first[0], 486);
    let next = bench.reply(&first[1], 486);
    assert_eq!(
        starts(&next),
        ["ACK > 192.0.2.102:5060", "INVITE > 192.0.2.103:5060"]
    );
    assert_eq!(lines(&next[1].text, "Max-Breadth"), ["2"]);
}

/// RFC 5393 §5.3.3: telephones that were given up still have their part until they end.
#[test]
fn the_next_group_has_what_the_one_before_has_left() {
    let with = |breadth: &str| {
        let mut bench = Bench::new();
        let set = TargetSet {
            ring_time: Some(Duration::from_secs(20)),
            ..targets(&[&[1], &[2]])
        };
        let text = request("INVITE", &format!("Max-Breadth: {breadth}\r\n"));
        let forwarded = bench.call(&text, set);
        bench.reply(&forwarded[0], 180);
        let next = bench.pass_ms(20_000);
        (bench, forwarded, next)
    };
    let (_, first, next) = with("9");
    assert_eq!(
        (breadths(&first), breadths(&next[1..])),
        (vec!["5"], vec!["4"])
    );
    let (mut bench, first, next) = with("1");
    assert_eq!(starts(&next), ["CANCEL > 192.0.2.101:5060"]);
    let next = bench.reply(&first[0], 487);
    assert_eq!(starts(&next)[1], "INVITE > 192.0.2.102:5060");
}

/// RFC 5393 §5.3.3.
#[test]
fn no_breadth_at_all_is_refused() {
    let mut bench = Bench::new();
    let refused = bench.try_begin(alice(), &request("INVITE", "Max-Breadth: 0\r\n"));
    assert_eq!(refused, Err(RequestRefusal::BreadthExceeded));
    assert!(
        bench.take()[0]
            .text
            .starts_with("SIP/2.0 440 Max-Breadth Exceeded\r\n")
    );
}

/// RFC 5393 §5.3.2: nobody makes us broader than the default.
#[test]
fn more_than_the_default_breadth_is_cut() {
    let sent = Bench::new().call(&request("INVITE", "Max-Breadth: 4000000000\r\n"), target(1));
    assert_eq!(breadths(&sent), ["60"]);
}

fn nth(number: usize, text: &str) -> String {
    text.replace("z9hG4bKa", &format!("z9hG4bK{number}."))
}

#[test]
fn a_full_table_refuses_new_calls_before_requests_of_dialogs() {
    let mut bench = Bench::with(Policy {
        transactions_max: 8,
        ..Policy::default()
    });
    for number in 0..7 {
        bench.begin(alice(), &nth(number, &invite()));
    }
    bench.take();
    let refused = bench.try_begin(alice(), &nth(7, &invite()));
    assert_eq!(refused, Err(RequestRefusal::Full));
    let answer = bench.take().remove(0).text;
    assert!(answer.starts_with("SIP/2.0 503 Service Unavailable\r\n"));
    assert_eq!(lines(&answer, "Retry-After"), ["5"]);
    let in_dialog = invite().replace(
        "To: <sip:bob@example.org>",
        "To: <sip:bob@example.org>;tag=b",
    );
    assert!(bench.try_begin(alice(), &nth(8, &in_dialog)).is_ok());
    assert!(bench.try_begin(alice(), &nth(9, &in_dialog)).is_err());
    assert_eq!(bench.proxy.stats().refused_full, 2);
    assert_eq!(
        std::rc::Rc::strong_count(&bench.permit),
        9,
        "eight are held"
    );
    bench.pass_ms(64_001);
    bench.assert_empty();
}

#[test]
fn the_bytes_that_are_held_are_bounded() {
    let mut bench = Bench::with(Policy {
        bytes_max: 4_000,
        ..Policy::default()
    });
    let begun =
        (0..100).take_while(|number| bench.try_begin(alice(), &nth(*number, &invite())).is_ok());
    let begun = begun.count();
    assert!((4..12).contains(&begun), "{begun}");
    assert!(bench.proxy.stats().held_bytes < 4_500);
    bench.pass_ms(64_001);
    bench.assert_empty();
}

#[test]
fn a_request_has_so_many_branches_and_no_more() {
    let mut bench = Bench::with(Policy {
        branches_max: 3,
        ..Policy::default()
    });
    let sent = bench.call(&invite(), targets(&[&[1, 2], &[3, 4]]));
    bench.reply(&sent[0], 486);
    let next = bench.reply(&sent[1], 486);
    assert_eq!(starts(&next)[1..], ["INVITE > 192.0.2.103:5060"]);
    assert_eq!(bench.proxy.stats().targets_left_out, 1);
    let last = bench.reply(&next[1], 486);
    assert_eq!(starts(&last)[1], "486 > 192.0.2.7:40000");
}

/// A confirmed call costs nothing here once its transactions have ended.
#[test]
fn a_confirmed_call_costs_nothing() {
    let mut bench = Bench::new();
    for number in 0..100 {
        let forwarded = bench.call(&nth(number, &invite()), target(1));
        bench.reply(&forwarded[0], 180);
        bench.reply(&forwarded[0], 200);
    }
    assert_eq!(bench.proxy.len(), 100);
    let held = bench.proxy.stats().held_bytes;
    assert_eq!(held, 0, "after the 200 no message is held");
    bench.pass_ms(32_000);
    bench.assert_empty();
}

/// What is sent again is kept once, and no longer than it is needed.
#[test]
fn a_ringing_call_holds_its_messages_once() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    let request_bytes = (invite().len() + forwarded[0].text.len()) as u64;
    let ringing = bench.reply(&forwarded[0], 180);
    let held = bench.proxy.stats().held_bytes;
    assert_eq!(held, request_bytes + ringing[0].text.len() as u64);
}

/// The ACK of a refusal is kept for timer D, not for as long as others ring.
#[test]
fn a_branch_that_was_refused_holds_nothing_in_the_end() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    bench.reply(&forwarded[1], 180);
    let without = bench.proxy.stats().held_bytes - forwarded[0].text.len() as u64;
    let refused = response(&forwarded[0].text, 486, "b").len() as u64;
    let acks = bench.reply(&forwarded[0], 486);
    let ack = acks[0].text.len() as u64;
    assert_eq!(bench.proxy.stats().held_bytes, without + refused + ack);
    bench.pass_ms(32_000);
    assert_eq!(bench.proxy.stats().held_bytes, without + refused);
}

/// After its ACK a refusal is not sent again, so it is not kept.
#[test]
fn an_acknowledged_refusal_is_not_kept() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    let sent = bench.reply(&forwarded[0], 486);
    let [ack, refusal] = [0, 1].map(|place: usize| sent[place].text.len() as u64);
    assert_eq!(bench.proxy.stats().held_bytes, ack + refusal);
    bench.absorb(alice(), &of_invite("ACK", ""));
    assert_eq!(bench.proxy.stats().held_bytes, ack);
}

/// A fallback is chosen when it can be tried, by how the targets have failed until then.
#[test]
fn a_fallback_waits_for_breadth() {
    let mut bench = Bench::new();
    let fallback = |number| Fallback {
        on: [Occasion::NoAnswer].into(),
        targets: vec![target(number)],
    };
    let set = TargetSet {
        ring_time: Some(Duration::from_secs(20)),
        fallbacks: vec![fallback(8), fallback(9)],
        ..targets(&[&[1]])
    };
    let forwarded = bench.call(&request("INVITE", "Max-Breadth: 1\r\n"), set);
    bench.reply(&forwarded[0], 180);
    assert_eq!(
        starts(&bench.pass_ms(20_000)),
        ["CANCEL > 192.0.2.101:5060"]
    );
    let next = bench.reply(&forwarded[0], 487);
    assert_eq!(starts(&next)[1..], ["INVITE > 192.0.2.108:5060"]);
    let last = bench.reply(&next[1], 486);
    assert_eq!(starts(&last)[1..], ["486 > 192.0.2.7:40000"]);
}
