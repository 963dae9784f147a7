//! How much memory a call takes while it lasts, and what stays of it.

use std::time::Duration;

use allocation_counter::measure;
use busyhour::{
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_proxy::dialogs::{DialogActions, DialogPolicy, Dialogs, Party};
use busyhour_registrar::Now;
use busyhour_sip::{Flow, Message};

const CALLS: usize = 20_000;

/// 20,000 calls of 2,000 devices at once, answered and acknowledged, with names of a usual
/// length: the table, its indexes and timers, and the names of the devices.
#[test]
fn a_call_takes_less_than_1000_bytes() {
    let mut dialogs = Dialogs::new(1, 0, policy());
    let mut out = DialogActions::default();
    let up = measure(|| {
        for number in 0..CALLS {
            establish(&mut dialogs, number, &mut out);
            out = DialogActions::default();
        }
    });
    let each = up.bytes_current / CALLS as i64;
    println!(
        "{CALLS} calls: {each} bytes each, {} allocations",
        up.count_current / CALLS as i64
    );
    assert_eq!(dialogs.len(), CALLS);
    assert!(each < 1_000, "{each} bytes");
    let down = measure(|| {
        for number in 0..CALLS {
            hang_up(&mut dialogs, number, &mut out);
            out = DialogActions::default();
        }
        dialogs.expire(at(100).now, &mut out);
    });
    assert!(dialogs.is_empty() && dialogs.next_deadline().is_none());
    let left = (up.bytes_current + down.bytes_current) / CALLS as i64;
    println!("{left} bytes for each stay");
    // Tables keep their room for the next calls.
    assert!(left <= 200, "{left} bytes");
}

fn policy() -> DialogPolicy {
    DialogPolicy {
        calls_per_source_max: CALLS,
        lingering_max: CALLS,
        ..DialogPolicy::default()
    }
}

fn establish(dialogs: &mut Dialogs, number: usize, out: &mut DialogActions) {
    let invite = text(
        "INVITE sip:callee@example.com SIP/2.0",
        number,
        "INVITE",
        "caller",
        false,
    );
    let message = Message::parse(invite.as_bytes()).expect("sound");
    let call = dialogs
        .invite(at(0), &message, party(number, "caller"), None, out)
        .expect("room");
    dialogs.forwarded(call, 0, party(number, "callee"));
    for line in ["SIP/2.0 180 Ringing", "SIP/2.0 200 OK"] {
        let response = text(line, number, "INVITE", "callee", true);
        let message = Message::parse(response.as_bytes()).expect("sound");
        dialogs.response(at(1).now, call, 0, &message, out);
    }
    within(dialogs, number, "ACK", out);
}

fn hang_up(dialogs: &mut Dialogs, number: usize, out: &mut DialogActions) {
    within(dialogs, number, "BYE", out);
}

fn within(dialogs: &mut Dialogs, number: usize, method: &str, out: &mut DialogActions) {
    let line = format!("{method} sip:callee@example.com SIP/2.0");
    let request = text(&line, number, method, "caller", true);
    let message = Message::parse(request.as_bytes()).expect("sound");
    let flow = party(number, "caller").flow;
    assert!(dialogs.request(at(2).now, &message, flow, out).is_some());
}

fn text(line: &str, number: usize, method: &str, sender: &str, has_tag: bool) -> String {
    let tag = if has_tag {
        format!(";tag=as6b8b4567-{number}")
    } else {
        String::new()
    };
    let body = "v=0\r\nc=IN IP4 192.0.2.7\r\nm=audio 4000 RTP/AVP 0\r\n";
    let session = if line.contains("200 OK") {
        "Session-Expires: 1800;refresher=uac\r\n"
    } else {
        ""
    };
    let (caller, callee) = (number % DEVICES, (number + 1) % DEVICES);
    format!(
        "{line}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{number}\r\n\
         From: \"Caller {caller}\" <sip:caller{caller}@example.com>;tag=3a6f2c88-{number}\r\n\
         To: <sip:callee{callee}@example.com>{tag}\r\n\
         Call-ID: 5f2b1c7a9e{number:08}@192.0.2.7\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:{sender}{number}@192.0.2.7:5062;transport=udp>\r\n{session}\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn party(number: usize, role: &str) -> Party {
    let number = (number + usize::from(role == "callee")) % DEVICES;
    let remote = ([192, 0, 2, 7], 10_000 + number as u16).into();
    let aor = Name::new(&format!("sip:{role}{number}@example.com"));
    Party::device(aor, Flow::udp(([192, 0, 2, 1], 5060).into(), remote))
}

fn at(seconds: u64) -> Now {
    let unix = UnixTime::from_secs(1_800_000_000 + seconds);
    Now {
        now: Instant::ZERO + Duration::from_secs(1_000 + seconds),
        unix,
        steady: unix,
    }
}

const DEVICES: usize = 2_000;
