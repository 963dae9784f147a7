//! What IAX2 devices register: one binding for each address of record.

use super::Registrar;
use busyhour::{
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_registrar::{
    BindingChange, BindingId, Bindings, Iax2Registration, Now, RegistrationPolicy, Tally, Update,
};
use busyhour_sip::Flow;
use std::time::Duration;

#[test]
fn a_registration_from_another_address_replaces_the_earlier_one() {
    let mut bindings = Bindings::default();
    let update = registered(&bindings, &phone(1, Some(600)));
    assert_eq!((update.tally.added, update.tally.removed), (1, 0));
    bindings = update.bindings;
    assert_eq!(contacts(&bindings), ["iax:alice@192.0.2.1:4569"]);
    let again = registered(&bindings, &phone(1, Some(600)));
    assert_eq!((again.tally.refreshed, again.tally.removed), (1, 0));
    assert!(matches!(again.changes[..], [BindingChange::Renew { .. }]));
    let moved = registered(&again.bindings, &phone(2, Some(600)));
    assert_eq!((moved.tally.added, moved.tally.removed), (1, 1));
    assert_eq!(contacts(&moved.bindings), ["iax:alice@192.0.2.2:4569"]);
    let gone = registered(&moved.bindings, &phone(2, None));
    let removed = Tally {
        removed: 1,
        ..Tally::default()
    };
    assert_eq!((gone.tally, contacts(&gone.bindings).len()), (removed, 0));
}

#[test]
fn contacts_of_sip_are_kept() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>");
    let update = registered(&registrar.bindings, &phone(1, Some(600)));
    let both = ["sip:a@192.0.2.1", "iax:alice@192.0.2.1:4569"];
    assert_eq!(contacts(&update.bindings), both);
    let gone = registered(&update.bindings, &phone(1, None));
    assert_eq!(contacts(&gone.bindings), both[..1]);
}

#[test]
fn leases_are_cut_to_what_the_policy_and_sixteen_bits_allow() {
    let granted = |refresh_s, policy: &RegistrationPolicy| phone(1, refresh_s).granted_s(policy);
    let usual = RegistrationPolicy::default();
    assert_eq!(granted(None, &usual), 0, "the binding is removed");
    assert_eq!(granted(Some(0), &usual), 60);
    assert_eq!(granted(Some(61), &usual), 61);
    assert_eq!(granted(Some(7201), &usual), 7200);
    let none = RegistrationPolicy {
        expires_min: Duration::ZERO,
        ..usual.clone()
    };
    assert_eq!(granted(Some(0), &none), 1, "zero would unregister");
    let long = RegistrationPolicy {
        expires_max: Duration::from_secs(1 << 20),
        ..usual
    };
    assert_eq!(granted(Some(1 << 18), &long), u16::MAX);
}

fn registered(bindings: &Bindings, registration: &Iax2Registration) -> Update {
    let mut last_id = bindings.active(NOW.now).map(|b| b.id.0).max().unwrap_or(0);
    let mut next_id = || {
        last_id += 1;
        BindingId(last_id)
    };
    let update = bindings.update_iax2(
        registration,
        &RegistrationPolicy::default(),
        NOW,
        &mut next_id,
    );
    update.unwrap()
}

fn contacts(bindings: &Bindings) -> Vec<&str> {
    let active = bindings.active(NOW.now);
    active.map(|binding| binding.contact.uri()).collect()
}

fn phone(host: u8, refresh_s: Option<u32>) -> Iax2Registration {
    let (local, remote) = (([192, 0, 2, 9], 4569), ([192, 0, 2, host], 4569));
    Iax2Registration {
        aor: Name::new("sip:alice@example.com"),
        username: "alice".into(),
        refresh_s,
        flow: Flow::udp(local.into(), remote.into()),
    }
}

const NOW: Now = Now {
    now: Instant::ZERO,
    unix: UnixTime::from_secs(1_700_000_000),
    steady: UnixTime::from_secs(1_700_000_000),
};
