//! The target set and what is sent to it (RFC 3261 §16.5, §16.6).

use crate::support::*;
use busyhour_proxy::{EventKind, NextHop, Policy, Target, TargetSet, Way};
use busyhour_sip::{Flow, Transport};
use std::time::Duration;

/// RFC 3261 §16.6: nothing changes but what has to.
#[test]
fn a_request_is_forwarded_with_a_via_and_a_record_route_more() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    assert_eq!(starts(&forwarded), ["INVITE > 192.0.2.101:5060"]);
    let via = lines(&forwarded[0].text, "Via");
    let branch = via[0].rsplit('=').next().expect("a branch");
    assert!(branch.starts_with("z9hG4bK"), "{branch}");
    assert_eq!(
        forwarded[0].text,
        format!(
            "INVITE sip:bob@192.0.2.101 SIP/2.0\r\n\
             Via: SIP/2.0/UDP 192.0.2.1;rport;branch={branch}\r\n\
             Record-Route: <sip:rr@192.0.2.1;lr>\r\n\
             Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKaINVITE;received=192.0.2.7;rport=40000\r\n\
             Max-Forwards: 69\r\n\
             From: <sip:alice@example.org>;tag=a\r\n\
             To: <sip:bob@example.org>\r\n\
             Call-ID: call-1\r\n\
             CSeq: 1 INVITE\r\n\
             Contact: <sip:alice@192.0.2.7:40000>\r\n\
             Content-Length: 4\r\n\
             Max-Breadth: 60\r\n\r\nbody"
        )
    );
    assert_eq!(
        bench.take_events(),
        [EventKind::Forwarded {
            branch: 0,
            label: 1,
            flow: bob(1),
        }]
    );
}

/// RFC 3261 §16.2: an INVITE gets its 100 at once, so that it is not sent again.
#[test]
fn an_invite_is_answered_by_100_before_it_is_located() {
    let mut bench = Bench::new();
    bench.begin(alice(), &invite());
    let trying = bench.take();
    assert_eq!(starts(&trying), ["100 > 192.0.2.7:40000"]);
    assert!(!trying[0].text.contains(";tag=bh"), "a 100 needs no tag");
}

/// RFC 3261 §8.2.6.1.
#[test]
fn a_100_repeats_the_timestamp() {
    let mut bench = Bench::new();
    bench.begin(alice(), &request("INVITE", "Timestamp: 54\r\n"));
    assert_eq!(lines(&bench.take()[0].text, "Timestamp"), ["54"]);
}

/// RFC 3261 §16.5: nobody is there.
#[test]
fn an_empty_target_set_is_answered_by_480() {
    let mut bench = Bench::new();
    let sent = bench.call(&invite(), TargetSet::default());
    assert_eq!(starts(&sent), ["480 > 192.0.2.7:40000"]);
    assert!(lines(&sent[0].text, "To")[0].contains(";tag="));
}

/// RFC 3261 §16.6: parallel search, then sequential.
#[test]
fn groups_are_tried_one_after_the_other_and_their_targets_at_once() {
    let mut bench = Bench::new();
    let first = bench.call(&invite(), targets(&[&[1, 2], &[3]]));
    assert_eq!(
        starts(&first),
        ["INVITE > 192.0.2.101:5060", "INVITE > 192.0.2.102:5060"]
    );
    let acks = bench.reply(&first[0], 486);
    assert_eq!(starts(&acks), ["ACK > 192.0.2.101:5060"]);
    let next = bench.reply(&first[1], 480);
    assert_eq!(
        starts(&next),
        ["ACK > 192.0.2.102:5060", "INVITE > 192.0.2.103:5060"]
    );
    let last = bench.reply(&next[1], 404);
    assert_eq!(starts(&last)[0], "ACK > 192.0.2.103:5060");
    assert!(
        last[1].text.starts_with("SIP/2.0 486 "),
        "the first of the best"
    );
}

/// RFC 3261 §16.6 step 2.
#[test]
fn what_has_no_place_in_a_request_uri_is_left_out() {
    let uri = "sip:bob@192.0.2.101;ob?Subject=x";
    let target = Target::new(Some(uri.into()), NextHop::registered(bob(1)));
    let forwarded = Bench::new().call(&invite(), target);
    assert!(
        forwarded[0]
            .text
            .starts_with("INVITE sip:bob@192.0.2.101;ob SIP/2.0\r\n")
    );
}

/// RFC 3261 §16.6 step 4, RFC 5658: both sides find their transport.
#[test]
fn a_call_between_transports_gets_two_record_routes() {
    let mut over_tcp = target(1);
    over_tcp.hops = NextHop::registered(tcp("192.0.2.101:40001")).into();
    let forwarded = Bench::new().call(&invite(), over_tcp);
    assert_eq!(
        lines(&forwarded[0].text, "Record-Route"),
        [
            "<sip:rr@192.0.2.1;lr;transport=tcp>",
            "<sip:rr@192.0.2.1;lr>"
        ]
    );
    assert!(lines(&forwarded[0].text, "Via")[0].starts_with("SIP/2.0/TCP 192.0.2.1;branch="));
}

/// RFC 3261 §16.6 step 4: only a request that makes a dialog.
#[test]
fn other_requests_get_no_record_route() {
    for method in ["MESSAGE", "BYE", "INFO", "OPTIONS", "UNKNOWN"] {
        let forwarded = Bench::new().call(&request(method, ""), target(1));
        assert!(
            lines(&forwarded[0].text, "Record-Route").is_empty(),
            "{method}"
        );
    }
    for method in ["SUBSCRIBE", "REFER", "NOTIFY"] {
        let forwarded = Bench::new().call(&request(method, ""), target(1));
        assert_eq!(
            lines(&forwarded[0].text, "Record-Route").len(),
            1,
            "{method}"
        );
    }
}

/// RFC 3261 §16.6 step 4: above the Record-Routes of other proxies.
#[test]
fn our_record_route_stands_above_others() {
    let text = request("INVITE", "Record-Route: <sip:p0.example.net;lr>\r\n");
    let forwarded = Bench::new().call(&text, target(1));
    assert_eq!(
        lines(&forwarded[0].text, "Record-Route"),
        ["<sip:rr@192.0.2.1;lr>", "<sip:p0.example.net;lr>"]
    );
}

/// RFC 3327 §5.1: the Path of a registration becomes Route.
#[test]
fn the_path_of_a_target_becomes_its_route() {
    let mut behind_edge = target(1);
    behind_edge.hops = through(bob(1), "<sip:edge.example.net;lr>").into();
    let forwarded = Bench::new().call(&invite(), behind_edge);
    assert_eq!(
        lines(&forwarded[0].text, "Route"),
        ["<sip:edge.example.net;lr>"]
    );
}

/// RFC 5626 §4.2: each registration of a device over several flows has its own Contact and
/// Path.
#[test]
fn each_way_to_a_target_has_its_own_uri_and_path() {
    let mut bench = Bench::new();
    let mut twice = target(1);
    twice.hops = through(bob(1), "<sip:edge1.example.net;lr>").into();
    twice.hops.push(Way {
        uri: Some("sip:bob@192.0.2.77;ob".into()),
        ..through(bob(2), "<sip:edge2.example.net;lr>")
    });
    let first = bench.call(&invite(), twice);
    assert!(first[0].text.starts_with("INVITE sip:bob@192.0.2.101 "));
    let second = bench.fail(&first[0]);
    assert!(second[0].text.starts_with("INVITE sip:bob@192.0.2.77;ob "));
    let routes = [&first[0], &second[0]].map(|sent| lines(&sent.text, "Route").join(""));
    assert_eq!(
        routes,
        ["<sip:edge1.example.net;lr>", "<sip:edge2.example.net;lr>"]
    );
}

/// RFC 3261 §16.6 step 6: a next hop without `lr` gets the request as RFC 2543 wants.
#[test]
fn a_strict_router_gets_itself_as_request_uri() {
    let text = request(
        "BYE",
        "Route: <sip:rr@192.0.2.1;lr>, <sip:old.example.net>, <sip:p3;lr>\r\n",
    );
    let mut unchanged = target(1);
    unchanged.uri = None;
    let forwarded = Bench::new().call(&text, unchanged);
    assert!(
        forwarded[0]
            .text
            .starts_with("BYE sip:old.example.net SIP/2.0\r\n")
    );
    assert_eq!(
        lines(&forwarded[0].text, "Route"),
        ["<sip:p3;lr>", "<sip:bob@example.org>"]
    );
}

/// The same for the Path of a registration.
#[test]
fn a_strict_router_in_a_path_gets_itself_as_request_uri() {
    let mut behind_edge = target(1);
    behind_edge.hops = through(bob(1), "<sip:old.example.net>, <sip:p2;lr>").into();
    let forwarded = Bench::new().call(&invite(), behind_edge);
    assert!(
        forwarded[0]
            .text
            .starts_with("INVITE sip:old.example.net SIP/2.0\r\n")
    );
    assert_eq!(
        lines(&forwarded[0].text, "Route"),
        ["<sip:p2;lr>", "<sip:bob@192.0.2.101>"]
    );
}

/// RFC 3261 §16.6 step 8: each branch is a transaction of its own.
#[test]
fn each_branch_has_a_branch_parameter_of_its_own() {
    let forwarded = Bench::new().call(&invite(), targets(&[&[1, 2]]));
    let [one, two] = [0, 1].map(|place: usize| lines(&forwarded[place].text, "Via")[0]);
    assert_ne!(one, two);
}

/// RFC 3261 §16.6 step 9, §18.3: a stream needs Content-Length.
#[test]
fn a_request_without_content_length_gets_one() {
    let text = invite().replace("Content-Length: 4\r\n", "");
    let forwarded = Bench::new().call(&text, target(1));
    assert_eq!(lines(&forwarded[0].text, "Content-Length"), ["4"]);
}

/// RFC 3261 §22.3: our own credentials are of no use to others.
#[test]
fn credentials_of_our_realm_are_not_forwarded() {
    let credentials = |realm| {
        format!(
            "Proxy-Authorization: Digest username=\"alice\", realm=\"{realm}\", nonce=\"n\", \
             uri=\"sip:bob@example.org\", response=\"0123456789abcdef0123456789abcdef\"\r\n"
        )
    };
    let text = request(
        "INVITE",
        &(credentials("example.org") + &credentials("example.net")),
    );
    let mut bench = Bench::with(Policy {
        realm: Some("example.org".into()),
        ..Policy::default()
    });
    let forwarded = bench.call(&text, target(1));
    let left = lines(&forwarded[0].text, "Proxy-Authorization");
    assert_eq!(left.len(), 1);
    assert!(left[0].contains("realm=\"example.net\""));
}

/// RFC 3261 §22.1: the ACK of a 2xx has the credentials of its INVITE.
#[test]
fn nor_are_they_with_the_ack() {
    let credentials = "Proxy-Authorization: Digest username=\"alice\", realm=\"example.org\", \
                       nonce=\"n\", uri=\"sip:bob@example.org\", response=\"0123\"\r\n";
    let mut bench = Bench::with(Policy {
        realm: Some("example.org".into()),
        ..Policy::default()
    });
    bench.ack(
        alice(),
        &request("ACK", credentials),
        NextHop::registered(bob(1)),
    );
    let acks = bench.take();
    assert_eq!(starts(&acks), ["ACK > 192.0.2.101:5060"]);
    assert!(lines(&acks[0].text, "Proxy-Authorization").is_empty());
}

/// A GRUU (RFC 5627) whose telephone is behind a proxy with a Path (RFC 3327).
#[test]
fn an_ack_goes_as_its_way_says() {
    let mut bench = Bench::new();
    let way = Way {
        hop: NextHop::registered(bob(1)),
        uri: Some("sip:bob@192.0.2.101?Subject=x".into()),
        route: Some("<sip:edge.example.net;lr>".into()),
    };
    bench.ack(alice(), &request("ACK", ""), way);
    let ack = &bench.take()[0];
    assert!(
        ack.text.starts_with("ACK sip:bob@192.0.2.101 SIP/2.0\r\n"),
        "{}",
        ack.text
    );
    assert_eq!(lines(&ack.text, "Route"), ["<sip:edge.example.net;lr>"]);
}

/// RFC 3261 §18.2.1, RFC 3581 §4: as in any request, the Via says where it came from.
#[test]
fn the_via_of_an_ack_gets_its_source() {
    let mut bench = Bench::new();
    let elsewhere = flow("192.0.2.99:41000");
    let ack = request("ACK", "");
    bench.ack(elsewhere, &ack, NextHop::registered(bob(1)));
    let ack = &bench.take()[0];
    let callers = lines(&ack.text, "Via")[1];
    assert!(callers.contains("received=192.0.2.99"), "{callers}");
}

/// RFC 3261 §26.2.2: a request to a SIPS URI goes over TLS or not at all.
#[test]
fn a_sips_request_goes_over_tls_only() {
    let text = invite().replace("INVITE sip:", "INVITE sips:");
    let over_tls = Flow {
        transport: Transport::Tls,
        ..tcp("192.0.2.101:40001")
    };
    let uri = || Some("sips:bob@192.0.2.101".into());
    let mut both = Target::new(uri(), NextHop::registered(bob(1)));
    both.hops.push(NextHop::registered(over_tls));
    let sent = Bench::new().call(&text, both);
    assert_eq!(sent[0].to, over_tls);
    let sent = Bench::new().call(&text, Target::new(uri(), NextHop::registered(bob(1))));
    assert_eq!(starts(&sent), ["480 > 192.0.2.7:40000"]);
    let unchanged = Target::new(None, NextHop::registered(bob(1)));
    let sent = Bench::new().call(&text, unchanged);
    assert_eq!(starts(&sent), ["480 > 192.0.2.7:40000"]);
}

/// A way that was left out is not counted again when the next one is tried.
#[test]
fn after_a_way_that_a_sips_request_must_not_take_each_other_one_is_tried_once() {
    let text = invite().replace("INVITE sip:", "INVITE sips:");
    let over_tls = |remote| Flow {
        transport: Transport::Tls,
        ..tcp(remote)
    };
    let mut all = Target::new(
        Some("sips:bob@192.0.2.101".into()),
        NextHop::resolved(bob(1)),
    );
    for remote in ["192.0.2.102:5061", "192.0.2.103:5061"] {
        all.hops.push(NextHop::resolved(over_tls(remote)));
    }
    let mut bench = Bench::new();
    let first = bench.call(&text, all);
    assert_eq!(starts(&first), ["INVITE > 192.0.2.102:5061"]);
    let second = bench.fail(&first[0]);
    assert_eq!(starts(&second), ["INVITE > 192.0.2.103:5061"]);
}

/// RFC 3263 §4.3: the next address of a target, with a new transaction.
#[test]
fn after_a_transport_error_the_next_way_is_tried() {
    let mut bench = Bench::new();
    let mut gateway = target(1);
    gateway.hops = NextHop::resolved(bob(1)).into();
    gateway.hops.push(NextHop::resolved(bob(2)));
    let first = bench.call(&invite(), gateway);
    assert_eq!(starts(&first), ["INVITE > 192.0.2.101:5060"]);
    let second = bench.fail(&first[0]);
    assert_eq!(starts(&second), ["INVITE > 192.0.2.102:5060"]);
    let via = |sent: &Sent| lines(&sent.text, "Via")[0].to_owned();
    assert_ne!(via(&first[0]), via(&second[0]));
    let ringing = bench.reply(&second[0], 180);
    assert_eq!(starts(&ringing), ["180 > 192.0.2.7:40000"]);
}

/// RFC 3263 §4.3: also after a 503, and after silence.
#[test]
fn after_a_503_or_silence_the_next_way_is_tried() {
    let mut bench = Bench::new();
    let mut gateway = target(1);
    gateway.hops = NextHop::resolved(bob(1)).into();
    gateway.hops.push(NextHop::resolved(bob(2)));
    gateway.hops.push(NextHop::resolved(bob(3)));
    let first = bench.call(&invite(), gateway);
    let second = bench.reply(&first[0], 503);
    assert_eq!(
        starts(&second),
        ["ACK > 192.0.2.101:5060", "INVITE > 192.0.2.102:5060"]
    );
    let third = bench.pass_ms(32_000);
    assert_eq!(
        starts(&third).last().expect("a third"),
        "INVITE > 192.0.2.103:5060"
    );
}

/// A way that says nothing at all is given up sooner while there is another one; the last
/// way, and one that has said something, have their time.
#[test]
fn a_silent_way_may_be_given_up_sooner() {
    let mut bench = Bench::new();
    let mut gateway = target(1);
    gateway.hops = NextHop::resolved(bob(1)).into();
    gateway.hops.push(NextHop::resolved(bob(2)));
    gateway.silence_max = Some(Duration::from_secs(4));
    bench.call(&invite(), gateway.clone());
    assert_eq!(
        starts(&bench.pass_ms(3_990)),
        ["INVITE > 192.0.2.101:5060"; 3]
    );
    assert_eq!(starts(&bench.pass_ms(20)), ["INVITE > 192.0.2.102:5060"]);
    bench.pass_ms(31_900);
    let last = bench.pass_ms(200);
    assert_eq!(starts(&last), ["408 > 192.0.2.7:40000"]);

    let mut bench = Bench::new();
    let sent = bench.call(&invite(), gateway);
    bench.reply(&sent[0], 100);
    assert_eq!(starts(&bench.pass_ms(60_000)), Vec::<String>::new());
}

/// RFC 3325 §5: what somebody says of himself is passed on if he is trusted.
#[test]
fn only_who_is_trusted_asserts_an_identity() {
    let text = request("INVITE", "P-Asserted-Identity: <sip:ceo@example.org>\r\n");
    let names = |sent: &Sent| lines(&sent.text, "P-Asserted-Identity").len();
    for (from, kept) in [(alice(), 0), (trusted(), 1)] {
        let mut bench = Bench::new();
        let id = bench.begin(from, &text);
        bench.take();
        bench.forward(id, target(1));
        assert_eq!(bench.take().iter().map(names).collect::<Vec<_>>(), [kept]);
    }
    let assertion = "P-Asserted-Identity: <sip:bob@example.org>";
    for (label, kept) in [(1, 0), (TRUSTED_LABEL, 1)] {
        for status in [180, 200] {
            let mut bench = Bench::new();
            let called = Target { label, ..target(1) };
            let sent = bench.call(&invite(), called);
            let response = response_with(&sent[0].text, status, assertion);
            assert!(bench.respond(bob(1), &response));
            assert_eq!(bench.take().iter().map(names).collect::<Vec<_>>(), [kept]);
        }
    }
}

/// RFC 5626 §5.3: nobody but the device can set up the flow that it registered on.
#[test]
fn a_connection_is_made_to_an_address_and_not_to_a_device() {
    for (hop, may_connect) in [
        (NextHop::registered(tcp("192.0.2.101:40001")), false),
        (NextHop::resolved(tcp("192.0.2.101:5060")), true),
    ] {
        let mut bench = Bench::new();
        let sent = bench.call(&invite(), Target::new(None, hop));
        assert_eq!(sent[0].may_connect, may_connect);
        let ringing = bench.reply(&sent[0], 180);
        assert!(
            !ringing[0].may_connect,
            "a response goes back the way of its request"
        );
    }
}

/// RFC 3261 §16.7 step 5: after a 603, and for a telephone that was given up, no further
/// way is tried.
#[test]
fn a_search_that_is_over_tries_no_other_way() {
    let mut twice = target(2);
    twice.hops.push(NextHop::registered(bob(3)));
    let mut bench = Bench::new();
    let set = TargetSet {
        targets: vec![target(1), twice.clone()],
        ..TargetSet::default()
    };
    let sent = bench.call(&invite(), set);
    bench.reply(&sent[0], 603);
    let last = bench.reply(&sent[1], 503);
    assert_eq!(
        starts(&last),
        ["ACK > 192.0.2.102:5060", "603 > 192.0.2.7:40000"]
    );
    let mut bench = Bench::new();
    let set = TargetSet {
        targets: vec![
            twice,
            Target {
                group: 1,
                ..target(4)
            },
        ],
        ring_time: Some(std::time::Duration::from_secs(20)),
        ..TargetSet::default()
    };
    let sent = bench.call(&invite(), set);
    bench.pass_ms(20_000);
    let last = bench.reply(&sent[0], 503);
    assert_eq!(starts(&last), ["ACK > 192.0.2.102:5060"]);
}

/// A target that rang is not called once more on another way: it would ring twice.
#[test]
fn a_target_that_rang_is_not_tried_on_another_way() {
    let mut bench = Bench::new();
    let mut twice = target(1);
    twice.hops.push(NextHop::registered(bob(2)));
    let forwarded = bench.call(&invite(), twice);
    bench.reply(&forwarded[0], 180);
    assert_eq!(
        starts(&bench.fail(&forwarded[0])),
        ["480 > 192.0.2.7:40000"]
    );
}

/// A request in a dialog goes where its Route says, with its Request-URI as it is.
#[test]
fn every_method_passes_within_a_dialog() {
    for method in [
        "INVITE",
        "BYE",
        "UPDATE",
        "PRACK",
        "INFO",
        "REFER",
        "MESSAGE",
        "NOTIFY",
        "SUBSCRIBE",
        "OPTIONS",
        "FUTURE",
    ] {
        let text = request(method, "Route: <sip:rr@192.0.2.1;lr>\r\n")
            .replace(
                "To: <sip:bob@example.org>",
                "To: <sip:bob@example.org>;tag=b",
            )
            .replace("sip:bob@example.org SIP", "sip:bob@192.0.2.101 SIP");
        let mut bench = Bench::new();
        let mut unchanged = target(1);
        unchanged.uri = None;
        let forwarded = bench.call(&text, unchanged);
        assert!(
            forwarded[0]
                .text
                .starts_with(&format!("{method} sip:bob@192.0.2.101 SIP/2.0\r\n")),
            "{}",
            forwarded[0].text
        );
        assert!(lines(&forwarded[0].text, "Route").is_empty());
        let ok = bench.reply(&forwarded[0], 200);
        assert_eq!(starts(&ok), ["200 > 192.0.2.7:40000"], "{method}");
    }
}

/// RFC 3261 §18.2.2: without `rport`, responses go to the port of sent-by.
#[test]
fn a_response_goes_where_via_says() {
    let text = invite().replace(";rport", "");
    let mut bench = Bench::new();
    let forwarded = bench.call(&text, target(1));
    let ringing = bench.reply(&forwarded[0], 180);
    assert_eq!(starts(&ringing), ["180 > 192.0.2.7:5060"]);
}

fn through(flow: Flow, route: &str) -> Way {
    Way {
        route: Some(route.into()),
        ..NextHop::registered(flow).into()
    }
}
