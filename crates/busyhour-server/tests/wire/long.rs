//! Contacts so long that their list fits into no datagram are refused when they
//! are registered, so that later queries can be answered.

use crate::{
    phone::{OPEN, Phone},
    support::{Place, ServerProcess},
};

/// A REGISTER of alice with one more contact of about `len` bytes.
fn register(phone: &Phone, number: usize, len: usize) -> String {
    let uri = format!(
        "sip:alice{number}@{};x={}",
        phone.address(),
        "x".repeat(len)
    );
    let contact = format!("Contact: <{uri}>\r\n");
    let request = phone.request("REGISTER", "sip:example.com", "alice", &contact);
    let request = request.replace("branch=z9hG4bK", &format!("branch=z9hG4bK{number}"));
    request.replace("Call-ID: ", &format!("Call-ID: {number}-"))
}

/// The answer to a query of the contacts; it is longer with more `hops`.
fn query(phone: &Phone, server: &ServerProcess, hops: usize) -> String {
    let branch = format!("z9hG4bKhop{}", "h".repeat(6000));
    let hop = format!("Via: SIP/2.0/UDP 192.0.2.9;branch={branch}\r\n");
    let request = phone.request("REGISTER", "sip:example.com", "alice", &hop.repeat(hops));
    let branch = format!("branch=z9hG4bKquery{hops}");
    let request = request.replacen("branch=z9hG4bK", &branch, 1);
    phone.ask(&request, server.sip).0
}

#[test]
fn a_contact_that_is_too_long_to_be_kept_is_refused() {
    let place = Place::new();
    let server = place.server(OPEN);
    let phone = Phone::at("127.0.0.9:0");
    let (answer, _) = phone.ask(&register(&phone, 1, 8000), server.sip);
    assert!(answer.starts_with("SIP/2.0 513 "), "{answer}");
    let (answer, _) = phone.ask(&register(&phone, 2, 3000), server.sip);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let known = query(&phone, &server, 0);
    assert_eq!(known.matches("Contact: ").count(), 1, "{known}");
    assert_eq!(server.stat("/registrar/too_long"), 1);
    server.wait_for_log("limits.contact_bytes");
}

#[test]
fn contacts_too_long_for_an_answer_are_refused_and_the_others_are_listed() {
    let place = Place::new();
    let server = place.server(&format!("{OPEN}max_contacts = 100\n"));
    let phone = Phone::at("127.0.0.9:0");
    let asked = |number| phone.ask(&register(&phone, number, 3900), server.sip).0;
    let is_accepted = |number: &usize| {
        let answer = asked(*number);
        let refused = answer.starts_with("SIP/2.0 513 Contacts Exceed A Datagram\r\n");
        assert!(refused || answer.starts_with("SIP/2.0 200 "), "{answer}");
        !refused
    };
    let accepted = (1..100).take_while(is_accepted).count();
    assert!((10..17).contains(&accepted), "{accepted}");
    let known = query(&phone, &server, 0);
    assert!(known.starts_with("SIP/2.0 200 "), "{known}");
    assert_eq!(known.matches("Contact: ").count(), accepted);
    // The hops in Via make the answer too long: the server reports this, too.
    let refused = query(&phone, &server, 2);
    assert!(refused.starts_with("SIP/2.0 513 "), "{}", refused.len());
    // After one contact is removed, there is room for another.
    let taken_back = register(&phone, 1, 3900).replace("x>\r\n", "x>;expires=0\r\n");
    let taken_back = taken_back.replace("Call-ID: 1-", "Call-ID: back-");
    let taken_back = taken_back.replace("branch=z9hG4bK", "branch=z9hG4bKback");
    let (answer, _) = phone.ask(&taken_back, server.sip);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert!(is_accepted(&99));
}
