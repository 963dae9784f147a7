//! What the log says about registrations.

use crate::{
    phone::{OPEN, Phone},
    support::Place,
};

#[test]
fn a_registration_is_logged_when_it_begins_and_ends_and_not_at_each_refresh() {
    let place = Place::new();
    let server = place.server(OPEN);
    let phone = Phone::at("127.0.0.9:0");
    let source = format!(
        "source=127.0.0.9 port={} protocol=\"sip\" transport=UDP",
        phone.address().port()
    );
    for (cseq, expires) in [(1, 600), (2, 600), (3, 600), (4, 0)] {
        let request = phone.register("alice");
        let request = request.replace("CSeq: 1 ", &format!("CSeq: {cseq} "));
        let request = request.replace("branch=z9hG4bK", &format!("branch=z9hG4bK{cseq}"));
        let request = request.replace(
            "Content-Length",
            &format!("Expires: {expires}\r\nContent-Length"),
        );
        let (answer, _) = phone.ask(&request, server.sip);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    let aor = "aor=\"sip:alice@example.com\"";
    let added = format!("registration added {source} contacts=1 {aor}");
    server.wait_for_log(&added);
    server.wait_for_log(&format!("registration removed {source} contacts=0 {aor}"));
    assert_eq!(server.log().matches("registration added").count(), 1);

    let elsewhere = phone.register("alice").replace("example.com", "else.where");
    let (answer, _) = phone.ask(&elsewhere, server.sip);
    assert!(!answer.starts_with("SIP/2.0 200 "), "{answer}");
    server.wait_for_log(&format!("registration refused {source} reason="));
    let failures = server.get("/api/failures?user=alice");
    assert!(failures.contains("127.0.0.9:"), "{failures}");
    assert!(!server.log().contains("login failed"));
}
