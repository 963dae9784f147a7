//! The registrar's rules (RFC 3261 §10.3): each test sends one REGISTER after
//! another.

#[path = "registrar/address.rs"]
mod address;
#[path = "registrar/contact.rs"]
mod contact;
#[path = "registrar/iax2.rs"]
mod iax2;
#[path = "registrar/keep_alive.rs"]
mod keep_alive;
#[path = "registrar/probes.rs"]
mod probes;
#[path = "registrar/refusal.rs"]
mod refusal;

use busyhour::clock::{Instant, UnixTime};
use busyhour_registrar::{
    Binding, BindingChange, BindingId, Bindings, Now, REMOVED_FOR, Refusal, Registration,
    RegistrationPolicy, Restored, Tally, write_answer, write_refusal,
};
use busyhour_sip::{Flow, Message, Transport};
use std::time::Duration;

#[test]
fn a_first_registration_is_stored_and_answered_with_its_lease() {
    let mut registrar = Registrar::default();
    let answer = registrar.accept(
        1,
        "Contact: <sip:a@192.0.2.1;transport=udp>;q=0.5;x=\"y z\"",
    );
    assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
    let contact = "Contact: <sip:a@192.0.2.1;transport=udp>;x=\"y z\";q=0.500;expires=3600\r\n";
    assert!(answer.contains(contact), "{answer}");
    assert!(
        answer.contains("Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("To: <sip:alice@example.com>;tag=t1\r\n"),
        "{answer}"
    );
    assert!(matches!(registrar.changes[..], [BindingChange::Put { .. }]));
    assert_eq!(registrar.tally, tally(1, 0, 0));
}

#[test]
fn a_refresh_rewrites_only_the_lease() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>");
    registrar.pass(1000);
    let answer = registrar.accept(2, "Contact: <sip:a@192.0.2.1>;expires=600");
    assert!(answer.contains(";expires=600\r\n"), "{answer}");
    assert!(matches!(
        registrar.changes[..],
        [BindingChange::Renew { .. }]
    ));
    assert_eq!(registrar.tally, tally(0, 1, 0));
}

const PHONE: &str = "+sip.instance=\"<urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6>\"";

#[test]
fn outbound_bindings_are_found_by_instance_and_flow_and_not_by_address() {
    let mut registrar = Registrar::default();
    let contact = |address: &str, reg_id: u32| {
        format!(
            "Supported: path, outbound\r\nContact: <sip:a@{address};ob>;{PHONE};reg-id={reg_id}"
        )
    };
    let answer = registrar.accept(1, &contact("192.0.2.1:5062", 1));
    assert!(answer.contains("Require: outbound\r\n"), "{answer}");
    assert!(answer.contains("Flow-Timer: 120\r\n"), "{answer}");
    assert!(answer.contains(";reg-id=1;expires=3600\r\n"), "{answer}");
    registrar.accept(2, &contact("192.0.2.1:5062", 2));
    assert_eq!(registrar.active_count(), 2, "one device has two flows");
    registrar.call_id = "after-a-restart";
    let answer = registrar.accept(1, &contact("198.51.100.7:40000", 1));
    assert_eq!(
        (registrar.tally, registrar.active_count()),
        (tally(0, 1, 0), 2)
    );
    assert!(
        answer.contains("<sip:a@198.51.100.7:40000;ob>"),
        "the answer has the new address: {answer}"
    );
    registrar.accept(2, &format!("{};expires=0", contact("203.0.113.1", 2)));
    assert_eq!(registrar.active_count(), 1);
}

#[test]
fn without_the_option_tag_reg_id_is_an_ordinary_parameter() {
    let mut registrar = Registrar::default();
    let answer = registrar.accept(1, &format!("Contact: <sip:a@192.0.2.1>;{PHONE};reg-id=1"));
    registrar.accept(2, &format!("Contact: <sip:a@192.0.2.2>;{PHONE};reg-id=1"));
    assert_eq!(registrar.active_count(), 2);
    assert!(
        !answer.contains("Require:") && !answer.contains("Flow-Timer:"),
        "{answer}"
    );
    let no_instance = "Supported: outbound\r\nContact: <sip:b@192.0.2.2>;reg-id=1";
    assert!(!registrar.accept(3, no_instance).contains("Require:"));
}

#[test]
fn a_first_hop_that_keeps_no_flows_is_439_and_several_keys_are_400() {
    let mut registrar = Registrar::default();
    let contact =
        format!("Supported: outbound, path\r\nContact: <sip:a@192.0.2.1>;{PHONE};reg-id=1");
    let proxied = |path: &str| {
        format!("Via: SIP/2.0/UDP 192.0.2.77;branch=z9hG4bKp\r\nPath: {path}\r\n{contact}")
    };
    let answer = registrar.refuse(
        1,
        &proxied("<sip:p2@example.com;lr;ob>, <sip:p1@example.com;lr>"),
    );
    assert!(
        answer.starts_with("SIP/2.0 439 First Hop Lacks Outbound Support\r\n"),
        "{answer}"
    );
    let answer = registrar.accept(
        1,
        &proxied("<sip:p2@example.com;lr>, <sip:p1@example.com;lr;ob>"),
    );
    assert!(answer.contains("Require: outbound\r\n"), "{answer}");
    assert!(
        !answer.contains("Flow-Timer:"),
        "only the proxy could ask for it: {answer}"
    );
    assert!(
        answer.contains("Path: <sip:p2@example.com;lr>, <sip:p1"),
        "{answer}"
    );
    let two = format!("{contact}, <sip:b@192.0.2.1>;{PHONE};reg-id=2");
    assert!(registrar.refuse(2, &two).starts_with("SIP/2.0 400 "));
    let beside = format!("{contact}, <sip:b@192.0.2.1>");
    assert!(registrar.refuse(2, &beside).starts_with("SIP/2.0 400 "));
    let taken_back = format!("{two};expires=0, <sip:c@192.0.2.1>;expires=0");
    let answer = registrar.accept(2, &taken_back);
    assert!(answer.contains("Require: outbound\r\n"), "{answer}");
}

#[test]
fn a_sips_contact_needs_tls_on_every_hop() {
    let contact = "Contact: <sips:a@192.0.2.1>";
    let proxied = |path: &str| {
        format!("Via: SIP/2.0/TLS 192.0.2.77;branch=z9hG4bKp\r\nPath: {path}\r\n{contact}")
    };
    let over = |transport, uri: &'static str, headers: &str| {
        let mut registrar = Registrar {
            transport,
            uri,
            ..Registrar::default()
        };
        let answered = registrar.register(1, headers);
        answered.unwrap_or_else(|(_, answer)| answer)
    };
    let secure = "sips:example.com";
    for (transport, uri, headers, wanted) in [
        (Transport::Tls, secure, contact.to_owned(), "200 OK"),
        (
            Transport::Tcp,
            secure,
            contact.to_owned(),
            "400 SIPS Contact Needs TLS",
        ),
        (
            Transport::Tls,
            "sip:example.com",
            contact.to_owned(),
            "400 SIPS Contact Needs A SIPS Request-URI",
        ),
        (
            Transport::Tls,
            secure,
            format!("{contact}, <sip:a@192.0.2.1>"),
            "400 SIPS And Other Contacts",
        ),
        (
            Transport::Tcp,
            secure,
            proxied("<sips:p.example.com;lr>"),
            "200 OK",
        ),
        (
            Transport::Tls,
            secure,
            proxied("<sip:p.example.com;lr>"),
            "400 SIPS Contact Needs A SIPS Path",
        ),
        (
            Transport::Udp,
            "sip:example.com",
            format!("{contact};expires=0"),
            "200 OK",
        ),
    ] {
        let answer = over(transport, uri, &headers);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {wanted}\r\n")),
            "{headers}\n{answer}"
        );
    }
}

#[test]
fn a_public_gruu_is_returned_to_devices_that_support_it() {
    let mut registrar = Registrar::default();
    let contact = format!("Contact: <sip:a@192.0.2.1>;{PHONE}");
    let answer = registrar.accept(
        1,
        &format!("Supported: gruu\r\n{contact};pub-gruu=\"sip:x@y\""),
    );
    let gruu =
        ";pub-gruu=\"sip:alice@example.com;gr=urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"";
    assert_eq!(
        answer.matches("pub-gruu").count(),
        1,
        "the GRUU is the server's and not the device's: {answer}"
    );
    assert!(answer.contains(gruu), "{answer}");
    assert!(!registrar.accept(2, &contact).contains("gruu"));
    let odd = "Supported: gruu\r\nContact: <sip:b@192.0.2.1>;+sip.instance=\"<urn:x;y>\"";
    assert_eq!(
        registrar.accept(3, odd).matches("pub-gruu").count(),
        1,
        "no URI could hold it"
    );
}

#[test]
fn contacts_are_compared_as_uris() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@Phone.example.com;Transport=TCP>");
    registrar.accept(2, "Contact: <sip:%61@phone.EXAMPLE.com;transport=tcp>");
    assert_eq!(registrar.tally, tally(0, 1, 0));
    registrar.accept(3, "Contact: <sip:A@phone.example.com;transport=tcp>");
    assert_eq!(registrar.tally, tally(1, 0, 0));
    assert_eq!(registrar.active_count(), 2);
}

#[test]
fn expires_comes_from_the_contact_then_the_header_then_the_default() {
    let mut registrar = Registrar::default();
    let headers = "Expires: 300\r\nContact: <sip:a@192.0.2.1>;expires=200, <sip:b@192.0.2.1>";
    let answer = registrar.accept(1, headers);
    assert!(
        answer.contains("<sip:a@192.0.2.1>;expires=200\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("<sip:b@192.0.2.1>;expires=300\r\n"),
        "{answer}"
    );
    let answer = registrar.accept(2, "Contact: <sip:c@192.0.2.1>;expires=999999");
    assert!(
        answer.contains("<sip:c@192.0.2.1>;expires=7200\r\n"),
        "{answer}"
    );
}

#[test]
fn the_answer_has_the_remaining_lifetimes() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>;expires=600");
    registrar.pass(100);
    let answer = registrar.accept(2, "Contact: <sip:b@192.0.2.1>;expires=600");
    assert!(
        answer.contains("<sip:a@192.0.2.1>;expires=500\r\n"),
        "{answer}"
    );
    let query = registrar.accept(3, "User-Agent: phone");
    assert!(
        query.contains("<sip:a@192.0.2.1>;expires=500\r\n"),
        "{query}"
    );
    assert!(
        query.contains("<sip:b@192.0.2.1>;expires=600\r\n"),
        "{query}"
    );
    assert!(registrar.changes.is_empty());
}

#[test]
fn a_lifetime_too_short_is_423_with_min_expires_and_changes_nothing() {
    let mut registrar = Registrar::default();
    let headers = "Contact: <sip:a@192.0.2.1>, <sip:b@192.0.2.1>;expires=59";
    let answer = registrar.refuse(1, headers);
    assert!(
        answer.starts_with("SIP/2.0 423 Interval Too Brief\r\n"),
        "{answer}"
    );
    assert!(answer.contains("Min-Expires: 60\r\n"), "{answer}");
    assert_eq!(registrar.active_count(), 0);
}

#[test]
fn an_hour_is_never_too_short() {
    let mut registrar = Registrar::default();
    registrar.policy.expires_min = Duration::from_secs(7200);
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>;expires=3600");
    registrar.refuse(2, "Contact: <sip:a@192.0.2.1>;expires=3599");
}

#[test]
fn star_removes_all_and_only_with_expires_zero() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>, <sip:b@192.0.2.1>");
    for wrong in ["Contact: *", "Contact: *\r\nExpires: 60"] {
        let answer = registrar.refuse(2, wrong);
        assert!(answer.starts_with("SIP/2.0 400 "), "{answer}");
    }
    let beside = "Contact: *, <sip:a@192.0.2.1>\r\nExpires: 0";
    registrar.refuse(2, beside);
    assert_eq!(registrar.active_count(), 2);
    let answer = registrar.accept(3, "Contact: *\r\nExpires: 0");
    assert!(!answer.contains("Contact:"), "{answer}");
    assert_eq!(registrar.tally, tally(0, 0, 2));
}

#[test]
fn a_duplicate_is_answered_again_and_changes_nothing() {
    let mut registrar = Registrar::default();
    registrar.accept(5, "Contact: <sip:a@192.0.2.1>");
    registrar.pass(10);
    let answer = registrar.accept(5, "Contact: <sip:a@192.0.2.1>");
    assert!(answer.contains(";expires=3590\r\n"), "{answer}");
    assert!(registrar.changes.is_empty());
}

#[test]
fn an_older_registration_of_the_same_call_is_refused_as_a_whole() {
    let mut registrar = Registrar::default();
    registrar.accept(5, "Contact: <sip:a@192.0.2.1>");
    let answer = registrar.refuse(4, "Contact: <sip:b@192.0.2.1>, <sip:a@192.0.2.1>");
    assert!(
        answer.starts_with("SIP/2.0 500 CSeq Out Of Order\r\n"),
        "{answer}"
    );
    assert_eq!(registrar.active_count(), 1);
    registrar.call_id = "another";
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>");
    assert!(matches!(registrar.changes[..], [BindingChange::Put { .. }]));
}

#[test]
fn a_late_duplicate_cannot_revive_a_removed_binding() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>");
    registrar.accept(2, "Contact: <sip:a@192.0.2.1>;expires=0");
    assert_eq!(registrar.tally, tally(0, 0, 1));
    registrar.refuse(1, "Contact: <sip:a@192.0.2.1>");
    assert_eq!(registrar.active_count(), 0);
    let again = registrar.accept(2, "Contact: <sip:a@192.0.2.1>;expires=0");
    assert!(again.starts_with("SIP/2.0 200 "), "{again}");
    registrar.accept(3, "Contact: <sip:a@192.0.2.1>");
    assert_eq!(registrar.active_count(), 1);
}

/// A request that was held up on its way comes after its device has given it up and ended what it took
/// for over.
#[test]
fn a_request_from_between_two_removals_cannot_revive_a_binding() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>");
    registrar.accept(2, "Contact: <sip:a@192.0.2.1>;expires=0");
    registrar.accept(4, "Contact: <sip:a@192.0.2.1>;expires=0");
    assert_eq!(
        (registrar.tally, registrar.changes.len()),
        (tally(0, 0, 0), 1)
    );
    registrar.refuse(3, "Contact: <sip:a@192.0.2.1>");
    assert_eq!(registrar.active_count(), 0);
    registrar.accept(5, "Contact: <sip:a@192.0.2.1>");
    assert_eq!(registrar.active_count(), 1);
}

#[test]
fn a_star_of_another_call_keeps_the_order_of_the_first_call() {
    let mut registrar = Registrar::default();
    registrar.accept(8, "Contact: <sip:a@192.0.2.1>");
    registrar.call_id = "another";
    registrar.accept(1, "Contact: *\r\nExpires: 0");
    registrar.call_id = "call";
    registrar.refuse(7, "Contact: <sip:a@192.0.2.1>");
    registrar.accept(9, "Contact: <sip:a@192.0.2.1>");
    assert_eq!(registrar.active_count(), 1);
}

#[test]
fn records_of_removed_leases_are_limited_and_expire() {
    let mut registrar = Registrar::default();
    registrar.policy.contacts_max = 2;
    for number in 0..10 {
        let contact = format!("Contact: <sip:a@192.0.2.1:{}>", 5000 + number);
        registrar.accept(2 * number + 1, &contact);
        registrar.accept(2 * number + 2, &format!("{contact};expires=0"));
    }
    let forgotten = BindingChange::Remove { id: BindingId(8) };
    assert_eq!(registrar.changes.last(), Some(&forgotten));
    registrar.pass(REMOVED_FOR.as_secs());
    let expired = registrar.bindings.expire(registrar.at.now);
    assert_eq!((expired.ended.len(), expired.active_count), (2, 0));
    assert!(registrar.bindings.is_empty());
}

#[test]
fn too_many_contacts_are_forbidden_but_refreshes_succeed() {
    let mut registrar = Registrar::default();
    registrar.policy.contacts_max = 2;
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>, <sip:b@192.0.2.1>");
    let answer = registrar.refuse(2, "Contact: <sip:c@192.0.2.1>");
    assert!(
        answer.starts_with("SIP/2.0 403 Too Many Contacts\r\n"),
        "{answer}"
    );
    registrar.accept(3, "Contact: <sip:a@192.0.2.1>");
    registrar.accept(4, "Contact: <sip:a@192.0.2.1>;expires=0, <sip:c@192.0.2.1>");
    assert_eq!(registrar.active_count(), 2);
}

#[test]
fn a_thousand_contacts_are_refused_without_comparison() {
    let mut registrar = Registrar::default();
    let contacts: Vec<_> = (0..21).map(|n| format!("<sip:a{n}@192.0.2.1>")).collect();
    let answer = registrar.refuse(1, &format!("Contact: {}", contacts.join(", ")));
    assert!(
        answer.starts_with("SIP/2.0 403 Too Many Contacts\r\n"),
        "{answer}"
    );
    // A request may name as many contacts to remove as can be replaced at once,
    // even if they are not bound.
    let gone = |count| {
        let one = |n| format!("<sip:a{n}@192.0.2.1>;expires=0");
        let all: Vec<_> = (0..count).map(one).collect();
        format!("Contact: {}", all.join(", "))
    };
    registrar.accept(2, &gone(20));
    let answer = registrar.refuse(3, &gone(21));
    assert!(answer.starts_with("SIP/2.0 403 Too Many"), "{answer}");
}

#[test]
fn unknown_requirements_are_420_with_their_names() {
    let mut registrar = Registrar::default();
    let answer = registrar.refuse(
        1,
        "Require: path, 100rel, gruu, outbound, foo\r\nContact: <sip:a@192.0.2.1>",
    );
    assert!(
        answer.starts_with("SIP/2.0 420 Bad Extension\r\n"),
        "{answer}"
    );
    assert!(answer.contains("Unsupported: 100rel, foo\r\n"), "{answer}");
}

#[test]
fn path_is_stored_and_returned() {
    let mut registrar = Registrar::default();
    let path = "Path: <sip:p1.example.com;lr>\r\nPath: <sip:p2.example.com;lr>\r\n";
    let answer = registrar.accept(1, &format!("{path}Contact: <sip:a@192.0.2.1>"));
    assert!(answer.contains(path), "{answer}");
    let binding = registrar.bindings.active(registrar.at.now).next().unwrap();
    assert_eq!(
        binding.contact.path(),
        "<sip:p1.example.com;lr>, <sip:p2.example.com;lr>"
    );
}

#[test]
fn bindings_expire_and_are_restored_with_their_remaining_time() {
    let mut registrar = Registrar::default();
    registrar.accept(
        1,
        "Contact: <sip:a@192.0.2.1>;expires=600, <sip:b@192.0.2.1>;expires=90",
    );
    assert_eq!(
        registrar.bindings.next_expiry(),
        Some(Instant::from_nanos(90_000_000_000))
    );
    registrar.pass(90);
    let expired = registrar.bindings.expire(registrar.at.now);
    assert_eq!((expired.ended.len(), expired.active_count), (1, 1));

    let kept = registrar.bindings.active(registrar.at.now).next().unwrap();
    let restart = Now {
        now: Instant::ZERO,
        unix: registrar.at.unix,
        steady: registrar.at.steady + Duration::from_secs(100),
    };
    let mut restored = Bindings::default();
    let outcome = restored.restore(kept.id, kept.contact.clone(), kept.lease(), restart);
    assert_eq!(outcome, Restored::Taken);
    assert_eq!(
        restored.next_expiry(),
        Some(Instant::from_nanos(410_000_000_000))
    );
    let too_late = Now {
        steady: registrar.at.steady + Duration::from_secs(511),
        ..restart
    };
    let outcome = restored.restore(kept.id, kept.contact.clone(), kept.lease(), too_late);
    assert_eq!(outcome, Restored::Over);
}

#[test]
fn a_calendar_set_back_prolongs_no_binding() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>;expires=600");
    let kept = registrar.bindings.active(registrar.at.now).next().unwrap();
    let last_year = Now {
        now: Instant::ZERO,
        unix: registrar.at.unix,
        steady: UnixTime::from_secs(1_600_000_000),
    };
    let mut restored = Bindings::default();
    let outcome = restored.restore(kept.id, kept.contact.clone(), kept.lease(), last_year);
    assert_eq!(outcome, Restored::Taken);
    assert_eq!(
        restored.next_expiry(),
        Some(Instant::from_nanos(600_000_000_000))
    );
}

#[test]
fn the_newer_of_two_stored_bindings_of_a_contact_is_restored() {
    let mut registrar = Registrar::default();
    registrar.accept(1, "Contact: <sip:a@192.0.2.1>;expires=600");
    let [ended] = active(&registrar).try_into().unwrap();
    registrar.pass(600);
    registrar.bindings.expire(registrar.at.now);
    let again = "Contact: <sip:a@192.0.2.1>, <sip:b@192.0.2.1>";
    registrar.accept(2, again);
    let newer = active(&registrar);
    let in_time = Now {
        now: Instant::ZERO,
        unix: registrar.at.unix,
        steady: UnixTime::from_secs(1_700_000_300),
    };
    let mut restored = Bindings::default();
    let mut restore =
        |one: &Binding| restored.restore(one.id, one.contact.clone(), one.lease(), in_time);
    assert_eq!(restore(&ended), Restored::Taken);
    let Restored::InsteadOf(displaced) = restore(&newer[0]) else {
        panic!("both contacts are there");
    };
    assert_eq!(displaced.id, ended.id);
    assert_eq!(restore(&newer[1]), Restored::Taken);
    let ids = restored.active(in_time.now).map(|binding| binding.id);
    assert!(ids.eq(newer.iter().map(|binding| binding.id)));
}

fn active(registrar: &Registrar) -> Vec<Binding> {
    let active = registrar.bindings.active(registrar.at.now);
    active.cloned().collect()
}

/// One address of record and the REGISTERs it gets.
struct Registrar {
    policy: RegistrationPolicy,
    bindings: Bindings,
    changes: Vec<BindingChange>,
    tally: Tally,
    call_id: &'static str,
    uri: &'static str,
    transport: Transport,
    at: Now,
    last_id: u64,
}

impl Default for Registrar {
    fn default() -> Self {
        Self {
            policy: RegistrationPolicy::default(),
            bindings: Bindings::default(),
            changes: Vec::new(),
            tally: Tally::default(),
            call_id: "call",
            uri: "sip:example.com",
            transport: Transport::Udp,
            at: Now {
                now: Instant::ZERO,
                unix: UnixTime::from_secs(1_700_000_000),
                steady: UnixTime::from_secs(1_700_000_000),
            },
            last_id: 0,
        }
    }
}

impl Registrar {
    fn accept(&mut self, cseq: u32, headers: &str) -> String {
        match self.register(cseq, headers) {
            Ok(answer) => answer,
            Err((refusal, _)) => panic!("refused: {refusal:?}"),
        }
    }

    fn refuse(&mut self, cseq: u32, headers: &str) -> String {
        match self.register(cseq, headers) {
            Ok(answer) => panic!("accepted: {answer}"),
            Err((_, answer)) => answer,
        }
    }

    fn pass(&mut self, seconds: u64) {
        let time = Duration::from_secs(seconds);
        self.at.now = self.at.now + time;
        self.at.unix = self.at.unix + time;
        self.at.steady = self.at.steady + time;
    }

    fn flow(&self) -> Flow {
        let local = "192.0.2.9:5060".parse().unwrap();
        let remote = "192.0.2.1:5062".parse().unwrap();
        Flow {
            transport: self.transport,
            ..Flow::udp(local, remote)
        }
    }

    fn active_count(&self) -> usize {
        self.bindings.active(self.at.now).count()
    }

    fn register(&mut self, cseq: u32, headers: &str) -> Result<String, (Refusal, String)> {
        let text = request(self.uri, self.call_id, cseq, headers);
        let message = Message::parse(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let outcome = self.update(&message, &mut answer);
        outcome
            .map(|()| String::from_utf8(answer).unwrap())
            .map_err(|refusal| {
                let mut answer = Vec::new();
                let source = self.flow().remote;
                write_refusal(&mut answer, &message, &refusal, source, "t1");
                (refusal, String::from_utf8(answer).unwrap())
            })
    }

    fn update(&mut self, message: &Message<'_>, answer: &mut Vec<u8>) -> Result<(), Refusal> {
        let registration = Registration::read(message, "sip:alice@example.com", self.flow())?;
        let mut next_id = || {
            self.last_id += 1;
            BindingId(self.last_id)
        };
        let update = self
            .bindings
            .update(&registration, &self.policy, self.at, &mut next_id)?;
        write_answer(
            answer,
            message,
            &registration,
            &update.bindings,
            self.at,
            ("t1", None),
        );
        (self.bindings, self.changes, self.tally) = (update.bindings, update.changes, update.tally);
        Ok(())
    }
}

fn request(uri: &str, call_id: &str, cseq: u32, headers: &str) -> String {
    format!(
        "REGISTER {uri} SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.1:5062;branch=z9hG4bK{cseq};rport\r\n\
         From: <sip:alice@example.com>;tag=f1\r\n\
         To: <sip:alice@example.com>\r\n\
         Call-ID: {call_id}\r\n\
         CSeq: {cseq} REGISTER\r\n\
         {headers}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn tally(added: u64, refreshed: u64, removed: u64) -> Tally {
    Tally {
        returned: 0,
        added,
        refreshed,
        removed,
    }
}
