//! Which devices are probed, and when.

use busyhour::clock::Instant;
use busyhour_registrar::{Probe, Probes};
use busyhour_sip::Flow;
use std::time::Duration;

#[test]
fn a_device_that_does_not_answer_is_probed_three_times_and_then_once_in_each_interval() {
    let flow = flow(1);
    let mut probes = watched(flow, 0);
    for (second, probe) in [
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
    assert_eq!(probes.poll(at(119)), None);
    probes.heard(&flow, at(90));
    assert_eq!(probes.poll(at(120)), Some(Probe::Ask(flow)), "30 s ago");
    probes.heard(&flow, at(121));
    assert_eq!(probes.poll(at(122)), None, "the device has answered");
    assert_eq!(probes.poll(at(179)), None);
    assert_eq!(probes.poll(at(180)), Some(Probe::Ask(flow)), "59 s ago");
}

#[test]
fn each_flow_is_probed_at_its_own_moment_of_the_interval() {
    let (early, late) = (flow(1), flow(2));
    let mut probes = Probes::new(INTERVAL);
    probes.watch(early, 15_000_000_000, at(20));
    probes.watch(late, (5 * 60 + 40) * 1_000_000_000, at(40));
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
    probes.watch(flow, 30_000_000_000, at(1));
    assert_eq!(probes.poll(at(59)), None, "its first moment counts");
    assert_eq!(probes.poll(at(60)), Some(Probe::Ask(flow)));
    assert_eq!(probes.poll(at(60)), None);
    probes.forget(&flow);
    assert_eq!(probes.poll(at(62)), None);
    assert!(!probes.heard(&flow, at(63)));
    probes.watch(flow, 0, at(64));
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
    let mut probes = Probes::new(Duration::from_millis(1));
    probes.watch(flow, 0, at(0));
    assert_eq!(probes.poll(at(1)), None);
    assert_eq!(probes.poll(at(2)), Some(Probe::Ask(flow)));
}

fn watched(flow: Flow, hash: u64) -> Probes {
    let mut probes = Probes::new(INTERVAL);
    probes.watch(flow, hash, at(0));
    probes
}

fn flow(host: u8) -> Flow {
    let remote = ([192, 0, 2, host], 5060).into();
    Flow::udp("192.0.2.9:5060".parse().unwrap(), remote)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

const INTERVAL: Duration = Duration::from_secs(60);
