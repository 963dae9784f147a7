//! Requests on connections: which are made, and which end.

use crate::support::{Bench, bob, invite, lines, request, response, starts, targets, tcp};
use busyhour_proxy::{NextHop, Target};
use busyhour_sip::Flow;
use std::time::Duration;

const GATEWAY: &str = "192.0.2.50:5060";

/// The address of a gateway over TCP, without a connection.
fn listener() -> Flow {
    Flow {
        connection: 0,
        ..tcp(GATEWAY)
    }
}

/// The gateway, and bob's telephone after it.
fn gateway() -> Target {
    let mut target = Target::new(None, NextHop::resolved(listener()));
    target.hops.push(NextHop::resolved(bob(2)));
    target
}

/// RFC 3261 §18.4, RFC 3263 §4.3.
#[test]
fn what_is_silent_on_a_connection_that_ends_takes_its_next_way() {
    for method in ["INVITE", "MESSAGE"] {
        let mut bench = Bench::new();
        let sent = bench.call(&request(method, ""), gateway());
        assert_eq!(starts(&sent), [format!("{method} > {GATEWAY}")]);
        let branch = sent[0].branch.expect("a branch");
        bench.proxy.connected(branch, tcp(GATEWAY));
        let other = Flow {
            connection: 2,
            ..tcp(GATEWAY)
        };
        assert!(bench.proxy.uses(tcp(GATEWAY)) && !bench.proxy.uses(other));
        assert!(bench.end_connection(other).is_empty());
        let next = bench.end_connection(tcp(GATEWAY));
        assert_eq!(starts(&next), [format!("{method} > 192.0.2.102:5060")]);
        assert!(bench.end_connection(tcp(GATEWAY)).is_empty(), "once");
        bench.reply(&next[0], 486);
        bench.pass(Duration::from_secs(40));
        bench.assert_empty();
        assert!(!bench.proxy.uses(tcp(GATEWAY)));
    }
}

/// RFC 3261 §18.2.2: its answer comes over a new connection.
#[test]
fn what_rings_goes_on_after_the_end_of_its_connection() {
    let mut bench = Bench::new();
    let sent = bench.call(&invite(), gateway());
    let branch = sent[0].branch.expect("a branch");
    bench.proxy.connected(branch, tcp(GATEWAY));
    bench.reply(&sent[0], 180);
    assert!(bench.end_connection(tcp(GATEWAY)).is_empty());
    let new = Flow {
        connection: 7,
        ..tcp("192.0.2.50:40000")
    };
    assert!(bench.respond(new, &response(&sent[0].text, 200, "b")));
    assert_eq!(starts(&bench.take()), ["200 > 192.0.2.7:40000"]);
}

/// A CANCEL goes on the connection of its INVITE.
#[test]
fn what_follows_goes_on_the_connection_that_was_made() {
    let mut bench = Bench::new();
    let sent = bench.call(&invite(), gateway());
    bench
        .proxy
        .connected(sent[0].branch.expect("a branch"), tcp(GATEWAY));
    bench.reply(&sent[0], 180);
    bench.absorb(
        crate::support::alice(),
        &crate::support::of_invite("CANCEL", ""),
    );
    let sent = bench.take();
    let cancel = sent.iter().find(|it| it.text.starts_with("CANCEL "));
    assert_eq!(cancel.expect("a CANCEL").to, tcp(GATEWAY));
}

/// A telephone of a fork sees its own branch parameter, and cannot make that of another one.
#[test]
fn nobody_answers_on_the_branch_of_another_one() {
    let mut bench = Bench::new();
    let sent = bench.call(&invite(), targets(&[&[1, 2]]));
    let branch_of = |text: &str| {
        let via = lines(text, "Via")[0].to_owned();
        let (_, branch) = via.split_once("branch=").expect("a branch");
        branch.split(';').next().unwrap_or("").to_owned()
    };
    let [own, other] = [0, 1].map(|place: usize| branch_of(&sent[place].text));
    let (head, number) = own.split_at(own.len() - 4);
    assert_eq!(number, "0000");
    let forged = format!("{head}0001");
    assert_ne!(forged, other);
    let answer = response(&sent[0].text, 200, "b").replace(&own, &forged);
    assert!(!bench.respond(bob(1), &answer));
    assert!(bench.take().is_empty());
    assert_eq!(bench.proxy.stats().stray_responses, 1);
}
