//! Headers that an answer must repeat and cannot are refused, with the name of
//! the header.

use crate::{
    phone::{OPEN, Phone, header},
    support::Place,
};

#[test]
fn a_header_that_cannot_be_repeated_is_refused_by_its_name() {
    let place = Place::new();
    let server = place.server(OPEN);
    let phone = Phone::at("127.0.0.9:0");
    let subscribe = phone.subscribe("alice");
    let register = phone.register("alice");
    let with =
        |request: &str, line: &str| request.replace("Contact", &format!("{line}\r\nContact"));
    let contact = format!("<sip:bob@{}>", phone.address());
    let cases = [
        (
            "Event",
            subscribe.replace("presence", "presence;id=\"a b\""),
        ),
        (
            "Record-Route",
            with(&subscribe, "Record-Route: <sip:p\r\n 1;lr>"),
        ),
        ("Record-Route", with(&subscribe, "Record-Route: junk")),
        ("Record-Route", with(&subscribe, "Record-Route: sip:p;lr")),
        ("Record-Route", with(&subscribe, "Record-Route: <tel:1>")),
        (
            "Record-Route",
            with(&subscribe, "Record-Route: <sip:p?a=b>"),
        ),
        (
            "Contact",
            subscribe.replace(&contact, "<mailto:bob@example.com>"),
        ),
        (
            "Contact",
            subscribe.replace(&contact, "<sip:bob@127.0.0.9?Subject=x>"),
        ),
        ("From", subscribe.replace(";tag=b", ";tag=\"b c\"")),
        ("Path", with(&register, "Path: junk <<<")),
        ("Path", with(&register, "Path: sip:p;lr")),
        ("Require", with(&register, "Require: \"a\r\n b\"")),
    ];
    for (number, (name, request)) in cases.iter().enumerate() {
        let request = request.replace("branch=z9hG4bK", &format!("branch=z9hG4bK{number}"));
        let (answer, _) = phone.ask(&request, server.sip);
        let status = answer.lines().next().unwrap_or_default();
        assert!(status.starts_with("SIP/2.0 400 "), "{answer}");
        assert!(status.contains(name), "{name}: {status}");
        assert!(
            !answer.contains("junk") && !answer.contains("\r\n "),
            "{answer}"
        );
    }
    let (answer, _) = phone.ask(&register, server.sip);
    assert!(
        answer.starts_with("SIP/2.0 200 ") && !answer.contains("Path"),
        "{answer}"
    );
}

#[test]
fn a_valid_folded_header_is_repeated_in_one_line() {
    let place = Place::new();
    let server = place.server(OPEN);
    let phone = Phone::at("127.0.0.9:0");
    let route = "Record-Route: \"a\r\n b\" <sip:127.0.0.9:9;lr>;x=y,\r\n <sip:p2;lr>\r\nContact";
    let request = phone.subscribe("alice").replace("Contact", route);
    let request = request.replace("\r\nFrom", ";rport\r\nFrom");
    let (answer, _) = phone.ask(&request, server.sip);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let (notify, _) = phone.hear("NOTIFY ");
    let routes: Vec<&str> = notify
        .lines()
        .filter_map(|line| line.strip_prefix("Route: "))
        .collect();
    assert_eq!(routes, ["<sip:127.0.0.9:9;lr>", "<sip:p2;lr>"]);
    assert_eq!(header(&notify, "Event"), "presence");
}

#[test]
fn a_gruu_without_a_binding_is_not_found() {
    let place = Place::new();
    let server = place.server(OPEN);
    let phone = Phone::at("127.0.0.9:0");
    let instance = ";+sip.instance=\"<urn:uuid:1>\"\r\n";
    let register = phone.register("alice");
    let register = register.replace(">\r\nContent", &format!(">{instance}Content"));
    let (answer, _) = phone.ask(&register, server.sip);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    for (number, (gr, status)) in [
        (";gr=urn:uuid:1", "200"),
        (";gr=urn:uuid:2", "404"),
        (";gr", "404"),
    ]
    .into_iter()
    .enumerate()
    {
        for method in ["SUBSCRIBE", "OPTIONS"] {
            let request = phone.subscribe("alice").replace("SUBSCRIBE", method);
            let request = request.replacen("@example.com", &format!("@example.com{gr}"), 1);
            let branch = format!("branch=z9hG4bK{number}");
            let request = request.replace("branch=z9hG4bK", &branch);
            let call = format!("Call-ID: {number}");
            let request = request.replace("Call-ID: ", &call);
            let (answer, _) = phone.ask(&request, server.sip);
            let status = format!("SIP/2.0 {status} ");
            assert!(answer.starts_with(&status), "{request}{answer}");
        }
    }
}
