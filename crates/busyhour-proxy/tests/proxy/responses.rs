//! Response processing (RFC 3261 §16.7, RFC 6026).

use crate::support::*;
use busyhour_proxy::{EventKind, FailureCause};
use std::time::Duration;

/// RFC 3261 §16.7 step 3: our Via is removed, nothing else changes.
#[test]
fn a_response_goes_back_without_our_via() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    let ringing = bench.reply(&forwarded[0], 180);
    assert_eq!(
        ringing[0].text,
        "SIP/2.0 180 Reason\r\n\
         Record-Route: <sip:rr@192.0.2.1;lr>\r\n\
         Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKaINVITE;received=192.0.2.7;rport=40000\r\n\
         From: <sip:alice@example.org>;tag=a\r\n\
         To: <sip:bob@example.org>;tag=b\r\n\
         Call-ID: call-1\r\n\
         CSeq: 1 INVITE\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

/// RFC 3261 §16.7 step 1, RFC 6026 §7.3: what matches no branch is not forwarded.
#[test]
fn a_stray_response_is_not_forwarded() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1)).remove(0);
    let ok = response(&forwarded.text, 200, "b");
    let branch = lines(&ok, "Via")[0].rsplit('=').next().expect("a branch");
    // The first digit of what nobody can guess.
    let (begin, digits) = branch.split_at(NONCE_PLACE);
    let digit = if digits.starts_with('a') { 'b' } else { 'a' };
    let forged = format!("{begin}{digit}{}", &digits[1..]);
    let strays = [
        ok.replace(branch, "z9hG4bKother"),
        ok.replace(branch, &format!("{}ffff", &branch[..branch.len() - 4])),
        ok.replace(branch, &forged),
    ];
    for stray in &strays {
        assert!(!bench.respond(bob(1), stray), "{stray}");
    }
    assert!(bench.take().is_empty());
    // One has not even a branch of ours.
    assert_eq!(bench.proxy.stats().stray_responses, 2);
}

/// Behind the magic cookie, our mark, the loop hash and the slot.
const NONCE_PLACE: usize = "z9hG4bKbh".len() + 16 + 8;

/// RFC 3261 §16.7 step 5: a 100 is the next hop's alone.
#[test]
fn a_100_is_not_forwarded() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    assert!(bench.reply(&forwarded[0], 100).is_empty());
}

/// RFC 3261 §16.7 steps 5 and 10, RFC 3326: the others stop ringing, and show no missed
/// call.
#[test]
fn the_first_200_goes_back_and_the_other_branches_are_cancelled() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    bench.reply(&forwarded[0], 180);
    bench.reply(&forwarded[1], 180);
    bench.take_events();
    let sent = bench.reply(&forwarded[1], 200);
    assert_eq!(
        starts(&sent),
        ["200 > 192.0.2.7:40000", "CANCEL > 192.0.2.101:5060"]
    );
    let via = |sent: &Sent| lines(&sent.text, "Via")[0].to_owned();
    assert_eq!(via(&sent[1]), via(&forwarded[0]));
    assert_eq!(lines(&sent[1].text, "Via").len(), 1);
    assert_eq!(lines(&sent[1].text, "CSeq"), ["1 CANCEL"]);
    assert_eq!(
        lines(&sent[1].text, "Reason"),
        ["SIP;cause=200;text=\"Call completed elsewhere\""]
    );
    assert!(
        sent[1]
            .text
            .starts_with("CANCEL sip:bob@192.0.2.101 SIP/2.0\r\n")
    );
    assert_eq!(
        bench.take_events(),
        [EventKind::Answered {
            branch: 1,
            label: 2,
            status: 200,
            after: Duration::ZERO,
            is_first: true,
            session: None,
        }]
    );
    // 200 to the CANCEL, then 487 to the INVITE: its ACK is ours.
    assert!(bench.reply(&sent[1], 200).is_empty());
    let ack = bench.reply(&forwarded[0], 487);
    assert_eq!(starts(&ack), ["ACK > 192.0.2.101:5060"]);
    bench.pass_ms(64_001);
    bench.assert_empty();
}

/// RFC 3261 §9.1: a CANCEL must not overtake its INVITE.
#[test]
fn a_branch_without_provisional_response_is_cancelled_when_one_comes() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    let sent = bench.reply(&forwarded[1], 200);
    assert_eq!(starts(&sent), ["200 > 192.0.2.7:40000"]);
    let sent = bench.reply(&forwarded[0], 100);
    assert_eq!(starts(&sent), ["CANCEL > 192.0.2.101:5060"]);
}

/// RFC 3261 §16.7 step 5, RFC 6026 §7.1: every 2xx to an INVITE goes back.
#[test]
fn late_200s_of_two_branches_and_their_retransmissions_go_back() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    for sent in [&forwarded[0], &forwarded[0], &forwarded[1], &forwarded[0]] {
        let back = bench.reply(sent, 200);
        assert_eq!(starts(&back)[0], "200 > 192.0.2.7:40000");
    }
    let firsts = bench
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::Answered { is_first, .. } => Some(is_first),
            _ => None,
        });
    assert_eq!(firsts.collect::<Vec<_>>(), [true, false, false, false]);
    // The transaction lives 64 × T1, then a 200 is a stray.
    bench.pass_ms(31_999);
    assert_eq!(bench.reply(&forwarded[1], 200).len(), 1);
    bench.pass_ms(32_000);
    assert!(!bench.respond(bob(1), &response(&forwarded[0].text, 200, "b")));
    bench.assert_empty();
}

/// RFC 3261 §16.7 step 5: of a request other than INVITE only one response goes back.
#[test]
fn one_200_to_a_message_goes_back() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&request("MESSAGE", ""), targets(&[&[1, 2]]));
    assert_eq!(bench.reply(&forwarded[0], 200).len(), 1);
    assert_eq!(bench.reply(&forwarded[1], 200).len(), 0);
    assert_eq!(bench.reply(&forwarded[0], 200).len(), 0);
    let answered = |event: &EventKind| matches!(event, EventKind::Answered { .. });
    assert_eq!(
        bench.take_events().iter().filter(|it| answered(it)).count(),
        1
    );
    assert_eq!(bench.proxy.stats().successes, 1);
}

/// RFC 3261 §16.7 step 5: nothing provisional goes back after the final response.
#[test]
fn a_telephone_that_still_rings_is_not_told_after_the_200() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    bench.reply(&forwarded[0], 200);
    bench.take_events();
    let sent = bench.reply(&forwarded[1], 180);
    assert_eq!(starts(&sent), ["CANCEL > 192.0.2.102:5060"]);
    assert!(bench.take_events().is_empty());
    assert_eq!(bench.proxy.stats().provisional, 0);
}

/// RFC 3261 §16.7 step 5: a 6xx ends the search, and waits for the cancelled branches.
#[test]
fn a_603_cancels_the_others_and_goes_back_when_they_have_ended() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2], &[3]]));
    bench.reply(&forwarded[1], 180);
    let sent = bench.reply(&forwarded[0], 603);
    assert_eq!(
        starts(&sent),
        ["ACK > 192.0.2.101:5060", "CANCEL > 192.0.2.102:5060"]
    );
    let last = bench.reply(&forwarded[1], 487);
    assert_eq!(
        starts(&last),
        ["ACK > 192.0.2.102:5060", "603 > 192.0.2.7:40000"]
    );
}

/// RFC 3261 §16.7 step 5: a 2xx that crosses a 6xx wins.
#[test]
fn a_200_after_a_603_goes_back() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    bench.reply(&forwarded[0], 603);
    assert_eq!(
        starts(&bench.reply(&forwarded[1], 200)),
        ["200 > 192.0.2.7:40000"]
    );
}

fn best_of(statuses: &[u16]) -> u16 {
    let mut bench = Bench::new();
    let numbers: Vec<u8> = (1..=statuses.len() as u8).collect();
    let forwarded = bench.call(&invite(), targets(&[&numbers]));
    let mut last = Vec::new();
    for (sent, status) in forwarded.iter().zip(statuses) {
        last = bench.reply(sent, *status);
    }
    let text = &last.last().expect("a response").text;
    text[8..11].parse().expect("a status")
}

/// RFC 3261 §16.7 step 6.
#[test]
fn the_best_response_is_chosen() {
    assert_eq!(best_of(&[486, 302]), 302, "the lowest class");
    assert_eq!(best_of(&[500, 486]), 486, "the lowest class");
    assert_eq!(best_of(&[302, 600, 404]), 600, "6xx before all");
    assert_eq!(best_of(&[404, 407]), 407, "what the caller can change");
    assert_eq!(best_of(&[486, 484]), 484, "what the caller can change");
    assert_eq!(best_of(&[486, 404]), 486, "the first one");
    assert_eq!(best_of(&[408, 480]), 480, "silence says least");
    assert_eq!(best_of(&[503, 500]), 500, "a 503 last");
}

/// RFC 3261 §16.7 step 6: a 503 becomes a 500.
#[test]
fn a_503_goes_back_as_500() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    let busy = response_with(&forwarded[0].text, 503, "Retry-After: 30");
    bench.respond(bob(1), &busy);
    let sent = bench.take();
    assert!(
        sent[1]
            .text
            .starts_with("SIP/2.0 500 Server Internal Error\r\n"),
        "{}",
        sent[1].text
    );
    assert_eq!(best_of(&[503]), 500);
    assert_eq!(best_of(&[503, 503]), 500);
}

/// RFC 3261 §16.7 step 7: the caller gets all challenges at once.
#[test]
fn challenges_of_several_branches_are_put_together() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2, 3]]));
    let challenges = [
        (401, "WWW-Authenticate: Digest realm=\"one\", nonce=\"1\""),
        (407, "Proxy-Authenticate: Digest realm=\"two\", nonce=\"2\""),
    ];
    for (sent, (status, header)) in forwarded.iter().zip(challenges) {
        bench.respond(sent.to, &response_with(&sent.text, status, header));
    }
    bench.take();
    let sent = bench.reply(&forwarded[2], 404);
    let back = &sent[1].text;
    assert!(back.starts_with("SIP/2.0 401 "), "{back}");
    assert_eq!(
        lines(back, "WWW-Authenticate"),
        ["Digest realm=\"one\", nonce=\"1\""]
    );
    assert_eq!(
        lines(back, "Proxy-Authenticate"),
        ["Digest realm=\"two\", nonce=\"2\""]
    );
    assert_eq!(lines(back, "Via").len(), 1);
}

/// RFC 3261 §16.7 step 6: nothing at all came back.
#[test]
fn silence_is_a_408() {
    let mut bench = Bench::new();
    bench.call(&invite(), target(1));
    let sent = bench.pass_ms(32_000);
    assert_eq!(
        starts(&sent).last().expect("a response"),
        "408 > 192.0.2.7:40000"
    );
    let failed = EventKind::Failed {
        branch: 0,
        label: 1,
        status: 408,
        cause: FailureCause::Timeout,
    };
    assert!(bench.take_events().contains(&failed));
}

/// RFC 4320 §4.2: a 408 to another request would come too late.
#[test]
fn silence_to_a_message_stays_silence() {
    let mut bench = Bench::new();
    bench.call(&request("MESSAGE", ""), target(1));
    let sent = bench.pass_ms(32_000);
    assert!(
        starts(&sent)
            .iter()
            .all(|it| it.starts_with("MESSAGE") || it.starts_with("100"))
    );
    assert!(bench.take_events().contains(&EventKind::Unanswered));
    bench.assert_empty();
    let mut bench = Bench::new();
    let forwarded = bench.call(&request("MESSAGE", ""), target(1));
    assert!(bench.reply(&forwarded[0], 408).is_empty());
}

/// RFC 3261 §16.8: an INVITE that rings too long is cancelled.
#[test]
fn timer_c_cancels_a_call_that_rings_too_long() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 180);
    bench.pass_ms(150_000);
    // Each further provisional response prolongs it; a 100 does not.
    bench.reply(&forwarded[0], 183);
    bench.pass_ms(100_000);
    bench.reply(&forwarded[0], 100);
    assert!(bench.pass_ms(80_000).is_empty());
    let sent = bench.pass_ms(1_000);
    assert_eq!(starts(&sent), ["CANCEL > 192.0.2.101:5060"]);
    let sent = bench.reply(&forwarded[0], 487);
    assert_eq!(starts(&sent)[1], "487 > 192.0.2.7:40000");
    assert_eq!(bench.proxy.stats().rang_too_long, 1);
}

/// RFC 3261 §9.1: a cancelled branch that says nothing more is given up.
#[test]
fn a_cancelled_branch_that_stays_silent_is_given_up() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 180);
    bench.pass_ms(181_000);
    let sent = bench.pass_ms(32_000);
    assert_eq!(
        starts(&sent).last().expect("a response"),
        "408 > 192.0.2.7:40000"
    );
    bench.pass_ms(64_000);
    bench.assert_empty();
}

/// RFC 3261 §16.9: a transport error counts as 503, which is a 500 for the caller.
#[test]
fn an_unreachable_gateway_is_a_500() {
    let mut bench = Bench::new();
    let mut gateway = target(1);
    gateway.hops = busyhour_proxy::NextHop::resolved(tcp("192.0.2.101:5060")).into();
    let forwarded = bench.call(&invite(), gateway);
    assert_eq!(
        starts(&bench.fail(&forwarded[0])),
        ["500 > 192.0.2.7:40000"]
    );
    assert!(bench.fail(&forwarded[0]).is_empty(), "once is enough");
}

/// The ACK of an answered call cannot be sent: that is nobody's response.
#[test]
fn a_transport_error_after_the_200_changes_nothing() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    bench.reply(&forwarded[0], 200);
    assert!(bench.fail(&forwarded[0]).is_empty());
    assert_eq!(
        starts(&bench.reply(&forwarded[0], 200)),
        ["200 > 192.0.2.7:40000"]
    );
    assert_eq!(bench.proxy.stats().transport_errors, 0);
}

/// RFC 5626 §5.3: the flow of a registration is gone, so the device is.
#[test]
fn a_device_whose_flow_is_gone_is_unavailable() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    assert_eq!(
        starts(&bench.fail(&forwarded[0])),
        ["480 > 192.0.2.7:40000"]
    );
    let failed = EventKind::Failed {
        branch: 0,
        label: 1,
        status: 480,
        cause: FailureCause::Transport,
    };
    assert!(bench.take_events().contains(&failed));
}

/// The post-dial delay is that of the first provisional response.
#[test]
fn events_tell_when_it_rang_and_who_answered() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), targets(&[&[1, 2]]));
    bench.pass_ms(120);
    bench.reply(&forwarded[1], 180);
    bench.pass_ms(80);
    bench.reply(&forwarded[0], 183);
    bench.pass_ms(4_000);
    bench.reply(&forwarded[1], 200);
    let times = bench
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::Progress {
                branch,
                status,
                after,
                is_first,
            } => Some((branch, status, after.as_millis(), is_first)),
            EventKind::Answered {
                branch,
                status,
                after,
                is_first,
                ..
            } => Some((branch, status, after.as_millis(), is_first)),
            _ => None,
        });
    let times: Vec<_> = times.collect();
    assert_eq!(
        times,
        [
            (1, 180, 120, true),
            (0, 183, 200, false),
            (1, 200, 4_200, true)
        ]
    );
}

/// The branch says what a response answers (RFC 3261 §17.1.3). Who has learned it cannot answer
/// from his own address; another port is of the same server.
#[test]
fn a_response_comes_from_the_address_that_its_request_went_to() {
    let mut bench = Bench::new();
    let sent = bench.call(&invite(), target(1));
    let text = response(&sent[0].text, 486, "b");
    assert!(!bench.respond(flow("192.0.2.66:5060"), &text));
    assert!(bench.take().is_empty());
    assert_eq!(bench.proxy.stats().stray_responses, 1);
    assert!(bench.respond(flow("192.0.2.101:40000"), &text));
    assert_eq!(
        starts(&bench.take()),
        ["ACK > 192.0.2.101:5060", "486 > 192.0.2.7:40000"]
    );
}

/// RFC 3261 §16.7 step 5: 200 is a final response, also one of our own.
#[test]
fn a_request_that_we_answer_with_200_goes_nowhere() {
    let mut bench = Bench::new();
    let id = bench.begin(alice(), &request("MESSAGE", ""));
    assert_eq!(bench.proxy.stats().transaction_count, 1);
    let sent = bench.answer(id, &busyhour_sip::Status::OK.into());
    assert_eq!(starts(&sent), ["200 > 192.0.2.7:40000"]);
    bench.forward(id, target(1));
    assert!(bench.take().is_empty());
    bench.pass(std::time::Duration::from_secs(40));
    bench.assert_empty();
}
