//! Lists that change while a panel subscribes to them.

use crate::{Fixture, open_config, subscribe, to_tag, told};
use busyhour_registrar::watch::WatchPolicy;
use busyhour_server::server::{ListConfig, LiveSettings, ServerConfig};

const BLF_LIST: &str = "Event: dialog\r\nExpires: 600\r\nSupported: eventlist";

/// With lists of these names, each with these users.
fn config(lists: &[(&str, &[&str])]) -> ServerConfig {
    let list = |(name, users): &(&str, &[&str])| ListConfig {
        name: (*name).to_owned(),
        title: None,
        entries: users.iter().map(|user| (*user).to_owned()).collect(),
    };
    ServerConfig {
        lists: lists.iter().map(list).collect(),
        watch: WatchPolicy {
            list_datagram_len_max: 60_000,
            ..WatchPolicy::default()
        },
        ..open_config()
    }
}

fn reload(server: &Fixture, lists: &[(&str, &[&str])]) {
    let live = LiveSettings::from(config(lists));
    server.server.reconfigure(&live).expect("it fits");
}

/// The list gets a lamp, or is made, while the disk has not yet taken the subscription.
#[test]
fn a_list_that_changes_while_a_panel_subscribes_is_told_as_it_is_then() {
    let mut server = Fixture::with(config(&[("alice", &["bob"])]));
    server.receive(&subscribe(1, "", BLF_LIST));
    assert_eq!(server.sent(), [""; 0], "the disk has not answered");
    reload(&server, &[("alice", &["bob", "carol"])]);
    let told = told(&mut server);
    assert!(told[0].starts_with("SIP/2.0 200 "), "{told:#?}");
    let last = told.last().expect("a NOTIFY");
    assert!(last.contains("sip:carol@example.com"), "{told:#?}");
    assert_eq!(server.stats().list.resource_count, 2);
}

#[test]
fn who_watches_an_address_that_a_reload_makes_a_list_is_told_to_subscribe_anew() {
    for is_durable in [false, true] {
        let mut server = Fixture::with(config(&[]));
        server.receive(&subscribe(1, "", BLF_LIST));
        if is_durable {
            let told = told(&mut server);
            assert!(told[1].contains("Subscription-State: active"), "{told:#?}");
        }
        reload(&server, &[("alice", &["bob", "carol"])]);
        let last = told(&mut server).pop().expect("a NOTIFY");
        let state = "Subscription-State: terminated;reason=deactivated\r\n";
        assert!(last.contains(state), "{is_durable}: {last}");
        server.receive(&subscribe(2, "", BLF_LIST));
        let told = told(&mut server);
        assert!(told[1].contains("sip:carol@example.com"), "{told:#?}");
        assert_eq!(server.stats().watch.watcher_count, 1);
    }
}

/// Everybody sees only his own registrations, so what a list has is no news of them.
#[test]
fn what_is_told_of_no_list_goes_on_when_its_address_becomes_one() {
    let mut server = Fixture::with(config(&[]));
    server.receive(&subscribe(1, "", "Event: reg\r\nExpires: 600"));
    let tag = to_tag(&told(&mut server)[0]);
    reload(&server, &[("alice", &["bob"]), ("others", &["carol"])]);
    assert_eq!(told(&mut server), [""; 0]);
    server.receive(&subscribe(2, &tag, "Event: reg\r\nExpires: 600"));
    let told = told(&mut server);
    assert!(told[0].starts_with("SIP/2.0 200 "), "{told:#?}");
}
