//! Registrations that are read while the server serves: every answer is as if all had been read.

use crate::{Fixture, local, open_config, register_as};
use busyhour_server::server::{DeviceQuery, Limits, ServerConfig, TenantConfig};
use busyhour_store::{DiskBehaviour, Store};

const USERS: usize = 600;

fn contact(number: usize, at: &str) -> String {
    format!("Contact: <sip:u{number}@{at}>")
}

/// A server that has been started again on these devices, and has read none of them; each third has two contacts.
fn restarted(config: ServerConfig) -> Fixture {
    let mut server = Fixture::open();
    for number in 0..USERS {
        let name = format!("u{number}");
        server.ask(&register_as(&name, 1, &contact(number, "192.0.2.9:5070")));
        if number % 3 == 0 {
            server.ask(&register_as(&name, 2, &contact(number, "192.0.2.9:5071")));
        }
    }
    server.disk.set_behaviour(DiskBehaviour {
        eager_bindings_max: 1,
        ..DiskBehaviour::default()
    });
    server.restart(config);
    assert_eq!(unread(&server), USERS as u64);
    server
}

fn unread(server: &Fixture) -> u64 {
    server.stats().registrar.unread_count
}

fn aor(number: usize) -> String {
    format!("sip:u{number}@example.com")
}

/// As they are when nobody has asked for anything.
#[test]
fn all_are_read_in_their_turn() {
    let server = restarted(open_config());
    server.simulation().run_until_idle();
    let registrar = server.stats().registrar;
    let bindings = (USERS + USERS.div_ceil(3)) as u64;
    assert_eq!((registrar.unread_count, registrar.restored), (0, bindings));
    assert_eq!(registrar.binding_count, bindings);
    assert_eq!(registrar.device_count, USERS as u64);
}

#[test]
fn who_is_asked_for_is_read_first_with_all_its_contacts() {
    let mut server = restarted(open_config());
    assert_eq!(
        server.stats().registrar.device_count,
        USERS as u64,
        "none is forgotten"
    );
    let device = server.server.device(&aor(3)).expect("it is registered");
    assert_eq!(device.contacts.len(), 2);
    assert_eq!(unread(&server), USERS as u64 - 1);
    assert!(server.server.device("sip:nobody@example.com").is_none());
    assert_eq!(unread(&server), USERS as u64 - 1);
    // A refresh of what was there, over which nothing is to be read in later.
    let datagram = register_as("u9", 7, &contact(9, "192.0.2.9:5070"));
    let datagram = server
        .runtime
        .buffers()
        .copy_from(datagram.as_bytes())
        .unwrap();
    let flow = busyhour_sip::Flow::udp(local(), crate::client());
    server.server.message(flow, &datagram);
    assert_eq!(unread(&server), USERS as u64 - 2);
    server.simulation().run_until_idle();
    server.settle();
    let answer = server.sent().pop().expect("an answer");
    assert_eq!(answer.matches("\r\nContact: ").count(), 2, "{answer}");
    assert_eq!(server.server.device(&aor(9)).unwrap().contacts.len(), 2);
    let registrar = server.stats().registrar;
    assert_eq!((registrar.refreshed, registrar.unread_count), (1, 0));
}

/// What a device does before the rest is read is not undone by rows that were read before.
#[test]
fn what_has_changed_meanwhile_is_not_read_over() {
    let mut server = restarted(open_config());
    let remove = register_as("u5", 8, "Contact: *\r\nExpires: 0");
    server.ask(&remove);
    server.ask(&register_as("u6", 8, &contact(6, "192.0.2.9:5099")));
    server.simulation().run_until_idle();
    assert_eq!(unread(&server), 0);
    assert!(server.server.device(&aor(5)).is_none(), "it has left");
    // It has its first two contacts and the new one.
    assert_eq!(server.server.device(&aor(6)).unwrap().contacts.len(), 3);
    // And so it is after the next crash.
    server.restart(open_config());
    assert!(server.server.device(&aor(5)).is_none());
    assert_eq!(server.server.device(&aor(6)).unwrap().contacts.len(), 3);
}

#[test]
fn a_list_of_devices_has_all_of_them() {
    let server = restarted(open_config());
    let query = DeviceQuery {
        limit: 2 * USERS,
        ..DeviceQuery::default()
    };
    let page = server.server.find_devices(&query);
    assert_eq!(page.devices.len(), USERS);
    assert_eq!(unread(&server), 0);
}

/// An address that is not read has its room, and nobody gets it.
#[test]
fn the_limit_of_devices_counts_what_is_not_read() {
    let config = ServerConfig {
        limits: Limits {
            devices_max: USERS,
            ..Limits::default()
        },
        ..open_config()
    };
    let server = restarted(config);
    let datagram = register_as("late", 1, "Contact: <sip:late@192.0.2.9:5070>");
    let datagram = server
        .runtime
        .buffers()
        .copy_from(datagram.as_bytes())
        .unwrap();
    server
        .server
        .message(busyhour_sip::Flow::udp(local(), crate::client()), &datagram);
    assert_eq!(unread(&server), USERS as u64);
    server.simulation().run_until_idle();
    let answer = server.sent().pop().expect("an answer");
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert_eq!(server.stats().registrar.device_count, USERS as u64);
}

/// Time passes while nothing is read.
#[test]
fn what_has_ended_before_it_is_read_is_not_there() {
    let mut server = Fixture::with(open_config());
    for number in 0..20 {
        let expires = if number < 10 { 60 } else { 3600 };
        let headers = format!(
            "{}\r\nExpires: {expires}",
            contact(number, "192.0.2.9:5070")
        );
        server.ask(&register_as(&format!("u{number}"), 1, &headers));
    }
    server.disk.set_behaviour(DiskBehaviour {
        eager_bindings_max: 0,
        ..DiskBehaviour::default()
    });
    server.restart(open_config());
    let clock = server.runtime.clock().clone();
    let later = clock.now() + std::time::Duration::from_secs(61);
    clock.as_virtual().unwrap().advance_to(later);
    assert!(server.server.device(&aor(3)).is_none());
    assert!(server.server.device(&aor(13)).is_some());
    server.simulation().run_until_idle();
    let registrar = server.stats().registrar;
    assert_eq!((registrar.binding_count, registrar.device_count), (10, 10));
    assert_eq!(registrar.unread_count, 0);
}

/// The others are there, those of the same device among them.
#[test]
fn rows_that_make_no_sense_are_counted_and_the_rest_is_served() {
    let mut server = restarted(open_config());
    let stored = server
        .disk
        .open(server.runtime.clock().clone())
        .load()
        .unwrap();
    let of = |number: usize| {
        let rows = stored.bindings.iter();
        let ids = rows
            .filter(|row| *row.aor == *aor(number))
            .map(|row| row.id);
        ids.collect::<Vec<_>>()
    };
    // One of two, the only one, the very last one, and one that is asked for first.
    let last = stored.bindings.last().unwrap().id;
    let unreadable = vec![of(3)[0], of(4)[0], of(6)[1], last];
    assert!(of(3).len() == 2 && of(4).len() == 1 && !of(3).contains(&last));
    server.disk.set_behaviour(DiskBehaviour {
        eager_bindings_max: 1,
        unreadable: unreadable.clone(),
        ..DiskBehaviour::default()
    });
    server.restart(open_config());
    assert_eq!(server.server.device(&aor(6)).unwrap().contacts.len(), 1);
    server.simulation().run_until_idle();
    let registrar = server.stats().registrar;
    assert_eq!((registrar.unreadable, registrar.unread_count), (4, 0));
    let bindings = stored.bindings.len() - unreadable.len();
    assert_eq!(registrar.binding_count, bindings as u64);
    assert_eq!(server.server.device(&aor(3)).unwrap().contacts.len(), 1);
    assert!(server.server.device(&aor(4)).is_none());
    // Who has lost his contact registers again.
    server.ask(&register_as("u4", 9, &contact(4, "192.0.2.9:5070")));
    assert!(server.sent()[0].starts_with("SIP/2.0 200 "));
    assert_eq!(server.server.device(&aor(4)).unwrap().contacts.len(), 1);
}

/// A quota that is set while registrations are read counts those that are not read.
#[test]
fn a_quota_that_comes_meanwhile_counts_what_is_not_read() {
    let mut server = restarted(open_config());
    let bindings = (USERS + USERS.div_ceil(3)) as u64;
    set_quota(&server, bindings);
    let text = register_as("late", 1, "Contact: <sip:late@192.0.2.9:5070>");
    let datagram = server.runtime.buffers().copy_from(text.as_bytes()).unwrap();
    let flow = busyhour_sip::Flow::udp(local(), crate::client());
    server.server.message(flow, &datagram);
    assert_eq!(unread(&server), USERS as u64);
    server.simulation().run_until_idle();
    server.settle();
    let answer = server.sent().pop().expect("an answer");
    assert!(
        answer.starts_with("SIP/2.0 503 ") || answer.starts_with("SIP/2.0 403 "),
        "{answer}"
    );
    assert_eq!((unread(&server), contact_count(&server)), (0, bindings));
    // Who had a contact keeps it.
    server.ask(&register_as("u1", 9, &contact(1, "192.0.2.9:5070")));
    assert!(server.sent()[0].starts_with("SIP/2.0 200 "));
    server.ask(&register_as("late", 2, &contact(0, "192.0.2.9:5070")));
    assert!(server.sent()[0].starts_with("SIP/2.0 403 "));
}

/// A domain that is set up has the contacts that its telephones have.
#[test]
fn a_quota_that_comes_later_counts_what_there_is() {
    let mut server = Fixture::open();
    for number in 0..5 {
        server.ask(&register_as(
            &format!("u{number}"),
            1,
            &contact(number, "192.0.2.9:5070"),
        ));
    }
    let _ = server.sent();
    set_quota(&server, 5);
    server.settle();
    assert_eq!(contact_count(&server), 5);
    server.ask(&register_as("u5", 1, &contact(5, "192.0.2.9:5070")));
    assert!(server.sent()[0].starts_with("SIP/2.0 403 "));
}

fn set_quota(server: &Fixture, max_contacts: u64) {
    let tenant = TenantConfig {
        name: "example.com".into(),
        max_contacts: Some(max_contacts),
        ..TenantConfig::default()
    };
    server.server.put_tenant(tenant, Box::new(|_| ())).unwrap();
}

fn contact_count(server: &Fixture) -> u64 {
    server
        .server
        .tenant("example.com")
        .unwrap()
        .used
        .contact_count
}
