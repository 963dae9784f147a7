//! Client and server transactions (RFC 3261 §17, RFC 6026, RFC 4320).

use crate::support::*;
use busyhour_proxy::{EventKind, NextHop, Received, Target};
use busyhour_sip::Flow;

fn over_tcp() -> Target {
    Target {
        hops: NextHop::registered(tcp("192.0.2.101:40001")).into(),
        ..target(1)
    }
}

/// When `count` retransmissions were sent, in milliseconds.
fn times(bench: &mut Bench, until_ms: u64) -> Vec<u64> {
    let mut times = Vec::new();
    for now in (0..until_ms).step_by(100) {
        let sent = bench.pass_ms(100);
        times.extend(sent.iter().map(|_| now + 100));
    }
    times
}

/// RFC 3261 §17.1.1.2: timer A doubles, timer B ends it.
#[test]
fn an_invite_is_sent_again_until_something_comes_back() {
    let mut bench = Bench::new();
    bench.call(&invite(), target(1));
    assert_eq!(
        times(&mut bench, 31_900),
        [500, 1_500, 3_500, 7_500, 15_500, 31_500]
    );
    let last = bench.pass_ms(100);
    assert_eq!(starts(&last), ["408 > 192.0.2.7:40000"]);
}

/// RFC 3261 §17.1.1.2: a provisional response ends the retransmissions.
#[test]
fn an_invite_that_arrived_is_not_sent_again() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 100);
    assert!(bench.pass_ms(60_000).is_empty());
}

/// RFC 3261 §17.1.1.2: not over a reliable transport.
#[test]
fn over_tcp_nothing_is_sent_again() {
    for text in [invite(), request("OPTIONS", "")] {
        let mut bench = Bench::new();
        bench.call(&text, over_tcp());
        let sent = bench.pass_ms(31_999);
        let requests = sent.iter().filter(|it| !it.text.starts_with("SIP/2.0"));
        assert_eq!(requests.count(), 0);
    }
}

/// RFC 3261 §17.1.2.2: timer E doubles up to T2, timer F ends it.
#[test]
fn another_request_is_sent_again_at_most_every_4_s() {
    let mut bench = Bench::new();
    let text = request("OPTIONS", "").replace("UDP 192.0.2.7", "TCP 192.0.2.7");
    let id = bench.begin(tcp("192.0.2.7:40000"), &text);
    bench.forward(id, target(1));
    bench.take();
    let expected = [
        500, 1_500, 3_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
    ];
    // One of the two at 3.5 s is the 100 of RFC 4320.
    assert_eq!(times(&mut bench, 33_000), expected);
    bench.assert_empty();
}

/// RFC 3261 §17.1.2.2: in Proceeding every T2.
#[test]
fn after_a_100_another_request_is_sent_again_every_4_s() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&request("OPTIONS", ""), target(1));
    bench.reply(&forwarded[0], 100);
    let sent = bench.pass_ms(9_000);
    let again = starts(&sent)
        .into_iter()
        .filter(|it| it.starts_with("OPTIONS"));
    assert_eq!(again.count(), 2);
}

/// RFC 4320 §4.1.
#[test]
fn a_slow_request_other_than_invite_gets_a_100() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&request("OPTIONS", ""), target(1));
    let early = bench.pass_ms(3_499);
    assert!(starts(&early).iter().all(|it| it.starts_with("OPTIONS")));
    let sent = bench.pass_ms(1);
    assert!(starts(&sent).contains(&"100 > 192.0.2.7:40000".to_owned()));
    assert_eq!(
        starts(&bench.reply(&forwarded[0], 200)),
        ["200 > 192.0.2.7:40000"]
    );
}

/// RFC 3261 §17.1.1.3: the ACK of a refusal has the branch and the route of its INVITE.
#[test]
fn a_refusal_is_acknowledged_hop_by_hop() {
    let mut bench = Bench::new();
    let text = request(
        "INVITE",
        "Route: <sip:rr@192.0.2.1;lr>, <sip:p2.example.net;lr>\r\n",
    );
    let forwarded = bench.call(&text, target(1));
    let sent = bench.reply(&forwarded[0], 486);
    let ack = &sent[0].text;
    assert!(
        ack.starts_with("ACK sip:bob@192.0.2.101 SIP/2.0\r\n"),
        "{ack}"
    );
    assert_eq!(lines(ack, "Via"), &lines(&forwarded[0].text, "Via")[..1]);
    assert_eq!(lines(ack, "Route"), ["<sip:p2.example.net;lr>"]);
    assert_eq!(lines(ack, "To"), ["<sip:bob@example.org>;tag=b"]);
    assert_eq!(lines(ack, "From"), ["<sip:alice@example.org>;tag=a"]);
    assert_eq!(lines(ack, "CSeq"), ["1 ACK"]);
    assert_eq!(lines(ack, "Call-ID"), ["call-1"]);
}

/// RFC 3261 §17.1.1.2: in Completed each refusal gets the ACK again; timer D is 32 s.
#[test]
fn a_repeated_refusal_gets_its_ack_again_and_nothing_else_happens() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    let first = bench.reply(&forwarded[0], 486);
    bench.absorb(alice(), &of_invite("ACK", ""));
    bench.pass_ms(31_999);
    let again = bench.reply(&forwarded[0], 486);
    assert_eq!(starts(&again), ["ACK > 192.0.2.101:5060"]);
    assert_eq!(again[0].text, first[0].text);
    bench.pass_ms(1);
    bench.assert_empty();
}

/// RFC 3261 §17.2.1: a retransmission gets the last response again.
#[test]
fn a_repeated_invite_gets_the_last_response_again() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    let again = |bench: &mut Bench| {
        assert_eq!(bench.receive(alice(), &invite()), Received::Absorbed);
        starts(&bench.take())
    };
    assert_eq!(again(&mut bench), ["100 > 192.0.2.7:40000"]);
    bench.reply(&forwarded[0], 180);
    assert_eq!(again(&mut bench), ["180 > 192.0.2.7:40000"]);
    bench.reply(&forwarded[0], 486);
    assert_eq!(again(&mut bench), ["486 > 192.0.2.7:40000"]);
    bench.absorb(alice(), &of_invite("ACK", ""));
    assert!(again(&mut bench).is_empty());
}

/// RFC 6026 §7.1: in Accepted a repeated INVITE is absorbed, not forwarded.
#[test]
fn an_invite_that_comes_again_after_its_200_is_absorbed() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 200);
    bench.pass_ms(31_000);
    assert_eq!(bench.receive(alice(), &invite()), Received::Absorbed);
    assert!(bench.take().is_empty());
}

/// RFC 3261 §17.2.1: a refusal is sent again until its ACK comes: timers G and H.
#[test]
fn a_refusal_is_sent_again_until_its_ack_comes() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 486);
    let expected = [
        500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
    ];
    assert_eq!(times(&mut bench, 32_000), expected);
    assert!(bench.take_events().contains(&EventKind::Unacknowledged));
    bench.pass_ms(1);
    bench.assert_empty();
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 486);
    assert_eq!(
        bench.receive(alice(), &of_invite("ACK", "")),
        Received::Absorbed
    );
    // Timer I: a second ACK is absorbed.
    bench.pass_ms(4_999);
    assert_eq!(
        bench.receive(alice(), &of_invite("ACK", "")),
        Received::Absorbed
    );
    assert!(bench.pass_ms(60_000).is_empty());
    bench.assert_empty();
}

/// RFC 3261 §17.2.1: over a reliable transport it is sent once, and timer H still runs.
#[test]
fn over_tcp_a_refusal_is_sent_once() {
    let mut bench = Bench::new();
    let caller: Flow = tcp("192.0.2.7:40000");
    let text = invite().replace("UDP 192.0.2.7", "TCP 192.0.2.7");
    let id = bench.begin(caller, &text);
    bench.forward(id, over_tcp());
    let forwarded = bench.take().remove(1);
    let sent = bench.reply(&forwarded, 486);
    assert_eq!(sent[1].to, caller);
    assert!(bench.pass_ms(31_999).is_empty());
    bench.absorb(
        caller,
        &of_invite("ACK", "").replace("UDP 192.0.2.7", "TCP 192.0.2.7"),
    );
    bench.assert_empty();
}

/// RFC 3261 §17.2.2: timer J is 64 × T1, and 0 over a reliable transport.
#[test]
fn a_repeated_bye_gets_its_200_again_for_32_s() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&request("BYE", ""), target(1));
    assert_eq!(
        bench.receive(alice(), &request("BYE", "")),
        Received::Absorbed
    );
    assert!(bench.take().is_empty(), "nothing to repeat yet");
    let ok = bench.reply(&forwarded[0], 200);
    bench.pass_ms(31_999);
    assert_eq!(
        bench.receive(alice(), &request("BYE", "")),
        Received::Absorbed
    );
    assert_eq!(bench.take()[0].text, ok[0].text);
    bench.pass_ms(1);
    bench.assert_empty();
}

/// The same over TCP.
#[test]
fn over_tcp_a_request_is_forgotten_with_its_response() {
    let mut bench = Bench::new();
    let text = request("BYE", "").replace("UDP 192.0.2.7", "TCP 192.0.2.7");
    let id = bench.begin(tcp("192.0.2.7:40000"), &text);
    bench.forward(id, over_tcp());
    let forwarded = bench.take().remove(0);
    assert_eq!(bench.reply(&forwarded, 200).len(), 1);
    bench.assert_empty();
    assert!(bench.take_events().contains(&EventKind::Ended));
}

/// RFC 3261 §17.1.2.2: timer K is T4.
#[test]
fn a_repeated_200_to_a_bye_is_absorbed() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&request("BYE", ""), target(1));
    bench.reply(&forwarded[0], 200);
    bench.pass_ms(4_999);
    assert!(bench.reply(&forwarded[0], 200).is_empty());
    assert_eq!(bench.proxy.stats().responses_absorbed, 1);
}

/// RFC 3261 §13.2.2.4, §16.11: the ACK of a 2xx passes without a transaction.
#[test]
fn the_ack_of_a_200_is_forwarded_and_nothing_is_kept() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 200);
    bench.pass_ms(64_000);
    bench.assert_empty();
    let text = request("ACK", "Route: <sip:rr@192.0.2.1;lr>\r\n")
        .replace("ACK sip:bob@example.org", "ACK sip:bob@192.0.2.101")
        .replace(
            "To: <sip:bob@example.org>",
            "To: <sip:bob@example.org>;tag=b",
        );
    assert_eq!(bench.receive(alice(), &text), Received::New);
    for _ in 0..2 {
        bench.ack(alice(), &text, NextHop::registered(bob(1)));
    }
    let acks = bench.take();
    assert_eq!(starts(&acks), ["ACK > 192.0.2.101:5060"; 2]);
    assert_eq!(
        acks[0].text, acks[1].text,
        "the same ACK has the same branch"
    );
    assert!(
        acks[0]
            .text
            .starts_with("ACK sip:bob@192.0.2.101 SIP/2.0\r\n")
    );
    assert!(lines(&acks[0].text, "Route").is_empty());
    assert_eq!(lines(&acks[0].text, "Via").len(), 2);
    bench.assert_empty();
}

/// RFC 2543 clients use the branch of the INVITE for the ACK of a 2xx as well.
#[test]
fn an_ack_with_the_branch_of_an_accepted_invite_is_forwarded() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 200);
    assert_eq!(bench.receive(alice(), &of_invite("ACK", "")), Received::New);
}

/// RFC 3261 §17.2.3: without the magic cookie, other fields tell requests apart.
#[test]
fn requests_without_magic_cookie_are_told_apart() {
    let old = |text: String| text.replace("branch=z9hG4bKaINVITE", "branch=1");
    let mut bench = Bench::new();
    let forwarded = bench.call(&old(invite()), target(1));
    assert_eq!(bench.receive(alice(), &old(invite())), Received::Absorbed);
    bench.take();
    bench.reply(&forwarded[0], 486);
    assert_eq!(
        bench.receive(alice(), &old(of_invite("ACK", ""))),
        Received::Absorbed
    );
    let other = old(invite()).replace("sip:bob@example.org SIP", "sip:carol@example.org SIP");
    assert_eq!(bench.receive(alice(), &other), Received::New);
}

/// RFC 3261 §17.2.3: sent-by is part of the match, so that nobody takes another's branch.
#[test]
fn a_request_of_another_host_with_the_same_branch_is_new() {
    let mut bench = Bench::new();
    bench.call(&invite(), target(1));
    let other = invite().replace("UDP 192.0.2.7", "UDP 192.0.2.8");
    assert_eq!(bench.receive(flow("192.0.2.8:5060"), &other), Received::New);
    let other = invite().replace("Call-ID: call-1", "Call-ID: call-2");
    assert_eq!(bench.receive(alice(), &other), Received::New);
}

/// Two copies of a request that are checked at the same time begin once.
#[test]
fn a_request_begins_once() {
    let mut bench = Bench::new();
    bench.begin(alice(), &invite());
    assert_eq!(
        bench.try_begin(alice(), &invite()),
        Ok(busyhour_proxy::Begun::Known)
    );
    assert_eq!(bench.proxy.len(), 1);
}
