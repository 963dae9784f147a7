//! What a presence document contains, and which data of a device it does not.

use crate::world::{World, body};

#[test]
fn presence_and_dialogs_name_no_address_of_a_registered_contact() {
    let mut world = World::open();
    world.register("alice", 600);
    let presence = world.watch("p", "alice", "presence");
    let tuple = "<tuple id=\"b1\"><status><basic>open</basic></status>\
                 <contact>sip:alice@example.com</contact></tuple>";
    assert!(body(&presence).contains(tuple), "{presence}");
    assert!(!presence.contains("192.0.2.7"), "{presence}");
    let dialogs = world.watch("d", "alice", "dialog");
    assert!(body(&dialogs).contains("contacts=\"1\""), "{dialogs}");
    assert!(!dialogs.contains("192.0.2.7"), "{dialogs}");
    roxmltree::Document::parse(body(&presence)).unwrap();
}

#[test]
fn a_devices_own_publication_is_not_changed() {
    let mut world = World::open();
    let document = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:alice@example.com\">\
         <tuple id=\"1\"><status><basic>open</basic></status>\
         <contact>sip:alice@192.0.2.7</contact></tuple></presence>";
    let headers = "Event: presence\r\nContent-Type: application/pidf+xml\r\n";
    world.publish("alice", headers, document);
    let presence = world.watch("p", "alice", "presence");
    let contact = "<contact>sip:alice@192.0.2.7</contact>";
    assert!(body(&presence).contains(contact), "{presence}");
    world.publish_next("alice", "", "early");
    let dialogs = world.watch("d", "alice", "dialog");
    assert!(body(&dialogs).contains("<state>early</state>"), "{dialogs}");
}

#[test]
fn a_changed_contact_address_is_not_notified_to_watchers_that_do_not_see_it() {
    let mut world = World::open();
    let contact = |host: &str| {
        format!(
            "Contact: <sip:alice@{host}>;+sip.instance=\"<urn:x>\";reg-id=1\r\nSupported: outbound, path\r\n"
        )
    };
    let answer = world.ask("REGISTER", "alice", &contact("192.0.2.7"), "");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    world.watch("p", "alice", "presence");
    let answer = world.ask("REGISTER", "alice", &contact("192.0.2.8"), "");
    assert!(answer.contains("<sip:alice@192.0.2.8>"), "{answer}");
    assert!(!answer.contains("<sip:alice@192.0.2.7>"), "{answer}");
    assert_eq!(world.notified(), Vec::<String>::new());
}
