//! Which devices are probed, and when.

use busyhour::clock::Instant;
use busyhour_registrar::{Pace, Probe, Probes};
use busyhour_sip::Flow;
use std::time::Duration;

#[test]
fn a_device_that_does_not_answer_is_probed_three_times_and_then_once_in_each_interval() {
    let flow = flow(1);
    let mut probes = watched(flow, 0);
    for (second, probe) in [
        (30, None),
        (59, None),
        (60, Some(Probe::Ask(flow))),
        (61, None),
        (62, Some(Probe::Ask(flow))),
        (64, Some(Probe::Ask(flow))),
        (65, None),
        (66, Some(Probe::Down(flow))),
        (119, None),
        (120, Some(Probe::Ask(flow))),
        (179, None),
        (180, Some(Probe::Ask(flow))),
        (239, None),
        (240, Some(Probe::Ask(flow))),
    ] {
        assert_eq!(probes.poll(at(second)), probe, "at {second} s");
        assert_eq!(probes.poll(at(second)), None, "once, at {second} s");
    }
    assert!(probes.heard(&flow, at(241)), "the device was unreachable");
    assert!(
        !probes.heard(&flow, at(242)),
        "the device is reachable again"
    );
    for (second, probe) in [
        (299, None),
        (300, Some(Probe::Ask(flow))),
        (302, Some(Probe::Ask(flow))),
        (304, Some(Probe::Ask(flow))),
        (306, Some(Probe::Down(flow))),
    ] {
        assert_eq!(
            probes.poll(at(second)),
            probe,
            "a reachable device is probed at {second} s"
        );
    }
}

#[test]
fn a_device_that_sent_something_within_half_an_interval_is_not_probed() {
    let flow = flow(1);
    let mut probes = watched(flow, 0);
    assert!(!probes.heard(&flow, at(31)));
    assert_eq!(probes.poll(at(60)), None, "29 s ago");
    assert_eq!(probes.poll(at(89)), None);
    assert_eq!(probes.poll(at(90)), Some(Probe::Ask(flow)), "59 s ago");
    probes.heard(&flow, at(91));
    assert_eq!(probes.poll(at(92)), None, "the device has answered");
    assert_eq!(probes.poll(at(120)), None, "29 s ago");
    assert_eq!(probes.poll(at(149)), None);
    assert_eq!(probes.poll(at(150)), Some(Probe::Ask(flow)), "59 s ago");
}

/// Whatever arrives when: nobody is silent for longer than an interval without being asked, and
/// nobody is asked who sent something within half of it.
#[test]
fn silence_is_noticed_within_an_interval_whenever_it_begins() {
    for (hash_ms, heard_ms) in (0..60_000)
        .step_by(2003)
        .flat_map(|hash| (60_000..120_000).step_by(1999).map(move |at| (hash, at)))
    {
        let flow = flow(1);
        let mut probes = watched(flow, hash_ms * 1_000_000);
        let mut now_ms = 0;
        let mut asked = || loop {
            now_ms += 100;
            if now_ms - 100 < heard_ms && heard_ms <= now_ms {
                probes.heard(&flow, at_ms(heard_ms));
            }
            if probes.poll(at_ms(now_ms)).is_some() {
                match now_ms <= heard_ms {
                    // It answers until then.
                    true => _ = probes.heard(&flow, at_ms(now_ms)),
                    false => return now_ms - heard_ms,
                }
            }
        };
        let after_ms = asked();
        let expected = 30_000..=60_000 + 100;
        assert!(
            expected.contains(&after_ms),
            "{after_ms} ms, {hash_ms}, {heard_ms}"
        );
    }
}

#[test]
fn each_flow_is_probed_at_its_own_moment_of_the_interval() {
    let (early, late) = (flow(1), flow(2));
    let mut probes = Probes::default();
    probes.watch(early, 15_000_000_000, PACE, at(20));
    probes.watch(late, (5 * 60 + 40) * 1_000_000_000, PACE, at(40));
    assert_eq!(probes.poll(at(45)), None, "25 s ago");
    assert_eq!(probes.poll(at(70)), None, "30 s ago");
    assert_eq!(
        probes.poll(at(74)),
        None,
        "15 s of this interval have passed"
    );
    assert_eq!(probes.poll(at(75)), Some(Probe::Ask(early)));
    probes.heard(&early, at(76));
    assert_eq!(
        probes.poll(at(99)),
        None,
        "its own moment is in the next interval"
    );
    assert_eq!(probes.poll(at(100)), Some(Probe::Ask(late)));
    probes.heard(&late, at(101));
    assert_eq!(probes.poll(at(103)), None, "both have answered");
    let all = [probes.poll(at(200)), probes.poll(at(200))];
    assert_eq!(all, [Some(Probe::Ask(early)), Some(Probe::Ask(late))]);
    assert_eq!(probes.poll(at(200)), None);
}

#[test]
fn a_flow_added_twice_is_probed_once_and_a_removed_one_not_at_all() {
    let flow = flow(1);
    let mut probes = watched(flow, 0);
    probes.watch(flow, 15_000_000_000, PACE, at(1));
    assert_eq!(probes.poll(at(30)), None);
    assert_eq!(probes.poll(at(59)), None, "its first moment counts");
    assert_eq!(probes.poll(at(60)), Some(Probe::Ask(flow)));
    assert_eq!(probes.poll(at(60)), None);
    probes.forget(&flow);
    assert_eq!(probes.poll(at(62)), None);
    assert!(!probes.heard(&flow, at(63)));
    probes.watch(flow, 0, PACE, at(64));
    assert_eq!(probes.poll(at(90)), None, "26 s ago");
    assert_eq!(
        probes.poll(at(119)),
        None,
        "the probe that was due is forgotten"
    );
    assert_eq!(probes.poll(at(120)), Some(Probe::Ask(flow)));
}

#[test]
fn no_interval_is_shorter_than_an_answer_may_take() {
    let flow = flow(1);
    let mut probes = Probes::default();
    let hasty = Pace {
        every: Some(Duration::from_millis(1)),
        verify_within: None,
        keep_alive: None,
    };
    probes.watch(flow, 0, hasty, at(0));
    assert_eq!(probes.poll(at(1)), None);
    assert_eq!(probes.poll(at(2)), Some(Probe::Ask(flow)));
}

#[test]
fn a_restored_flow_is_asked_at_its_moment_of_the_given_time_and_then_left_alone() {
    let (answers, silent, registers) = (flow(1), flow(2), flow(3));
    let mut probes = Probes::default();
    for (flow, second) in [(answers, 10), (silent, 20), (registers, 30)] {
        let hash = second * 1_000_000_000;
        probes.watch(flow, hash, VERIFY, at(100));
    }
    assert_eq!(probes.poll(at(109)), None);
    assert_eq!(probes.poll(at(110)), Some(Probe::Ask(answers)));
    assert!(probes.heard(&answers, at(111)), "the first sign of life");
    assert!(!probes.heard(&answers, at(111)));
    assert_eq!(probes.poll(at(112)), None, "it is verified");
    for second in [120, 122, 124] {
        assert_eq!(probes.poll(at(second)), Some(Probe::Ask(silent)));
    }
    assert_eq!(probes.poll(at(126)), Some(Probe::Down(silent)));
    assert!(probes.heard(&registers, at(126)));
    assert_eq!(probes.poll(at(10_000)), None, "and nobody is asked again");
    assert!(probes.heard(&silent, at(10_001)), "it is back");
}

#[test]
fn a_restored_flow_with_an_interval_is_probed_like_the_others_once_it_was_heard() {
    let flow = flow(1);
    let mut probes = Probes::default();
    let pace = Pace {
        every: PACE.every,
        ..VERIFY
    };
    probes.watch(flow, 10_000_000_000, pace, at(0));
    assert_eq!(probes.poll(at(10)), Some(Probe::Ask(flow)));
    assert!(probes.heard(&flow, at(11)));
    assert_eq!(probes.poll(at(12)), None, "it has answered");
    assert_eq!(probes.poll(at(40)), None, "29 s ago");
    assert_eq!(probes.poll(at(69)), None);
    assert_eq!(probes.poll(at(70)), Some(Probe::Ask(flow)));
}

#[test]
fn a_silent_flow_gets_a_keep_alive_in_each_interval_of_its_own() {
    let flow = flow(1);
    let mut probes = Probes::default();
    let pace = Pace {
        keep_alive: Some(Duration::from_secs(20)),
        ..PACE
    };
    probes.watch(flow, 0, pace, at(0));
    let mut seen = Vec::new();
    for second in 1..=100 {
        if second == 61 || second == 71 {
            assert!(!probes.heard(&flow, at(second)));
        }
        while let Some(probe) = probes.poll(at(second)) {
            seen.push((second, matches!(probe, Probe::KeepAlive(_))));
        }
    }
    seen.sort_unstable();
    // The one of 80 s is not needed: 9 s ago it was heard.
    let expected = [(20, true), (40, true), (60, false), (60, true), (100, true)];
    assert_eq!(seen, expected, "nobody answers one, so it is no question");
    probes.forget(&flow);
    assert_eq!(probes.poll(at(1_000)), None);
}

#[test]
fn a_flow_that_is_never_asked_may_get_keep_alives() {
    let flow = flow(1);
    let mut probes = Probes::default();
    let pace = Pace {
        every: None,
        verify_within: None,
        keep_alive: Some(Duration::from_secs(20)),
    };
    probes.watch(flow, 0, pace, at(0));
    for second in (20..400).step_by(20) {
        assert_eq!(probes.poll(at(second)), Some(Probe::KeepAlive(flow)));
        assert_eq!(probes.poll(at(second)), None);
    }
}

fn watched(flow: Flow, hash: u64) -> Probes {
    let mut probes = Probes::default();
    probes.watch(flow, hash, PACE, at(0));
    probes
}

fn flow(host: u8) -> Flow {
    let remote = ([192, 0, 2, host], 5060).into();
    Flow::udp("192.0.2.9:5060".parse().unwrap(), remote)
}

fn at_ms(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

const VERIFY: Pace = Pace {
    every: None,
    verify_within: Some(Duration::from_secs(60)),
    keep_alive: None,
};
const PACE: Pace = Pace {
    every: Some(Duration::from_secs(60)),
    verify_within: None,
    keep_alive: None,
};
