//! Hints: the state of an extension combines the states of its devices.

use crate::world::{
    DIALOG, World, body, dialog, digest_config, header, hint, kept, ok, open_config,
};
use busyhour_registrar::watch::LineState;
use busyhour_server::server::{HintRefusal, Limits, ServerConfig};

#[test]
fn an_extension_follows_its_devices() {
    let mut world = World::open();
    world
        .server
        .set_hint(&hint("100", &["alice", "bob"]), kept())
        .unwrap();
    let first = world.watch("lamp", "100", "dialog");
    assert!(
        body(&first).contains("<state>terminated</state>"),
        "{first}"
    );
    assert!(body(&first).contains(" contacts=\"0\"/>"), "{first}");
    assert_eq!(line(&world), LineState::Unavailable);
    world.register("alice", 600);
    assert_eq!(line(&world), LineState::Idle);
    let idle = world.only_notify();
    assert!(body(&idle).contains("<state>terminated</state>"), "{idle}");
    assert!(!body(&idle).contains("contacts="), "{idle}");
    let answer = world.publish("alice", DIALOG, &dialog("early"));
    let notify = world.only_notify();
    assert!(
        body(&notify).contains("direction=\"recipient\"><state>early</state>"),
        "{notify}"
    );
    assert_eq!(line(&world), LineState::Ringing);
    world.register("bob", 600);
    world.publish("bob", DIALOG, &dialog("confirmed"));
    assert_eq!(line(&world), LineState::RingInUse);
    let etag = header(&answer, "SIP-ETag");
    let over = format!("Event: dialog\r\nSIP-If-Match: {etag}\r\nExpires: 0\r\n");
    world.publish("alice", &over, "");
    assert_eq!(line(&world), LineState::InUse);
    let last = world.notified().pop().unwrap();
    assert!(body(&last).contains("<state>confirmed</state>"), "{last}");
    assert!(!body(&last).contains("early"), "{last}");
}

#[test]
fn presence_of_an_extension_names_its_state() {
    let mut world = World::with(ServerConfig {
        hints: vec![hint("100", &["alice"])],
        ..open_config()
    });
    let first = world.watch("w", "100", "presence");
    assert!(body(&first).contains("<basic>closed</basic></status><note>Unavailable</note>"));
    world.register("alice", 600);
    assert!(body(&world.only_notify()).contains("<basic>open</basic></status><note>Ready</note>"));
    world.publish("alice", DIALOG, &dialog("confirmed"));
    let notify = world.only_notify();
    assert!(
        body(&notify).contains("<note>On the phone</note>"),
        "{notify}"
    );
    roxmltree::Document::parse(body(&notify)).unwrap();
    world.register("alice", 0);
    world.pass(3_600_000);
    assert_eq!(line(&world), LineState::Unavailable);
}

#[test]
fn states_held_and_dialling_differ_from_ringing() {
    let mut world = World::open();
    world
        .server
        .set_hint(&hint("100", &["alice"]), kept())
        .unwrap();
    world.register("alice", 600);
    let held = dialog("confirmed").replace(
        "</state>",
        "</state><local><target uri=\"sip:a@b\"><param pname=\"+sip.rendering\" pval=\"no\"/>\
         </target></local>",
    );
    world.publish("alice", DIALOG, &held);
    assert_eq!(line(&world), LineState::OnHold);
    let notify = world.watch("w", "100", "dialog");
    assert!(
        body(&notify).contains("pname=\"+sip.rendering\" pval=\"no\""),
        "{notify}"
    );
    roxmltree::Document::parse(body(&notify)).unwrap();
    let mut world = World::open();
    world
        .server
        .set_hint(&hint("100", &["alice"]), kept())
        .unwrap();
    world.publish(
        "alice",
        DIALOG,
        &dialog("early").replace("recipient", "initiator"),
    );
    assert_eq!(line(&world), LineState::InUse);
}

#[test]
fn the_strongest_device_state_counts_as_in_asterisk() {
    use LineState::*;
    let cases: [(&[LineState], LineState); 12] = [
        (&[], Invalid),
        (&[Unavailable], Unavailable),
        (&[Unavailable, Idle], Idle),
        (&[Idle, OnHold], OnHold),
        (&[Idle, Ringing], Ringing),
        (&[Unavailable, InUse], InUse),
        (&[InUse, OnHold], InUse),
        (&[InUse, Busy], Busy),
        (&[Ringing, InUse], RingInUse),
        (&[OnHold, Ringing], RingInUse),
        (&[Ringing, Idle, Busy], RingInUse),
        (&[RingInUse, Idle], RingInUse),
    ];
    for (lines, expected) in cases {
        assert_eq!(
            LineState::aggregate(lines.iter().copied()),
            expected,
            "{lines:?}"
        );
        assert_eq!(
            LineState::aggregate(lines.iter().rev().copied()),
            expected,
            "{lines:?}"
        );
    }
}

#[test]
fn a_hint_that_is_changed_combines_only_its_new_devices() {
    let mut world = World::open();
    world.register("alice", 600);
    world
        .server
        .set_hint(&hint("100", &["alice"]), kept())
        .unwrap();
    world.watch("w", "100", "presence");
    assert_eq!(
        world.server.set_hint(&hint("100", &["bob"]), kept()),
        Ok(false)
    );
    world.settle();
    assert!(body(&world.only_notify()).contains("Unavailable"));
    world.publish("alice", DIALOG, &dialog("early"));
    assert_eq!(world.notified(), [""; 0]);
    world.register("bob", 600);
    assert!(body(&world.only_notify()).contains("Ready"));
}

#[test]
fn watchers_must_subscribe_again_when_an_address_becomes_or_stops_being_an_extension() {
    let mut world = World::open();
    world.watch("w", "100", "presence");
    world
        .server
        .set_hint(&hint("100", &["alice"]), kept())
        .unwrap();
    world.settle();
    let state = header(&world.only_notify(), "Subscription-State");
    assert_eq!(state, "terminated;reason=deactivated");
    world.watch("v", "100", "presence");
    assert_eq!(world.server.remove_hint("100", kept()), Ok(true));
    world.settle();
    let state = header(&world.notified().pop().unwrap(), "Subscription-State");
    assert_eq!(state, "terminated;reason=deactivated");
    assert_eq!(world.server.remove_hint("100", kept()), Ok(false));
    assert_eq!(world.stats().watch.watcher_count, 0);
    assert_eq!(world.stats().hint.hint_count, 0);
}

#[test]
fn with_accounts_an_extension_without_an_account_can_be_watched() {
    let mut world = World::with(ServerConfig {
        hints: vec![hint("100", &["alice"])],
        ..digest_config()
    });
    let sent = world.subscribe_as("carol", "100", "Event: dialog\r\n");
    assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
    let sent = world.subscribe_as("bob", "101", "Event: dialog\r\n");
    assert!(sent[0].starts_with("SIP/2.0 404 "), "{sent:?}");
}

#[test]
fn an_extension_shows_the_devices_whose_accounts_name_it() {
    let mut world = World::with(ServerConfig {
        hints: vec![hint("100", &["alice"])],
        ..digest_config()
    });
    let devices = |world: &World, extension: &str| -> Vec<String> {
        let view = world.server.hint(extension);
        let devices = view.map_or_else(Vec::new, |view| view.devices);
        devices.iter().map(|device| device.to_string()).collect()
    };
    let [alice, dave, erin] = ["alice", "dave", "erin"].map(|u| format!("sip:{u}@example.com"));
    world.put_account("dave", None, &["100", "300"]);
    world.put_account("erin", None, &["300"]);
    assert_eq!(devices(&world, "100"), [&*alice, &*dave]);
    assert_eq!(devices(&world, "300"), [&*dave, &*erin]);
    assert_eq!(
        world.server.remove_hint("300", kept()),
        Err(HintRefusal::InAccounts("300".into()))
    );
    let sent = world.subscribe_as("carol", "300", "Event: dialog\r\n");
    assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
    world.receive(&ok(&sent[1]));
    world.put_account("dave", None, &[]);
    assert_eq!(devices(&world, "100"), [&*alice]);
    assert_eq!(devices(&world, "300"), [&*erin]);
    assert_eq!(
        world.server.set_hint(&hint("300", &["bob"]), kept()),
        Ok(false)
    );
    assert_eq!(world.server.remove_hint("300", kept()), Ok(true));
    assert_eq!(
        devices(&world, "300"),
        [&*erin],
        "the devices that accounts name stay"
    );
    world.settle();
    let told = world.notified();
    let is_over = |notify: &String| notify.contains("Subscription-State: terminated");
    assert!(!told.iter().any(is_over), "{told:?}");
    world
        .server
        .set_hint(&hint("300", &["bob"]), kept())
        .unwrap();
    world.server.remove_account("erin", kept()).unwrap();
    assert_eq!(devices(&world, "300"), ["sip:bob@example.com"]);
    assert_eq!(world.server.remove_hint("300", kept()), Ok(true));
    world.settle();
    let state = header(&world.notified().pop().unwrap(), "Subscription-State");
    assert_eq!(state, "terminated;reason=deactivated");
    assert_eq!(world.stats().hint.hint_count, 1);
}

#[test]
fn an_invalid_hint_is_refused_with_its_reason() {
    let world = World::with(ServerConfig {
        hints: vec![hint("100", &["sip:alice@example.com"])],
        limits: Limits {
            hints_max: 2,
            ..Limits::default()
        },
        ..open_config()
    });
    let set = |extension: &str, devices: &[&str]| {
        world.server.set_hint(&hint(extension, devices), kept())
    };
    assert_eq!(set("1 0", &["alice"]), Err(HintRefusal::Extension));
    assert_eq!(set("101", &[]), Err(HintRefusal::DeviceCount));
    assert_eq!(set("101", &["a"; 65]), Err(HintRefusal::DeviceCount));
    let stranger = "sip:alice@elsewhere.org";
    assert_eq!(
        set("101", &[stranger]),
        Err(HintRefusal::Device(stranger.into()))
    );
    assert_eq!(
        set("100", &["bob"]),
        Err(HintRefusal::Configured("100".into()))
    );
    assert_eq!(
        world.server.remove_hint("100", kept()),
        Err(HintRefusal::Configured("100".into()))
    );
    assert_eq!(set("101", &["bob"]), Ok(true));
    assert_eq!(set("102", &["bob"]), Err(HintRefusal::Full(2)));
    let page = world.server.hints(None, 1, None);
    assert_eq!(page.items[0].extension, "100");
    let page = world.server.hints(page.next.as_deref(), 1, None);
    assert_eq!((page.items[0].extension.as_str(), page.next), ("101", None));
}

fn line(world: &World) -> LineState {
    world.server.hint("100").unwrap().line
}
