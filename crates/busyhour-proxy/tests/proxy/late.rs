//! Targets that are found while others ring: devices that were asleep (RFC 8599).

use crate::support::*;
use busyhour_proxy::{Fallback, Late, Occasion, TargetSet};
use std::time::Duration;

fn with_late(set: TargetSet, count: u32) -> TargetSet {
    let late = Late {
        count,
        within: Duration::from_secs(20),
        reason: "Device Did Not Wake Up",
    };
    TargetSet {
        late: Some(late),
        ..set
    }
}

#[test]
fn a_device_that_wakes_up_rings_beside_the_others_and_may_answer() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), with_late(targets(&[&[1]]), 1));
    bench.reply(&forwarded[0], 180);
    bench.pass_ms(5_000);
    let sent = bench.add_late(target(2));
    assert_eq!(starts(&sent), ["INVITE > 192.0.2.102:5060"]);
    let answered = bench.reply(&sent[0], 200);
    assert_eq!(
        starts(&answered),
        ["200 > 192.0.2.7:40000", "CANCEL > 192.0.2.101:5060"]
    );
    assert!(bench.add_late(target(3)).is_empty(), "it is answered");
    assert_eq!(bench.proxy.stats().late_targets, 1);
}

#[test]
fn a_refusal_of_the_others_waits_for_who_sleeps() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), with_late(targets(&[&[1]]), 1));
    let refused = bench.reply(&forwarded[0], 486);
    assert_eq!(starts(&refused), ["ACK > 192.0.2.101:5060"]);
    let sent = bench.add_late(target(2));
    let refused = bench.reply(&sent[0], 480);
    assert_eq!(starts(&refused)[1], "486 > 192.0.2.7:40000");
    // A 6xx is for all of them.
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), with_late(targets(&[&[1]]), 1));
    let refused = bench.reply(&forwarded[0], 603);
    assert_eq!(starts(&refused)[1], "603 > 192.0.2.7:40000");
    assert!(bench.add_late(target(2)).is_empty());
}

#[test]
fn nobody_who_wakes_up_is_a_480_that_says_so() {
    let mut bench = Bench::new();
    let begun = bench.call(&invite(), with_late(TargetSet::default(), 2));
    assert!(begun.is_empty(), "a 100 left before");
    assert!(bench.pass_ms(19_000).is_empty());
    bench.end_late("Device Is Gone");
    let refused = bench.pass_ms(1_000);
    assert!(
        refused[0]
            .text
            .starts_with("SIP/2.0 480 Device Did Not Wake Up\r\n"),
        "{}",
        refused[0].text
    );
    let mut bench = Bench::new();
    bench.call(&invite(), with_late(TargetSet::default(), 1));
    let refused = bench.end_late("Device Is Gone");
    assert!(
        refused[0]
            .text
            .starts_with("SIP/2.0 480 Device Is Gone\r\n")
    );
    assert_eq!(bench.proxy.stats().late_missed, 1);
}

#[test]
fn a_caller_who_gives_up_waits_for_nobody() {
    let mut bench = Bench::new();
    bench.call(&invite(), with_late(TargetSet::default(), 1));
    bench.absorb(alice(), &of_invite("CANCEL", ""));
    let sent = starts(&bench.take());
    assert!(
        sent.contains(&"487 > 192.0.2.7:40000".to_owned()),
        "{sent:?}"
    );
    assert!(bench.add_late(target(1)).is_empty());
}

#[test]
fn the_mailbox_comes_after_who_sleeps_and_a_woken_device_has_its_ring_time() {
    let mailbox = Fallback {
        on: [Occasion::NoAnswer, Occasion::Unavailable].into(),
        targets: vec![target(9)],
    };
    let set = TargetSet {
        fallbacks: vec![mailbox],
        ring_time: Some(Duration::from_secs(25)),
        ..with_late(TargetSet::default(), 1)
    };
    let mut bench = Bench::new();
    bench.call(&invite(), set.clone());
    let sent = bench.pass_ms(20_000);
    assert_eq!(starts(&sent), ["INVITE > 192.0.2.109:5060"]);
    let mut bench = Bench::new();
    bench.call(&invite(), set);
    bench.pass_ms(10_000);
    let sent = bench.add_late(target(1));
    bench.reply(&sent[0], 180);
    assert!(bench.pass_ms(24_000).is_empty());
    let sent = bench.pass_ms(1_000);
    assert_eq!(
        starts(&sent),
        ["CANCEL > 192.0.2.101:5060", "INVITE > 192.0.2.109:5060"]
    );
}
