//! Which contacts end with their flow, and how much memory a contact counts
//! for.

use super::{PHONE, Registrar, active};
use busyhour_registrar::{Advertised, Bindings, Contact, ContactParts, Reach, Restored};
use busyhour_sip::{Flow, Transport};
use std::net::SocketAddr;

#[test]
fn over_udp_a_contact_depends_on_its_flow_if_it_listens_there() {
    let depends = |uri: &str| contact(Transport::Udp, SOURCE, uri, "", "").depends_on_flow();
    for uri in [
        "sip:a@192.0.2.7:40000",
        "sip:a@10.0.0.5",
        "sip:a@172.16.0.5",
        "sip:a@169.254.1.1",
        "sip:a@100.64.0.1",
        "sip:a@100.127.255.1",
        "sip:a@[fd00::7]",
        "sip:a@[fe80::7]",
        "sip:a@192.0.2.8;ob",
        "iax:a@192.0.2.8",
    ] {
        assert!(depends(uri), "{uri}");
    }
    for uri in [
        "sip:a@192.0.2.7:40001",
        "sip:a@192.0.2.8:40000",
        "sip:a@100.63.0.1",
        "sip:a@100.128.0.1",
        "sip:a@101.64.0.1",
        "sip:a@[2001:db8::8]:40000",
        "sip:a@192.0.2.7:40000;transport=tcp",
    ] {
        assert!(!depends(uri), "{uri}");
    }
    let over_udp = "sip:a@192.0.2.7:40000;transport=UDP";
    assert!(depends(over_udp), "{over_udp}");
    let proxied = contact(
        Transport::Udp,
        SOURCE,
        "sip:a@192.0.2.7:40000",
        "",
        "<sip:p;lr>",
    );
    assert!(!proxied.depends_on_flow(), "the flow belongs to the proxy");
}

#[test]
fn over_a_connection_a_contact_at_another_port_does_not_depend_on_its_flow() {
    let depends =
        |source: &str, uri: &str| contact(Transport::Tcp, source, uri, "", "").depends_on_flow();
    for (source, uri) in [
        (SOURCE, "sip:a@192.0.2.7:40000"),
        (SOURCE, "sip:a@192.0.2.8:5060"),
        (SOURCE, "sip:a@192.0.2.7:5060;ob"),
        (SOURCE, "sip:a@phone.example.com"),
        (SOURCE, "tel:123"),
        ("192.0.2.7:5060", "sip:a@192.0.2.7"),
        ("192.0.2.7:5061", "sips:a@192.0.2.7"),
        ("192.0.2.7:5061", "sip:a@192.0.2.7;transport=TLS"),
        ("[::ffff:192.0.2.7]:5060", "sip:a@192.0.2.7"),
    ] {
        assert!(depends(source, uri), "{source} {uri}");
    }
    for (source, uri) in [
        (SOURCE, "sip:a@192.0.2.7"),
        ("192.0.2.7:5061", "sip:a@192.0.2.7"),
        ("192.0.2.7:5061", "sip:a@192.0.2.7;transport=tcp"),
        ("192.0.2.7:5060", "sips:a@192.0.2.7"),
        ("[::ffff:192.0.2.7]:40000", "sip:a@192.0.2.7"),
    ] {
        assert!(!depends(source, uri), "{source} {uri}");
    }
    let outbound = format!(";{PHONE};reg-id=1");
    let kept = contact(Transport::Tcp, SOURCE, "sip:a@192.0.2.7", &outbound, "");
    assert!(
        kept.depends_on_flow(),
        "the contact asks for its flow to be kept"
    );
}

#[test]
fn only_contacts_that_depend_on_the_flow_are_lost_with_it() {
    let mut registrar = over_tcp();
    let flow = registrar.flow();
    let there = "Contact: <sip:a@192.0.2.1:5062>, <sip:b@192.0.2.1:5070>";
    registrar.accept(1, there);
    let other = Flow {
        connection: 1,
        ..flow
    };
    let mut set_reach = |flow, reach| registrar.bindings.set_reach(flow, reach);
    assert_eq!(set_reach(other, Reach::Unreachable), None);
    assert_eq!(set_reach(flow, Reach::Reachable), None, "it is");
    let before = Some(Reach::Reachable);
    assert_eq!(set_reach(flow, Reach::Unreachable), before);
    let again = set_reach(flow, Reach::Unreachable);
    assert_eq!(again, None, "a contact is lost only once");
    let late = set_reach(flow, Reach::Reachable);
    assert_eq!(late, None, "that was said before the connection ended");
    assert_eq!(
        reachable(&registrar.bindings, &registrar),
        ["sip:b@192.0.2.1:5070"]
    );
    assert_eq!(registrar.active_count(), 2);
    registrar.accept(2, there);
    assert_eq!(
        (registrar.tally.refreshed, registrar.tally.returned),
        (2, 1)
    );
    assert_eq!(reachable(&registrar.bindings, &registrar).len(), 2);
    registrar.accept(3, "Contact: <sip:a@192.0.2.1:5062>;expires=0");
    let removed = registrar.bindings.set_reach(flow, Reach::Unreachable);
    assert_eq!(removed, None, "the contact was removed before");
}

#[test]
fn with_its_connection_a_contact_ends_unless_something_brings_it_back() {
    let mut registrar = over_tcp();
    let flow = registrar.flow();
    let plain = "<sip:a@192.0.2.1:5062>";
    let listens = "<sip:b@192.0.2.1:5070>";
    let woken = "<sip:c@10.0.0.5;pn-provider=acme;pn-prid=7>";
    registrar.accept(1, &format!("Contact: {plain}, {listens}, {woken}"));
    let other = Flow {
        connection: 1,
        ..flow
    };
    let kept = registrar.bindings.remove_cut_off(other, registrar.at);
    assert_eq!((kept.tally.removed, kept.changes.len()), (0, 0));
    let update = registrar.bindings.remove_cut_off(flow, registrar.at);
    assert_eq!((update.tally.removed, update.changes.len()), (1, 1));
    let left: Vec<_> = update.bindings.active(registrar.at.now).collect();
    let left: Vec<_> = left.iter().map(|binding| binding.contact.uri()).collect();
    assert_eq!(left.len(), 2);
    assert!(!left.contains(&"sip:a@192.0.2.1:5062"), "{left:?}");
    // The device's next registration brings it back, but not a duplicate of the last.
    registrar.bindings = update.bindings;
    registrar.accept(1, &format!("Contact: {plain}, {listens}, {woken}"));
    assert_eq!(registrar.active_count(), 2);
    registrar.accept(2, &format!("Contact: {plain}"));
    assert_eq!(registrar.active_count(), 3);

    let mut registrar = over_tcp();
    let outbound = format!("Contact: {plain};{PHONE};reg-id=1\r\nSupported: outbound");
    registrar.accept(1, &outbound);
    let update = registrar
        .bindings
        .remove_cut_off(registrar.flow(), registrar.at);
    assert_eq!(update.tally.removed, 0, "it comes back under its key");
}

#[test]
fn a_restored_contact_is_unverified_until_it_is_heard_or_registers() {
    let mut registrar = Registrar::default();
    let contact = "Contact: <sip:a@192.0.2.1:5062>";
    registrar.accept(1, contact);
    let flow = registrar.flow();
    let restored = || {
        let mut restored = Bindings::default();
        let binding = active(&registrar).remove(0);
        restored.restore(
            binding.id,
            binding.contact.clone(),
            binding.lease(),
            registrar.at,
        );
        restored
    };
    let reach = |bindings: &Bindings| bindings.all().next().unwrap().contact.reach();
    assert_eq!(reach(&restored()), Reach::Unverified);
    assert_eq!(reachable(&restored(), &registrar).len(), 1, "calls try it");
    let mut heard = restored();
    let before = heard.set_reach(flow, Reach::Reachable);
    assert_eq!(before, Some(Reach::Unverified));
    let mut silent = restored();
    let before = silent.set_reach(flow, Reach::Unreachable);
    assert_eq!(before, Some(Reach::Unverified));
    assert!(reachable(&silent, &registrar).is_empty());
    registrar.bindings = restored();
    registrar.accept(2, contact);
    assert_eq!(reach(&registrar.bindings), Reach::Reachable);
    assert_eq!(
        registrar.tally.returned, 0,
        "nobody was told that it had gone"
    );
}

#[test]
fn a_contact_of_a_connection_is_restored_as_lost() {
    let mut registrar = over_tcp();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1:5062>, <sip:b@192.0.2.1:5070>");
    let mut restored = Bindings::default();
    for binding in active(&registrar) {
        let outcome = restored.restore(
            binding.id,
            binding.contact.clone(),
            binding.lease(),
            registrar.at,
        );
        assert_eq!(outcome, Restored::Taken);
    }
    assert_eq!(reachable(&restored, &registrar), ["sip:b@192.0.2.1:5070"]);
}

/// Another process may have it.
#[test]
fn a_contact_of_a_connection_that_may_stand_is_restored_as_unverified() {
    let mut registrar = over_tcp();
    let flow = Flow {
        connection: 7,
        node: 2,
        ..registrar.flow()
    };
    registrar.accept(1, "Contact: <sip:a@192.0.2.1:5062>");
    let binding = active(&registrar).remove(0);
    let parts = ContactParts {
        flow,
        ..binding.contact.parts()
    };
    let contact = Contact::new(parts);
    let restored = |contact: Contact| {
        let mut restored = Bindings::default();
        restored.restore(binding.id, contact, binding.lease(), registrar.at);
        let reach = restored.all().next().unwrap().contact.reach();
        (reach, restored)
    };
    let (reach, mut stands) = restored(contact.clone());
    assert_eq!(reach, Reach::Unverified);
    let before = stands.set_reach(flow, Reach::Reachable);
    assert_eq!(before, Some(Reach::Unverified));
    let (reach, mut ended) = restored(contact.without_connection());
    assert_eq!(reach, Reach::Unreachable);
    let before = ended.set_reach(flow, Reach::Reachable);
    assert_eq!(before, None, "that is another connection");
}

#[test]
fn the_length_of_a_contact_is_that_of_all_its_texts() {
    let parts = contact(Transport::Udp, SOURCE, "sip:a@b", ";x=1", "<sip:p;lr>");
    let parts = parts.parts();
    assert_eq!(parts.kept_len(), 7 + 4 + 4 + 10 + 5);
    let mut registrar = Registrar::default();
    // The URI, the address of record, and the Call-ID.
    registrar.policy.contact_bytes_max = 15 + 21 + 4;
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>");
    registrar.refuse(2, "Contact: <sip:aa@192.0.2.1>");
    registrar.refuse(2, "Contact: <sip:a@192.0.2.1>;x");
    registrar.refuse(2, "Contact: <sip:a@192.0.2.1>\r\nUser-Agent: x");
    let answer = registrar.refuse(2, "Contact: <sip:a@192.0.2.1>\r\nPath: <sip:p;lr>");
    assert!(answer.starts_with("SIP/2.0 513 "), "{answer}");
}

#[test]
fn contacts_too_long_for_one_answer_are_refused_but_may_be_refreshed() {
    let mut registrar = Registrar::default();
    let contact = |number: u32, len: usize| {
        format!("Contact: <sip:a@192.0.2.1:{number}>;x={}", "y".repeat(len))
    };
    // Each parameter counts twice, since an answer may quote it.
    for number in 1..=8 {
        registrar.accept(number, &contact(number, 3400));
    }
    let answer = registrar.refuse(9, &contact(9, 3400));
    assert!(
        answer.starts_with("SIP/2.0 513 Contacts Exceed"),
        "{answer}"
    );
    registrar.accept(9, &contact(1, 3400));
    registrar.accept(10, &format!("{};expires=0", contact(1, 3400)));
    registrar.accept(11, &contact(9, 3400));
}

#[test]
fn no_address_is_advertised_if_none_was_configured() {
    assert!(Advertised::default().is_empty());
    let one: SocketAddr = "192.0.2.1:5060".parse().unwrap();
    let one = Advertised::from(one);
    assert!(!one.is_empty());
    assert_eq!(one.to_string(), "192.0.2.1:5060");
}

fn over_tcp() -> Registrar {
    Registrar {
        transport: Transport::Tcp,
        ..Registrar::default()
    }
}

fn reachable<'b>(bindings: &'b Bindings, registrar: &Registrar) -> Vec<&'b str> {
    let reachable = bindings.reachable(registrar.at.now);
    reachable.map(|binding| binding.contact.uri()).collect()
}

fn contact(transport: Transport, source: &str, uri: &str, parameters: &str, path: &str) -> Contact {
    Contact::new(ContactParts {
        uri,
        parameters,
        q_milli: None,
        call_id: "call",
        path,
        user_agent: "phone",
        flow: Flow {
            transport,
            ..Flow::udp("192.0.2.9:5060".parse().unwrap(), source.parse().unwrap())
        },
    })
}

const SOURCE: &str = "192.0.2.7:40000";
