//! The registration package (RFC 3680).

use crate::world::{World, body, digest_config, header};

#[test]
fn watchers_are_notified_when_a_registration_begins() {
    let mut world = World::open();
    let first = world.watch("w", "alice", "reg");
    assert_eq!(header(&first, "Content-Type"), "application/reginfo+xml");
    assert!(
        body(&first).contains("version=\"0\" state=\"full\""),
        "{first}"
    );
    assert!(body(&first).contains("id=\"r\" state=\"init\""), "{first}");
    assert_eq!(
        world.stats().registrar.device_count,
        0,
        "nothing is kept for a user who has no device"
    );

    world.register("alice", 600);
    let told = world.only_notify();
    assert!(
        body(&told).contains("version=\"1\" state=\"partial\""),
        "{told}"
    );
    assert!(body(&told).contains("id=\"r\" state=\"active\""), "{told}");
    let contact = "<contact id=\"b1\" state=\"active\" event=\"registered\" callid=\"ask\" cseq=\"2\" \
                   expires=\"600\"><uri>sip:alice@192.0.2.7</uri></contact>";
    assert!(body(&told).contains(contact), "{told}");
}

#[test]
fn each_step_of_a_registration_is_notified_with_its_event() {
    let mut world = World::open();
    world.register("alice", 600);
    world.watch("w", "alice", "reg");
    world.pass(1_000);
    world.register("alice", 600);
    assert!(body(&world.only_notify()).contains("event=\"refreshed\""));
    world.register("alice", 60);
    let told = world.only_notify();
    assert!(body(&told).contains("event=\"shortened\""), "{told}");
    assert!(body(&told).contains("expires=\"60\""), "{told}");
    world.pass(60_000);
    let told = world.only_notify();
    assert!(
        body(&told).contains("id=\"r\" state=\"terminated\""),
        "{told}"
    );
    assert!(
        body(&told).contains("state=\"terminated\" event=\"expired\""),
        "{told}"
    );
    world.register("alice", 600);
    world.notified();
    world.register("alice", 0);
    assert!(body(&world.only_notify()).contains("state=\"terminated\" event=\"unregistered\""));
    roxmltree::Document::parse(body(&told)).unwrap();
}

#[test]
fn a_refresh_of_the_subscription_gets_the_full_state() {
    let mut world = World::open();
    world.register("alice", 600);
    let first = world.watch("w", "alice", "reg");
    assert!(body(&first).contains("event=\"registered\""), "{first}");
    let (_, again) = world.subscribe("w", "alice", "Event: reg\r\n");
    let again = again.unwrap();
    assert!(
        body(&again).contains("version=\"1\" state=\"full\""),
        "{again}"
    );
    assert!(
        body(&again).contains("<uri>sip:alice@192.0.2.7</uri>"),
        "{again}"
    );
}

#[test]
fn changes_while_a_notify_is_unanswered_are_not_lost() {
    let mut world = World::open();
    world.watch("w", "alice", "reg");
    world.register("alice", 600);
    world.register("alice", 0);
    world.register("alice", 600);
    let told = world.notified();
    assert_eq!(told.len(), 2, "{told:#?}");
    let (first, last) = (body(&told[0]), body(&told[1]));
    assert!(first.contains("event=\"registered\""), "{first}");
    // The binding that was removed and made again is the same one.
    assert!(
        last.contains("id=\"b1\" state=\"active\" event=\"refreshed\""),
        "{last}"
    );
}

#[test]
fn only_the_account_itself_sees_where_it_registers() {
    let mut world = World::with(digest_config());
    let sent = world.subscribe_as("alice", "alice", "Event: reg\r\n");
    assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
    let sent = world.subscribe_as("bob", "alice", "Event: reg\r\n");
    assert!(
        sent[0].starts_with("SIP/2.0 403 Not Your Registration\r\n"),
        "{sent:?}"
    );
}

#[test]
fn a_registration_cannot_be_published() {
    let mut world = World::open();
    let answer = world.publish(
        "alice",
        "Event: reg\r\nContent-Type: application/reginfo+xml\r\n",
        "<x/>",
    );
    assert!(answer.starts_with("SIP/2.0 489 "), "{answer}");
}
