//! What a subscription watches, and where its NOTIFYs are sent.

use crate::{
    phone::{OPEN, Phone},
    support::Place,
};
use std::net::SocketAddr;

#[test]
fn a_subscription_watches_its_request_uri_and_not_its_to() {
    let place = Place::new();
    let server = place.server(OPEN);
    let phone = Phone::at("127.0.0.9:0");
    let (answer, _) = phone.ask(&phone.register("alice"), server.sip);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let request = phone.subscribe("alice");
    let to = "To: <sip:somebody@else.where>";
    let request = request.replace("To: <sip:alice@example.com>", to);
    let (answer, _) = phone.ask(&request, server.sip);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let (notify, _) = phone.hear("NOTIFY ");
    assert!(notify.contains("<basic>open</basic>"), "{notify}");
    assert!(notify.contains("sip:alice@example.com"), "{notify}");
    assert!(notify.contains("From: <sip:somebody@else.where>;tag="));
}

#[test]
fn the_mailbox_of_another_is_private_whatever_to_says() {
    let place = Place::new();
    let accounts = "[sip]\ndomains = \"example.com\"\n\n\
        [[account_range]]\nprefix = \"user\"\ncount = 2\npassword = \"secret\"\n";
    let server = place.server(accounts);
    let phone = Phone::at("127.0.0.9:0");
    let contact = format!("Contact: <sip:bob@{}>\r\n", phone.address());
    let headers = format!("{contact}Event: message-summary\r\n");
    for (own, status) in [("user0", "403"), ("user1", "200")] {
        // To names the sender's own mailbox, and the Request-URI names that of
        // user1.
        let uri = "sip:user1@example.com";
        let request = phone.request("SUBSCRIBE", uri, own, &headers);
        let (challenge, _) = phone.ask(&request, server.sip);
        let proven = phone.proven(&request, &challenge, own);
        let (answer, _) = phone.ask(&proven, server.sip);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{answer}"
        );
    }
}

#[test]
fn notifys_are_sent_to_the_contact_and_not_to_the_source_port() {
    let place = Place::new();
    let server = place.server(OPEN);
    let (sends, hears) = (Phone::at("127.0.0.9:0"), Phone::at("127.0.0.9:0"));
    let request = hears.subscribe("alice");
    sends.send(&request, server.sip);
    // Via names that port as well.
    hears.hear("SIP/2.0 200 ");
    hears.hear("NOTIFY ");
}

#[test]
fn notifys_follow_the_recorded_route_of_a_proxy() {
    let place = Place::new();
    let server = place.server(OPEN);
    let (sends, hears) = (Phone::at("127.0.0.9:0"), Phone::at("127.0.0.9:0"));
    let route = format!("Record-Route: <sip:{};lr>\r\nContact", hears.address());
    let request = sends.subscribe("alice").replace("Contact", &route);
    let request = request.replace(&format!("bob@{}", sends.address()), "bob@192.0.2.7");
    sends.ask(&request, server.sip);
    let (notify, _) = hears.hear("NOTIFY sip:bob@192.0.2.7 ");
    let route = format!("Route: <sip:{};lr>\r\n", hears.address());
    assert!(notify.contains(&route), "{notify}");
}

#[test]
fn a_watcher_behind_a_nat_or_with_a_kept_flow_is_notified_at_its_source() {
    let place = Place::new();
    let server = place.server(OPEN);
    let elsewhere = SocketAddr::from(([127, 0, 0, 9], 9));
    // One asks for the source port in Via; one has another address in Via; one
    // keeps its flow; one has a host name.
    for (branch, contact, via) in [
        ("1", format!("sip:bob@{elsewhere}"), ";rport"),
        ("2", "sip:bob@192.168.0.7:5060".to_owned(), ""),
        ("3", format!("sip:bob@{elsewhere};ob"), ""),
        ("4", "sip:bob@phone.example.com".to_owned(), ""),
    ] {
        let phone = Phone::at("127.0.0.9:0");
        let request = phone.subscribe("alice");
        let request = request.replace(&format!("sip:bob@{}", phone.address()), &contact);
        let via = format!(";branch=z9hG4bK{branch}{via}\r\nFrom");
        let request = request.replace(";branch=z9hG4bKaliceSUBSCRIBE\r\nFrom", &via);
        phone.ask(&request, server.sip);
        phone.hear("NOTIFY ");
    }
}

#[test]
fn a_third_party_that_a_subscription_names_receives_nothing() {
    let place = Place::new();
    let server = place.server(OPEN);
    let victim = Phone::at("127.0.0.10:0");
    let named = victim.address();
    for (branch, contact, route) in [
        ("1", format!("sip:bob@{named}"), String::new()),
        ("2", "sip:bob@127.0.0.9".into(), format!("<sip:{named};lr>")),
    ] {
        let phone = Phone::at("127.0.0.9:0");
        let request = phone.subscribe("alice");
        let request = request.replace(&format!("sip:bob@{}", phone.address()), &contact);
        let request = match &*route {
            "" => request,
            route => request.replace("Contact", &format!("Record-Route: {route}\r\nContact")),
        };
        let request = request.replace("branch=z9hG4bK", &format!("branch=z9hG4bK{branch}"));
        phone.ask(&request, server.sip);
        phone.hear("NOTIFY ");
    }
    victim.socket.set_nonblocking(true).expect("a socket");
    let heard = victim.socket.recv(&mut [0; 1]);
    let nothing = heard.expect_err("nothing").kind();
    assert_eq!(nothing, std::io::ErrorKind::WouldBlock);
}
