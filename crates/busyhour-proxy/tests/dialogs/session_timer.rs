//! What a proxy does with session timers (RFC 4028 §8).

use busyhour_proxy::dialogs::{SessionPolicy, SessionRequest, supports_timer};
use busyhour_sip::{Message, session::Refresher};

fn of_request(policy: SessionPolicy, headers: &str) -> SessionRequest {
    let text = format!("INVITE sip:b@x SIP/2.0\r\n{headers}\r\n");
    policy.of_request(&Message::parse(text.as_bytes()).expect("sound"))
}

#[test]
fn a_proxy_without_a_wish_keeps_what_is_long_enough() {
    let policy = SessionPolicy::default();
    assert_eq!(of_request(policy, ""), SessionRequest::Keep);
    assert_eq!(
        of_request(policy, "Session-Expires: 90\r\n"),
        SessionRequest::Keep
    );
}

/// RFC 4028 §8.1: 422 if the caller understands it; otherwise the proxy raises the interval.
#[test]
fn a_too_short_interval_is_refused_or_raised() {
    let policy = SessionPolicy {
        interval_min_s: 300,
        ..SessionPolicy::default()
    };
    let short = "Session-Expires: 200\r\n";
    assert_eq!(of_request(policy, short), SessionRequest::Raise(300));
    for knows in ["Supported: 100rel, timer\r\n", "Require: timer\r\n"] {
        let headers = format!("{short}{knows}");
        assert_eq!(of_request(policy, &headers), SessionRequest::TooSmall(300));
    }
    // RFC 4028 §5: nobody may want less than 90 seconds.
    let too_low = SessionPolicy {
        interval_min_s: 1,
        ..policy
    };
    assert_eq!(
        of_request(too_low, "Session-Expires: 60\r\n"),
        SessionRequest::Raise(90)
    );
}

/// RFC 4028 §8.1: not below the Min-SE of the request.
#[test]
fn an_interval_is_inserted_where_nobody_asks_for_one() {
    let policy = SessionPolicy {
        interval_s: 1_800,
        interval_min_s: 90,
    };
    assert_eq!(of_request(policy, ""), SessionRequest::Insert(1_800));
    assert_eq!(
        of_request(policy, "Min-SE: 3600\r\n"),
        SessionRequest::Insert(3_600)
    );
    assert_eq!(of_request(policy, "x: 600\r\n"), SessionRequest::Keep);
}

/// RFC 4028 §8.2: if the callee knows no session timers, the caller refreshes.
#[test]
fn a_2xx_gets_the_inserted_interval_if_the_caller_can_refresh() {
    let plain = Message::parse(b"SIP/2.0 200 OK\r\n\r\n").expect("sound");
    let theirs = Message::parse(b"SIP/2.0 200 OK\r\nSession-Expires: 90\r\n\r\n").expect("sound");
    let added = SessionPolicy::of_response(Some(1_800), true, &plain).expect("one");
    assert_eq!(
        (added.interval_s, added.refresher),
        (1_800, Some(Refresher::Uac))
    );
    assert_eq!(SessionPolicy::of_response(Some(1_800), true, &theirs), None);
    assert_eq!(SessionPolicy::of_response(Some(1_800), false, &plain), None);
    assert_eq!(SessionPolicy::of_response(None, true, &plain), None);
    assert!(!supports_timer(&plain));
}
