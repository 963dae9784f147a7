//! sipp, a client of another project, registers devices and watches one.

mod support;

use std::net::SocketAddr;
use support::{
    Place, ServerProcess,
    ports::free_port,
    random::Random,
    relay::{Faults, Relay},
    sipp::{Calls, Sipp, Statistics, Transport},
};

/// sipp takes only the first challenge, and knows only MD5.
const CONFIGURATION: &str = "
[sip]
algorithms = [\"MD5\", \"SHA-256\"]
min_expires_seconds = 1

[[account]]
user = \"watcher\"
password = \"lamp\"

[[account_range]]
prefix = \"device\"
count = 12000
password = \"busyhour\"
";

const DEVICES: u64 = 12_000;

/// A line of the injection file of `register`.
fn registration(number: u64, expires_seconds: u32) -> String {
    format!(
        "device{number};[authentication username=device{number} password=busyhour];\
         sip:device{number}@127.0.0.1:9;{expires_seconds}"
    )
}

#[test]
fn twelve_thousand_devices_register_at_a_thousand_a_second() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let lines: Vec<String> = (1..=DEVICES)
        .map(|number| registration(number, 600))
        .collect();
    let calls = Calls {
        scenario: "register",
        lines: &lines,
        rate: 1000,
        transport: Transport::Udp,
    };
    let statistics = Sipp::start(&calls, "storm", &server, &place).finish();
    assert_eq!(statistics.total("SuccessfulCall"), DEVICES);
    for counter in ["FailedCall", "FailedUnexpectedMessage"] {
        assert_eq!(statistics.total(counter), 0, "{counter}");
    }
    // A retransmitted request may be answered again, even after its call has ended in
    // sipp.
    let late = statistics.total("OutOfCallMsgs") + statistics.total("DeadCallMsgs");
    assert!(late <= statistics.total("Retransmissions"), "{late} late");
    assert_eq!(server.stat("/registrar/binding_count"), DEVICES);
    // All requests come from one source, whose share of kept answers is too small for
    // all: a request that is retransmitted after its answer was dropped is accepted
    // again.
    let accepted = server.stat("/registrar/accepted");
    let again = statistics
        .total("Retransmissions")
        .min(server.stat("/traffic/answers_not_kept"));
    assert!(
        (DEVICES..=DEVICES + again).contains(&accepted),
        "{accepted}, {again} again"
    );
    assert!(server.stop().success());
}

/// Lets sipp register one device, and waits for it.
fn register(target: SocketAddr, place: &Place, name: &str, expires_seconds: u32) {
    let calls = Calls {
        scenario: "register",
        lines: &[registration(1, expires_seconds)],
        rate: 1,
        transport: Transport::Udp,
    };
    Sipp::start_at(&calls, name, free_port(), target, place).finish();
}

/// A watcher, and a device that registers, leaves, and registers for a short time, each by this
/// address.
fn watch(
    server: &ServerProcess,
    place: &Place,
    (watcher, transport): (SocketAddr, Transport),
    device: SocketAddr,
) -> Statistics {
    let calls = Calls {
        scenario: "watch",
        lines: &["watcher;[authentication username=watcher password=lamp];device1".to_owned()],
        rate: 1,
        transport,
    };
    let mut watcher = Sipp::start_at(&calls, "watcher", free_port(), watcher, place);
    let mut told = |count: u64| {
        server.wait_for("/watch/confirmed", |confirmed| {
            if confirmed < count {
                watcher.assert_not_failed();
            }
            confirmed >= count
        })
    };
    told(1); // not registered
    register(device, place, "register", 600);
    told(2);
    register(device, place, "unregister", 0);
    told(3);
    register(device, place, "short", 1);
    told(5); // registered, and expired
    let statistics = watcher.finish();
    assert_eq!(statistics.total("SuccessfulCall"), 1);
    statistics
}

#[test]
fn a_watcher_is_notified_of_a_device_in_order() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let statistics = watch(&server, &place, (server.sip, Transport::Udp), server.sip);
    assert_eq!(statistics.total("FailedUnexpectedMessage"), 0);
    assert_eq!(server.stat("/registrar/expired"), 1);
    assert!(server.stop().success());
}

#[test]
fn a_server_that_stops_tells_its_watchers_to_subscribe_again() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let calls = Calls {
        scenario: "drain",
        lines: &["watcher;[authentication username=watcher password=lamp];device1".to_owned()],
        rate: 1,
        transport: Transport::Udp,
    };
    let mut watcher = Sipp::start(&calls, "watcher", &server, &place);
    server.wait_for("/watch/confirmed", |confirmed| {
        watcher.assert_not_failed();
        confirmed == 1
    });
    assert!(server.stop().success());
    watcher.finish();
}

#[test]
fn a_thousand_devices_register_over_one_tcp_connection() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let lines: Vec<String> = (1..=1000).map(|number| registration(number, 600)).collect();
    let calls = Calls {
        scenario: "register",
        lines: &lines,
        rate: 500,
        transport: Transport::Tcp,
    };
    let statistics = Sipp::start(&calls, "tcp", &server, &place).finish();
    assert_eq!(statistics.total("SuccessfulCall"), 1000);
    assert_eq!(statistics.total("FailedCall"), 0);
    assert_eq!(server.stat("/registrar/binding_count"), 1000);
    // Each request was challenged, and sent again.
    assert_eq!(server.stat("/network/streams/received"), 2000);
    assert_eq!(server.stat("/network/streams/accepted"), 1);
    assert!(server.stop().success());
}

#[test]
fn a_watcher_over_tcp_is_notified_of_a_device_in_order() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    watch(&server, &place, (server.tcp, Transport::Tcp), server.sip);
    assert_eq!(
        server.stat("/watch/retransmitted"),
        0,
        "there are no retransmissions over TCP"
    );
    assert!(server.stop().success());
}

#[test]
fn an_account_publishes_the_counts_of_its_mailbox() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    publish(&server, &place, server.sip);
    assert_eq!(server.stat("/publish/condition_failed"), 1);
}

fn publish(server: &ServerProcess, place: &Place, target: SocketAddr) {
    let calls = Calls {
        scenario: "publish",
        lines: &["watcher;[authentication username=watcher password=lamp]".to_owned()],
        rate: 1,
        transport: Transport::Udp,
    };
    let statistics = Sipp::start_at(&calls, "publish", free_port(), target, place).finish();
    assert_eq!(statistics.total("SuccessfulCall"), 1);
    for (counter, count) in [
        ("created", 1),
        ("refreshed", 1),
        ("removed", 1),
        ("publication_count", 0),
    ] {
        assert_eq!(
            server.stat(&format!("/publish/{counter}")),
            count,
            "{counter}"
        );
    }
    // A refresh publishes the counts again, since the account may have been
    // given another mailbox.
    assert_eq!(server.stat("/mailbox/published"), 3);
    assert_eq!(server.stat("/mailbox/mailbox_count"), 0);
}

#[test]
fn what_is_doubled_or_lost_on_its_way_changes_nothing() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let relay = Relay::start(server.sip, 4, DOUBLING, Random::new());
    relay.open();
    let [watcher, device, publisher, others] = [0, 1, 2, 3].map(|line| relay.address(line));
    let statistics = watch(&server, &place, (watcher, Transport::Udp), device);
    assert_eq!(statistics.total("FailedUnexpectedMessage"), 0);
    publish(&server, &place, publisher);
    // A refusal changes nothing, so a copy of its request is refused anew.
    assert!(server.stat("/publish/condition_failed") > 0);
    // Each registration that was answered once is done once.
    relay.set_faults(LOSING);
    let lines: Vec<String> = (2..=51).map(|number| registration(number, 600)).collect();
    let calls = Calls {
        scenario: "register",
        lines: &lines,
        rate: 100,
        transport: Transport::Udp,
    };
    let statistics = Sipp::start_at(&calls, "storm", free_port(), others, &place).finish();
    assert_eq!(statistics.total("SuccessfulCall"), 50);
    assert_eq!(server.stat("/registrar/binding_count"), 50);
    assert_eq!(server.stat("/registrar/accepted"), 53);
    let fates = relay.fates();
    assert!(fates.doubled > 0 && fates.lost > 0, "{fates:?}");
    assert!(server.stop().success());
}

const DOUBLING: Faults = Faults {
    lost_percent: 0,
    doubled_percent: 50,
    delayed_percent: 0,
};

const LOSING: Faults = Faults {
    lost_percent: 15,
    doubled_percent: 15,
    delayed_percent: 0,
};
