//! The states that documents give to a line, and the events of a registration.

use super::{Watcher, alice, assert_has, flow};
use busyhour::{bus::Name, clock::Instant};
use busyhour_registrar::{
    BindingId, Contact, ContactParts,
    watch::{ExtensionState, LineState, Registered, RegistrationState, State},
};
use std::time::Duration;

#[test]
fn the_state_of_a_line_follows_its_dialogs() {
    let body = |line| {
        let mut watcher = Watcher::subscribe("Event: dialog\r\nExpires: 600");
        let extension = Name::new("alice");
        let state = State::Extension(ExtensionState { extension, line });
        watcher.subscription.state_is(Some(state));
        watcher.poll().unwrap()
    };
    for (line, states) in [
        (LineState::Idle, &["terminated"][..]),
        (LineState::Busy, &["confirmed"]),
        (LineState::Ringing, &["early"]),
        (LineState::RingInUse, &["confirmed", "early"]),
        (LineState::OnHold, &["confirmed"]),
    ] {
        let body = body(line);
        for state in ["terminated", "confirmed", "early"] {
            let has = body.contains(&format!("<state>{state}</state>"));
            assert_eq!(has, states.contains(&state), "{line:?}: {body}");
        }
        let is_held = body.contains("+sip.rendering");
        assert_eq!(is_held, line == LineState::OnHold, "{body}");
    }
}

#[test]
fn a_registration_document_names_the_event_of_each_contact() {
    let mut watcher = Watcher::subscribe("Event: reg\r\nExpires: 600");
    let mut tell = |seconds: [u64; 3], cseq| {
        let contacts = seconds.iter().zip(1..);
        let contacts = contacts.map(|(seconds, id)| registered(id, *seconds));
        let state = RegistrationState {
            aor: alice(),
            contacts: contacts.collect(),
        };
        (watcher.subscription).state_is(Some(State::Registration(state)));
        let body = watcher.poll().unwrap();
        assert!(watcher.answer(cseq, 200));
        body
    };
    let body = tell([100, 100, 100], 1);
    assert_eq!(body.matches("event=\"registered\"").count(), 3, "{body}");
    let body = tell([200, 50, 100], 2);
    assert_has(&body, "state=\"partial\"");
    assert_eq!(body.matches("<contact ").count(), 2, "{body}");
    let of = |event: &str| {
        let contact = body.lines().find(|line| line.contains(event));
        contact.unwrap_or_else(|| panic!("no {event} in {body}"))
    };
    assert_has(of("event=\"refreshed\""), "id=\"b1\"");
    assert_has(of("event=\"shortened\""), "id=\"b2\"");
}

fn registered(id: u64, seconds: u64) -> Registered {
    let contact = Contact::new(ContactParts {
        uri: "sip:a@192.0.2.1",
        parameters: "",
        q_milli: None,
        call_id: "register",
        path: "",
        user_agent: "",
        flow: flow(),
    });
    Registered {
        id: BindingId(id),
        contact,
        cseq: 1,
        expires_at: Instant::ZERO + Duration::from_secs(seconds),
    }
}
