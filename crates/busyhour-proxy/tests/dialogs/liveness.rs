//! No lamp sticks: what ends when nothing is heard.

use busyhour_proxy::dialogs::{EndedFlow, ProbeOutcome};
use busyhour_registrar::watch::{DialogEnd, DialogState, LineState};
use busyhour_sip::{HeaderName, Message, Method};
use std::time::Duration;

use crate::rig::{AB, ABT, Names, Rig, SENDRECV, aor, response, user};

/// RFC 3261 §13.3.1.4: a 2xx whose ACK does not come in 64·T1. A caller whose ACK takes
/// another way also sends its BYE there.
#[test]
fn an_answer_without_ack_is_no_call() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 200, ABT);
    rig.wait(32);
    assert_eq!(rig.line("bob"), LineState::InUse);
    rig.wait(2);
    assert_eq!(
        (rig.ends("alice"), rig.ends("bob")),
        (vec![DialogEnd::Timeout], vec![DialogEnd::Timeout])
    );
}

/// An ACK without a 2xx acknowledges nothing.
#[test]
fn an_ack_before_the_answer_does_not_count() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, ABT);
    rig.within("ACK", 1, ABT, "");
    rig.response(call, 0, 200, ABT);
    rig.wait(34);
    assert_eq!(rig.ends("bob"), [DialogEnd::Timeout]);
}

/// The ACK of the 2xx comes from the caller, with the CSeq of its INVITE (RFC 3261 §13.2.2.4).
#[test]
fn another_ack_or_request_does_not_count_as_the_ack() {
    let others = [
        ("INFO", 1, ABT),
        ("ACK", 2, ABT),
        ("ACK", 1, ABT.reversed()),
    ];
    for (method, cseq, names) in others {
        let mut rig = Rig::new();
        let call = rig.invite(AB, "").expect("room");
        rig.dialogs.forwarded(call, 0, user("bob"));
        rig.response(call, 0, 200, ABT);
        rig.within(method, cseq, names, "");
        rig.wait(34);
        assert_eq!(rig.ends("bob"), [DialogEnd::Timeout], "{method} {cseq}");
    }
}

/// RFC 4028 §10: a session that nobody refreshes ends; a refresh prolongs it.
#[test]
fn a_session_that_is_not_refreshed_ends() {
    let mut rig = Rig::new();
    rig.talk_with(
        SENDRECV,
        "Session-Expires: 1800;refresher=uac\r\n",
        SENDRECV,
    );
    rig.wait(1_000);
    let update = rig.within("UPDATE", 2, ABT, "").expect("known");
    let text = response(200, 2, "UPDATE", ABT, "").replacen("\r\n", "\r\nx: 600\r\n", 1);
    rig.answered(update, &text);
    rig.wait(631);
    assert_eq!(rig.line("alice"), LineState::InUse);
    assert!(rig.probes.is_empty(), "the timer tells enough");
    rig.wait(1);
    assert_eq!(rig.ends("alice"), [DialogEnd::Timeout]);
    assert_eq!(rig.dialogs.stats().timed_out, 1);
}

/// RFC 4028 §8.2: the proxy has answered for a callee that knows no timers.
#[test]
fn a_session_that_only_its_caller_refreshes_ends_without_that() {
    let mut rig = Rig::new();
    rig.talk();
    let answer = response(200, 1, "INVITE", ABT, "");
    let answer = Message::parse(answer.as_bytes()).expect("sound");
    rig.dialogs
        .session_added(rig.now, &answer, Duration::from_secs(900));
    rig.wait(800);
    let update = rig.within("UPDATE", 2, ABT, "").expect("known");
    let text = response(200, 2, "UPDATE", ABT, "");
    rig.answered(update, &text);
    let answer = Message::parse(text.as_bytes()).expect("sound");
    rig.dialogs
        .session_added(rig.now, &answer, Duration::from_secs(900));
    rig.wait(931);
    assert_eq!(rig.line("bob"), LineState::InUse);
    rig.wait(1);
    assert_eq!(rig.ends("bob"), [DialogEnd::Timeout]);
    assert_eq!(rig.records.len(), 1);
}

/// An interval of more than a day would let nobody be asked for so long.
#[test]
fn a_very_long_session_is_none() {
    let mut rig = Rig::new();
    rig.talk();
    let answer = response(200, 1, "INVITE", ABT, "");
    let answer = Message::parse(answer.as_bytes()).expect("sound");
    let interval = Duration::from_secs(u32::MAX.into());
    rig.dialogs.session_added(rig.now, &answer, interval);
    rig.wait(86_400);
    assert!(!rig.probes.is_empty(), "the devices are asked");
    assert_eq!(rig.line("bob"), LineState::Idle, "and are silent");
}

/// RFC 4028 §7.2: a 2xx without Session-Expires ends the timer, not the session. A failed
/// refresh changes nothing.
#[test]
fn a_refresh_without_a_timer_turns_it_off() {
    let mut rig = Rig::new();
    rig.talk_with(SENDRECV, "Session-Expires: 90\r\n", SENDRECV);
    rig.wait(60);
    let update = rig.within("UPDATE", 2, ABT, "").expect("known");
    rig.answered(update, &response(500, 2, "UPDATE", ABT, ""));
    let update = rig.within("UPDATE", 3, ABT, "").expect("known");
    rig.answered(update, &response(200, 3, "UPDATE", ABT, ""));
    rig.wait(600);
    assert_eq!(rig.line("alice"), LineState::InUse);
}

/// Without a session timer both devices are asked after a while; the OPTIONS is one of the
/// dialog, from the other side, and moves no CSeq.
#[test]
fn a_quiet_dialog_is_probed() {
    let mut rig = Rig::new();
    rig.talk();
    rig.wait(15 * 60);
    assert_eq!(rig.probes.len(), 2);
    let mut text = Vec::new();
    rig.probes[1].write(
        &mut text,
        "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKp",
        None,
        None,
    );
    let probe = Message::parse(&text).expect("sound");
    assert_eq!(probe.validate(), Ok(()));
    assert_eq!(
        (probe.method(), probe.cseq().unwrap().number),
        (Some(Method::Options), 0)
    );
    assert_eq!(probe.header(HeaderName::CallId), Some("c1"));
    assert_eq!(
        (probe.from().unwrap().tag(), probe.to().unwrap().tag()),
        (Some("a"), Some("b"))
    );
    assert_eq!(
        probe.request_uri().unwrap().to_string(),
        "sip:bob@192.0.2.9"
    );
    assert_eq!(
        (&rig.probes[1].device, rig.probes[1].flow),
        (&aor("bob"), user("bob").flow)
    );
    for probe in std::mem::take(&mut rig.probes) {
        // RFC 3261 §12.2.2: a lower CSeq is answered 500, and the dialog lives.
        rig.dialogs
            .probed(rig.now, probe.id, ProbeOutcome::Answered(500), &mut rig.out);
    }
    rig.wait(14 * 60);
    assert!(rig.probes.is_empty());
    rig.wait(60);
    assert_eq!((rig.probes.len(), rig.line("alice")), (2, LineState::InUse));
}

#[test]
fn a_device_that_does_not_know_the_dialog_or_is_silent_ends_it() {
    for (outcome, end) in [
        (ProbeOutcome::Answered(481), DialogEnd::Error),
        (ProbeOutcome::Answered(408), DialogEnd::Timeout),
        (ProbeOutcome::Silent, DialogEnd::Timeout),
    ] {
        let mut rig = Rig::new();
        rig.talk();
        rig.wait(15 * 60);
        let id = rig.probes[0].id;
        rig.dialogs.probed(rig.now, id, outcome, &mut rig.out);
        rig.apply();
        assert_eq!((rig.ends("alice"), rig.ends("bob")), (vec![end], vec![end]));
        rig.dialogs.probed(rig.now, id, outcome, &mut rig.out);
        assert!(rig.out.is_empty());
        let progressed = rig.progressed.iter().map(|call| call.state);
        assert_eq!(
            progressed.collect::<Vec<_>>(),
            [DialogState::Trying, DialogState::Confirmed]
        );
    }
}

/// Even if nobody reports what became of the probe.
#[test]
fn a_probe_without_an_outcome_ends_the_dialog() {
    let mut rig = Rig::new();
    rig.talk();
    rig.wait(15 * 60 + 36);
    assert_eq!(rig.ends("alice"), [DialogEnd::Timeout]);
    assert_eq!(
        rig.dialogs.next_deadline().map(|at| at > rig.now),
        Some(true)
    );
    rig.wait(60);
    assert_eq!(rig.dialogs.next_deadline(), None, "nothing is left");
}

/// Any message of the dialog shows that it lives.
#[test]
fn a_dialog_with_messages_is_not_probed() {
    let mut rig = Rig::new();
    rig.talk();
    for cseq in 2..10 {
        rig.wait(14 * 60);
        rig.within("INFO", cseq, ABT, "");
    }
    assert!(rig.probes.is_empty());
}

/// RFC 5626 §4.5: a device whose flow ended makes another one, and its calls go on. If it
/// does not come back, it is asked, and found to be gone.
#[test]
fn a_device_whose_flow_ended_is_asked() {
    let mut rig = Rig::new();
    rig.talk();
    flow_ended(&mut rig, "bob");
    rig.wait(31);
    assert!(rig.probes.is_empty());
    rig.wait(1);
    assert_eq!((rig.probes.len(), &rig.probes[0].device), (1, &aor("bob")));
    assert_eq!(rig.line("alice"), LineState::InUse);
    rig.wait(36);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::Idle, LineState::Idle)
    );
}

/// A telephone that loses its connection while it rings; if it comes back and answers, that
/// is a call.
#[test]
fn a_device_whose_flow_ended_rings_no_more() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, ABT);
    flow_ended(&mut rig, "bob");
    rig.wait(31);
    assert_eq!(rig.line("bob"), LineState::Ringing);
    rig.wait(1);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::Idle)
    );
    rig.response(call, 0, 200, ABT);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::InUse)
    );
}

#[test]
fn a_device_that_rings_on_is_there() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, ABT);
    flow_ended(&mut rig, "bob");
    rig.response(call, 0, 180, ABT);
    rig.wait(60);
    assert_eq!(rig.line("bob"), LineState::Ringing);
}

#[test]
fn a_device_that_is_heard_on_another_flow_is_not_asked() {
    let mut rig = Rig::new();
    rig.talk();
    flow_ended(&mut rig, "bob");
    rig.wait(10);
    rig.within("INFO", 1, ABT.reversed(), "");
    rig.wait(60);
    assert!(rig.probes.is_empty());
}

#[test]
fn the_end_of_another_flow_or_device_asks_nobody() {
    let mut rig = Rig::new();
    rig.talk();
    let device = aor("bob");
    let flow = Some(user("carol").flow);
    rig.dialogs.flow_ended(
        rig.now,
        EndedFlow {
            device: &device,
            flow,
        },
    );
    flow_ended(&mut rig, "carol");
    rig.wait(60);
    assert!(rig.probes.is_empty());
}

/// Nobody can be asked about a call whose devices said no Contact.
#[test]
fn a_call_that_cannot_be_probed_ends_after_hours_of_silence() {
    let mut rig = Rig::new();
    let long = "u".repeat(300);
    let names = Names { to: &long, ..AB };
    let call = rig.invite(names, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 200, names.to_tag("b"));
    rig.within("ACK", 1, names.to_tag("b"), "");
    rig.wait(3 * 3_600);
    assert_eq!(rig.line("bob"), LineState::InUse);
    rig.wait(3_601);
    assert_eq!(rig.ends("bob"), [DialogEnd::Timeout]);
    assert!(rig.probes.is_empty());
}

/// The same with a flow that ended: it is over after the grace.
#[test]
fn a_device_that_cannot_be_asked_is_gone_with_its_flow() {
    let mut rig = Rig::new();
    let long = "u".repeat(300);
    let names = Names { to: &long, ..AB };
    let call = rig.invite(names, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 200, names.to_tag("b"));
    rig.within("ACK", 1, names.to_tag("b"), "");
    flow_ended(&mut rig, "bob");
    rig.wait(33);
    assert_eq!(rig.line("bob"), LineState::Idle);
}

fn flow_ended(rig: &mut Rig, name: &str) {
    let device = aor(name);
    let ended = EndedFlow {
        device: &device,
        flow: None,
    };
    rig.dialogs.flow_ended(rig.now, ended);
}
