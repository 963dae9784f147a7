//! Session timers that a proxy asks for (RFC 4028 §8).

use crate::support::*;
use busyhour_proxy::{EventKind, Policy};
use std::time::Duration;

const TIMER: &str = "Supported: 100rel, timer\r\n";

/// A proxy that wants sessions to be refreshed each half hour.
fn bench() -> Bench {
    Bench::with(Policy {
        session_s: 1800,
        ..Policy::default()
    })
}

/// Session-Expires and Min-SE of a request with these headers, as it is forwarded.
#[track_caller]
fn asked(method: &str, headers: &str) -> (String, String) {
    let forwarded = bench().call(&request(method, headers), target(1));
    let of = |name| lines(&forwarded[0].text, name).join("|");
    (of("Session-Expires"), of("Min-SE"))
}

#[track_caller]
fn assert_asked(headers: &str, expires: &str, min_se: &str) {
    let (expires, min_se) = (expires.to_owned(), min_se.to_owned());
    assert_eq!(asked("INVITE", headers), (expires, min_se), "{headers}");
}

/// §8.1: without a refresher, which the callee chooses.
#[test]
fn a_timer_is_asked_for_in_what_begins_and_refreshes_a_session() {
    let none = (String::new(), String::new());
    for method in ["INVITE", "UPDATE"] {
        assert_eq!(asked(method, "").0, "1800", "{method}");
    }
    for method in ["INFO", "MESSAGE", "BYE", "REFER"] {
        assert_eq!(asked(method, ""), none, "{method}");
    }
    assert_asked(TIMER, "1800", "");
    let forwarded = Bench::new().call(&invite(), target(1));
    assert!(lines(&forwarded[0].text, "Session-Expires").is_empty());
}

/// §8.1: a longer interval is reduced, a shorter one is not raised, and the refresher stays.
#[test]
fn a_longer_interval_is_reduced() {
    for timer in ["", TIMER] {
        let with = |header: &str| format!("{timer}{header}\r\n");
        assert_asked(
            &with("Session-Expires: 3600;refresher=uac"),
            "1800;refresher=uac",
            "",
        );
        assert_asked(
            &with("x: 7200 ;refresher=uas;a=b"),
            "1800;refresher=uas;a=b",
            "",
        );
        assert_asked(
            &with("Session-Expires: 600;refresher=uac"),
            "600;refresher=uac",
            "",
        );
    }
}

/// §8.1: never below Min-SE, nor below 90 s, which holds without one.
#[test]
fn no_interval_is_below_what_others_allow() {
    assert_asked("Min-SE: 2400\r\n", "2400", "2400");
    assert_asked("Session-Expires: 3600\r\nMin-SE: 2400\r\n", "2400", "2400");
    let others = "Session-Expires: 100\r\nMin-SE: 120\r\nSupported: timer\r\n";
    assert_asked(others, "120", "120");
    assert_asked("Session-Expires: 10\r\n", "90", "90");
    assert_asked("Session-Expires: 10\r\nMin-SE: 30\r\n", "90", "90");
    assert_asked("Session-Expires: 10\r\nMin-SE: 100\r\n", "100", "100");
}

/// Who wants no refresh for more than a day gets no timer of ours.
#[test]
fn no_timer_is_asked_for_that_is_longer_than_a_day() {
    assert_asked("Min-SE: 86400\r\n", "86400", "86400");
    for timer in ["", TIMER] {
        assert_asked(&format!("{timer}Min-SE: 4294967295\r\n"), "", "4294967295");
        assert_asked(&format!("{timer}Min-SE: 86401\r\n"), "", "86401");
    }
}

/// §8.1: who knows session timers is told which interval is too small.
#[test]
fn a_caller_that_knows_timers_is_told_that_its_interval_is_too_small() {
    let mut bench = bench();
    let text = request("INVITE", &format!("{TIMER}Session-Expires: 89\r\n"));
    let refused = bench
        .try_begin(alice(), &text)
        .expect_err("it is too small");
    assert_eq!(refused.status().code(), 422);
    let answer = bench.take().remove(0).text;
    assert!(answer.starts_with("SIP/2.0 422 Session Interval Too Small\r\n"));
    assert_eq!(lines(&answer, "Min-SE"), ["90"]);
    bench.assert_empty();
}

#[test]
fn an_interval_that_cannot_be_read_is_left_to_others() {
    assert_asked("Session-Expires: soon\r\n", "soon", "");
    let (expires, _) = asked("INVITE", "Min-SE: soon\r\n");
    assert_eq!(expires, "1800");
}

/// Session-Expires and Require of a response to an INVITE with these headers, as it goes
/// back.
fn answered(headers: &str, status: u16, header: &str) -> ([String; 2], Option<EventKind>) {
    let mut bench = bench();
    let sent = bench.call(&request("INVITE", headers), target(1)).remove(0);
    bench.take_events();
    let text = match header {
        "" => response(&sent.text, status, "b"),
        header => response_with(&sent.text, status, header),
    };
    assert!(bench.respond(sent.to, &text));
    let back = bench.take();
    let back = back
        .iter()
        .find(|it| it.to == alice())
        .expect("it goes back");
    let event = bench.take_events().first().copied();
    let of = |name| lines(&back.text, name).join("|");
    ([of("Session-Expires"), of("Require")], event)
}

/// §8.2: if only the caller knows timers, the proxy answers for the callee, and follows the
/// session.
#[test]
fn the_caller_refreshes_if_the_callee_knows_no_timers() {
    let (headers, event) = answered(TIMER, 200, "");
    assert_eq!(headers, ["1800;refresher=uac", "timer"]);
    let Some(EventKind::Answered { session, .. }) = event else {
        panic!("{event:?}");
    };
    assert_eq!(session, Some(Duration::from_secs(1800)));
    let (headers, _) = answered(TIMER, 200, "Require: 100rel");
    assert_eq!(headers, ["1800;refresher=uac", "100rel|timer"]);
    let shorter = format!("{TIMER}Session-Expires: 300\r\n");
    assert_eq!(answered(&shorter, 202, "").0[0], "300;refresher=uac");
}

/// §8.2.
#[test]
fn other_responses_go_back_as_they_came() {
    let none = [String::new(), String::new()];
    assert_eq!(answered("", 200, "").0, none, "nobody knows timers");
    for status in [183, 486] {
        assert_eq!(answered(TIMER, status, "").0, none, "{status}");
    }
    let (headers, event) = answered(TIMER, 200, "Session-Expires: 900;refresher=uas");
    assert_eq!(headers, ["900;refresher=uas", ""]);
    let Some(EventKind::Answered { session, .. }) = event else {
        panic!("{event:?}");
    };
    assert_eq!(session, None);
}

/// RFC 3261 §13.3.1.4: the callee repeats its 2xx until the ACK comes.
#[test]
fn a_repeated_answer_has_the_timer_as_well() {
    let mut bench = bench();
    let sent = bench.call(&request("INVITE", TIMER), target(1)).remove(0);
    for _ in 0..2 {
        let back = bench.reply(&sent, 200).remove(0).text;
        assert_eq!(lines(&back, "Session-Expires"), ["1800;refresher=uac"]);
    }
}
