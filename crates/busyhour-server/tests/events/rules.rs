//! The rules for every watcher: retransmission and its end, the end of a
//! dialog, the pace of NOTIFYs, and versions that only grow.

use crate::world::{World, answer, body, header, ok, open_config};
use busyhour_registrar::watch::WatchPolicy;
use busyhour_server::server::{Limits, ServerConfig};
use std::time::Duration;

#[test]
fn a_watcher_that_does_not_answer_ends_after_32_seconds() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.register("alice", 600);
    let first = world.sent();
    assert_eq!(first.len(), 1);
    world.pass(31_999);
    let again = world.sent();
    assert_eq!(again.len(), 10, "timer E");
    assert!(
        again.iter().all(|notify| *notify == first[0]),
        "the very same bytes"
    );
    assert_eq!(world.stats().watch.watcher_count, 1);
    world.pass(1);
    let stats = world.stats().watch;
    assert_eq!(
        (stats.watcher_count, stats.given_up, stats.retransmitted),
        (0, 1, 10)
    );
    world.register("alice", 0);
    assert_eq!(world.sent(), [""; 0]);
}

/// Nothing came through for longer than the first NOTIFY is sent, so its SUBSCRIBE comes again.
#[test]
fn a_watcher_whose_subscribe_comes_again_is_told_though_all_was_lost_before() {
    let mut world = World::open();
    let request = world.subscribe_request("w", "alice", "Event: presence\r\n");
    world.receive(&request);
    world.pass(7500);
    let lost = world.sent();
    assert_eq!(lost.len(), 5, "the answer, and a NOTIFY four times");
    for copies in [3, 3] {
        world.receive(&request);
        world.pass(3500);
        let sent = world.sent();
        assert_eq!(sent[0], lost[0], "the same answer");
        assert_eq!(sent[1..], vec![lost[1].clone(); copies]);
    }
    world.receive(&ok(&lost[1]));
    world.receive(&request);
    assert_eq!(world.sent(), [lost[0].clone()], "it has answered");
    world.register("alice", 600);
    assert!(world.only_notify().contains("<basic>open</basic>"));
    assert_eq!(world.stats().watch.watcher_count, 1);
}

#[test]
fn a_watcher_that_answers_481_ends_at_once() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.register("alice", 600);
    let notify = world.sent().remove(0);
    world.receive(&answer(&notify, "481 Subscription Does Not Exist"));
    let stats = world.stats().watch;
    assert_eq!((stats.watcher_count, stats.given_up), (0, 1));
    let (refused, _) = world.subscribe("w", "alice", "Event: presence\r\n");
    assert!(refused.starts_with("SIP/2.0 481 "), "{refused}");
}

#[test]
fn a_refresh_without_a_buffer_for_its_answer_can_be_sent_again() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    let refresh = world.subscribe_request("w", "alice", "Event: presence\r\n");
    world.receive_without_room(&refresh);
    assert_eq!(world.sent(), [""; 0]);
    world.receive(&refresh);
    let sent = world.sent();
    assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
    assert_eq!((sent.len(), world.stats().watch.refreshed), (2, 1));
}

#[test]
fn unsupported_subscriptions_are_refused_with_their_reason() {
    let mut world = World::open();
    for (headers, status, has) in [
        (
            "Event: winfo\r\n",
            "489 ",
            "Allow-Events: presence, dialog, message-summary, reg, presence.winfo, \
             dialog.winfo, message-summary.winfo\r\n",
        ),
        ("", "489 ", "Allow-Events: "),
        (
            "Event: message-summary\r\nAccept: application/pidf+xml\r\n",
            "406 ",
            "",
        ),
        (
            "Event: presence\r\nExpires: 1\r\n",
            "423 ",
            "Min-Expires: 60\r\n",
        ),
        (
            "Event: presence\r\nRequire: x\r\n",
            "420 ",
            "Unsupported: x\r\n",
        ),
    ] {
        let (refused, _) = world.subscribe("w", "alice", headers);
        assert!(
            refused.starts_with(&format!("SIP/2.0 {status}")),
            "{headers}\n{refused}"
        );
        assert!(refused.contains(has), "{headers}\n{refused}");
    }
    assert_eq!(world.stats().watch.rejected, 5);
}

#[test]
fn notifies_are_limited_in_rate_and_the_last_change_is_never_lost() {
    let mut world = World::with(ServerConfig {
        watch: WatchPolicy {
            notify_interval: Duration::from_millis(500),
            ..WatchPolicy::default()
        },
        ..open_config()
    });
    world.watch("w", "alice", "dialog");
    world.pass(500);
    let states = ["early", "confirmed", "terminated", "early", "confirmed"];
    let mut told = Vec::new();
    let mut etag = String::new();
    for state in states {
        etag = world.publish_next("alice", &etag, state);
        told.extend(world.notified());
        world.pass(100);
        told.extend(world.notified());
    }
    world.pass(500);
    told.extend(world.notified());
    let told: Vec<_> = told.iter().map(|notify| state(notify)).collect();
    assert_eq!(
        told,
        ["early", "confirmed"],
        "the first one at once, the last one after the interval"
    );
    assert_eq!(world.stats().watch.conflated, 3);
}

#[test]
fn a_subscribe_causes_a_notify_whatever_the_rate() {
    let mut world = World::with(ServerConfig {
        watch: WatchPolicy {
            notify_interval: Duration::from_secs(10),
            ..WatchPolicy::default()
        },
        ..open_config()
    });
    world.watch("w", "alice", "presence");
    let (_, notify) = world.subscribe("w", "alice", "Event: presence\r\n");
    assert!(notify.is_some(), "a refresh");
    let (_, notify) = world.subscribe("w", "alice", "Event: presence\r\nExpires: 0\r\n");
    assert_eq!(
        header(&notify.unwrap(), "Subscription-State"),
        "terminated;reason=timeout"
    );
    assert_eq!(world.stats().watch.watcher_count, 0);
}

#[test]
fn versions_only_grow() {
    let mut world = World::open();
    let mut versions = vec![version(&world.watch("w", "alice", "dialog"))];
    let mut etag = String::new();
    for state in ["early", "confirmed", "terminated"] {
        etag = world.publish_next("alice", &etag, state);
        versions.push(version(&world.only_notify()));
    }
    let (_, notify) = world.subscribe("w", "alice", "Event: dialog\r\n");
    versions.push(version(&notify.unwrap()));
    assert_eq!(versions, [0, 1, 2, 3, 4]);
}

#[test]
fn watchers_are_bounded_and_counted() {
    let mut world = World::with(ServerConfig {
        limits: Limits {
            watchers_max: 1,
            ..Limits::default()
        },
        ..open_config()
    });
    world.watch("w", "alice", "message-summary");
    let (refused, _) = world.subscribe("v", "alice", "Event: presence\r\n");
    assert!(refused.starts_with("SIP/2.0 503 "), "{refused}");
    assert!(refused.contains("Retry-After: "), "{refused}");
    assert_eq!(world.stats().traffic.refused_table_full, 1);
}

#[test]
fn a_duplicate_answer_is_counted_as_stray_and_has_no_effect() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.register("alice", 600);
    let notify = world.sent().remove(0);
    world.receive(&ok(&notify));
    world.receive(&ok(&notify));
    let stats = world.stats();
    assert_eq!(
        (stats.traffic.stray_responses, stats.watch.watcher_count),
        (1, 1)
    );
}

fn state(notify: &str) -> &str {
    let (_, rest) = body(notify).split_once("<state>").unwrap();
    rest.split_once("</state>").unwrap().0
}

fn version(notify: &str) -> u32 {
    let (_, rest) = body(notify).split_once(" version=\"").unwrap();
    let rest = match rest.split_once(" version=\"") {
        Some((_, rest)) => rest,
        None => rest,
    };
    rest.split_once('"').unwrap().0.parse().unwrap()
}
