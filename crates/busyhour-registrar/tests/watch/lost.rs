//! NOTIFYs that are lost: on the way to the server that has the watcher's connection, or with the answer to the SUBSCRIBE.

use crate::{Watcher, assert_has, at, online};
use busyhour::clock::Instant;
use busyhour_registrar::watch::End;
use busyhour_sip::{Flow, Transport};
use std::time::Duration;

/// Over a connection nothing is sent twice; but it may not have come to the server that has the connection.
#[test]
fn what_may_be_lost_on_the_way_to_a_connection_is_told_anew_under_other_numbers() {
    let mut watcher = Watcher::subscribe_over("Event: presence\r\nExpires: 600", Transport::Tcp);
    watcher.subscription.device_is(None);
    let mut told = Vec::new();
    loop {
        if let Some(notify) = watcher.poll() {
            let number = notify.split("CSeq: ").nth(1).expect("a number");
            told.push((
                watcher.now,
                number.split(' ').next() == Some(&format!("{}", told.len() + 1)),
            ));
            assert_eq!(
                watcher.subscription.may_be_lost(watcher.now),
                told.len() > 1
            );
        }
        match watcher.subscription.deadline() {
            Some(deadline) => watcher.now = deadline,
            None => break,
        }
    }
    let seconds = [0, 2, 6, 14, 30].map(|second| (at(second * 1000), true));
    assert_eq!(told, seconds);
    assert_eq!(watcher.subscription.ended(), Some(End::Unanswered));
    assert_eq!(watcher.now, at(32_000), "as if it had been told once");
}

#[test]
fn a_watcher_that_answers_what_was_told_anew_is_heard() {
    let mut watcher = Watcher::subscribe_over("Event: presence\r\nExpires: 600", Transport::Tcp);
    watcher.subscription.device_is(None);
    watcher.poll().expect("a NOTIFY");
    watcher.subscription.may_be_lost(watcher.now);
    watcher.pass(1999);
    assert_eq!(watcher.poll(), None);
    watcher.subscription.device_is(Some(online(7)));
    watcher.pass(1);
    let notify = watcher.poll().expect("a NOTIFY");
    assert_has(&notify, "<basic>open</basic>");
    watcher.subscription.may_be_lost(watcher.now);
    assert!(!watcher.answer(1, 200), "it is late");
    assert!(watcher.answer(2, 200));
    assert_eq!(watcher.subscription.deadline(), Some(at(600_000)));
    // The next one has all the time again.
    watcher.pass(40_000);
    watcher.subscription.device_is(None);
    watcher.poll().expect("a NOTIFY");
    assert!(!watcher.subscription.may_be_lost(watcher.now));
    watcher.pass(2000);
    assert!(watcher.poll().is_some());
}

/// The server that had its connection has started again, or the connection has ended.
#[test]
fn a_watcher_whose_connection_is_gone_is_told_over_its_next_one_and_not_over_that() {
    for comes_again in [true, false] {
        let headers = "Event: presence\r\nExpires: 600";
        let mut watcher = Watcher::subscribe_over(headers, Transport::Tcp);
        watcher.subscription.device_is(None);
        watcher.poll().expect("a NOTIFY");
        watcher.subscription.may_be_lost(watcher.now);
        let before = watcher.subscription.dialog().flow();
        let next = Flow {
            connection: 7,
            ..before
        };
        assert!(!watcher.subscription.connection_ended(next), "another one");
        assert!(!watcher.subscription.is_cut());
        assert!(watcher.subscription.connection_ended(before));
        assert!(watcher.subscription.is_cut());
        assert!(
            !watcher.subscription.connection_ended(before),
            "it is known"
        );
        assert_eq!(copies_until(&mut watcher, at(31_999)), [0; 0]);
        watcher.subscription.device_is(Some(online(7)));
        assert_eq!(watcher.poll(), None);
        if !comes_again {
            assert_eq!(copies_until(&mut watcher, at(32_001)), [0; 0]);
            assert_eq!(watcher.subscription.ended(), None, "it may come back");
            assert_eq!(copies_until(&mut watcher, at(600_001)), [0; 0]);
            assert_eq!(watcher.subscription.ended(), Some(End::Expired));
            continue;
        }
        let refreshed = watcher.refresh_over(next, 2, headers);
        refreshed.expect("the subscription lives");
        assert!(!watcher.subscription.is_cut());
        let notify = watcher.poll().expect("a NOTIFY");
        assert_has(&notify, "CSeq: 2 NOTIFY\r\n");
        assert_has(&notify, "<basic>open</basic>");
        watcher.subscription.may_be_lost(watcher.now);
        assert!(!watcher.subscription.connection_ended(before), "it is late");
        watcher.pass(2000);
        assert!(watcher.poll().is_some(), "it may be lost again");
    }
}

/// Nothing came through for longer than the NOTIFY is sent, so the watcher sends its SUBSCRIBE again. Once that is answered it
/// sends no other.
#[test]
fn a_watcher_whose_subscribe_comes_again_is_told_though_four_copies_are_lost() {
    let mut watcher = Watcher::active();
    assert_eq!(copies_until(&mut watcher, at(7500)), [500, 1500, 3500]);
    watcher.subscription.asked_again(watcher.now);
    assert_eq!(
        copies_until(&mut watcher, at(30_000)),
        [7500, 8500, 10_500],
        "one of them may be lost, too"
    );
    watcher.subscription.asked_again(watcher.now);
    assert!(watcher.poll().is_some());
    assert!(watcher.answer(1, 200));
    watcher.subscription.asked_again(watcher.now);
    assert_eq!(watcher.poll(), None, "it is answered");
    assert_eq!(watcher.subscription.deadline(), Some(at(600_000)));
}

#[test]
fn a_watcher_that_has_answered_gets_as_many_copies_as_without_a_second_subscribe() {
    let [mut one, mut other] = [Watcher::active(), Watcher::active()];
    for watcher in [&mut one, &mut other] {
        assert!(watcher.answer(1, 200));
        watcher.subscription.device_is(Some(online(7)));
        watcher.poll().expect("a NOTIFY");
    }
    copies_until(&mut one, at(9000));
    one.subscription.asked_again(one.now);
    let copies = copies_until(&mut other, at(9000));
    assert_eq!(copies, [500, 1500, 3500, 7500]);
    assert_eq!(
        copies_until(&mut one, at(40_000)),
        copies_until(&mut other, at(40_000))
    );
}

#[test]
fn over_a_connection_nothing_is_sent_again_for_a_second_subscribe() {
    let mut watcher = Watcher::subscribe_over("Event: presence\r\nExpires: 600", Transport::Tcp);
    watcher.subscription.device_is(None);
    watcher.poll().expect("a NOTIFY");
    watcher.subscription.asked_again(watcher.now);
    assert_eq!(copies_until(&mut watcher, at(31_999)), [0; 0]);
}

/// Somebody forges the address of another one, and repeats the SUBSCRIBE at any moments.
#[test]
fn for_no_subscribe_a_forged_address_gets_more_than_for_the_first_one() {
    for seed in 0..200_u64 {
        let mut random = seed;
        let mut below = |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % bound
        };
        let mut watcher = Watcher::active();
        let pause_max = 1 + below(20_000);
        let (mut copies, mut repeated) = (vec![0], 0);
        while watcher.subscription.ended().is_none() {
            let next = watcher.now + Duration::from_millis(1 + below(pause_max));
            copies.extend(copies_until(&mut watcher, next));
            // Or the server loses its way to others and finds it again.
            match seed % 2 {
                0 => watcher.subscription.asked_again(watcher.now),
                _ => watcher.subscription.way_is_open(watcher.now),
            }
            repeated += 1;
        }
        assert!(copies.len() <= 4 + 3 * repeated, "seed {seed}: {copies:?}");
        let pauses = copies.windows(2).map(|two| two[1] - two[0]);
        assert!(pauses.min() >= Some(500), "seed {seed}: {copies:?}");
        assert!(copies.last() < Some(&32_000), "seed {seed}: {copies:?}");
    }
}

/// When copies left until `end`, in milliseconds. It is `end` then.
fn copies_until(watcher: &mut Watcher, end: Instant) -> Vec<u64> {
    let mut copies = Vec::new();
    while let Some(deadline) = watcher.subscription.deadline().filter(|it| *it < end) {
        watcher.now = deadline.max(watcher.now);
        if watcher.poll().is_some() {
            copies.push(watcher.now.as_nanos() / 1_000_000);
        }
    }
    watcher.now = end;
    copies
}
