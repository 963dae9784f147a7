//! Requests within a dialog: hold, refresh, failure, adoption.

use busyhour_registrar::watch::{DialogEnd, LineState};
use busyhour_sip::Message;

use crate::rig::{AB, ABT, RECVONLY, Rig, SENDONLY, SENDRECV, request, response, user};
use busyhour_proxy::dialogs::{Carried, Role};

/// RFC 3264 §8.4: who does not receive holds the call; the other one is still in use.
#[test]
fn a_re_invite_holds_the_call_and_another_one_resumes_it() {
    let mut rig = Rig::new();
    rig.talk();
    exchange(&mut rig, "INVITE", 2, SENDONLY, 200, RECVONLY);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::OnHold, LineState::InUse)
    );
    assert!(rig.infos("bob")[0].is_remote_hold && rig.infos("alice")[0].is_local_hold);
    exchange(&mut rig, "UPDATE", 3, SENDRECV, 200, SENDRECV);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::InUse)
    );
}

#[test]
fn the_callee_may_hold_as_well() {
    let mut rig = Rig::new();
    rig.talk();
    let names = ABT.reversed();
    let request = rig.within("INVITE", 1, names, SENDONLY).expect("known");
    rig.answered(request, &response(200, 1, "INVITE", names, RECVONLY));
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::OnHold)
    );
}

/// RFC 3264 §8.4, hold as in RFC 2543.
#[test]
fn the_null_address_holds_the_call() {
    let mut rig = Rig::new();
    rig.talk();
    let null = "c=IN IP4 0.0.0.0\r\nm=audio 4000 RTP/AVP 0\r\n";
    exchange(&mut rig, "INVITE", 2, null, 200, RECVONLY);
    assert_eq!(rig.line("alice"), LineState::OnHold);
}

/// RFC 3261 §14.1: a re-INVITE that fails changes nothing, 491 of a glare among others.
#[test]
fn a_failed_re_invite_changes_nothing() {
    let mut rig = Rig::new();
    rig.talk();
    for (cseq, status) in [(2, 488), (3, 491), (4, 500)] {
        let told = rig.changes.len();
        exchange(&mut rig, "INVITE", cseq, SENDONLY, status, "");
        assert_eq!(
            (rig.line("alice"), rig.changes.len()),
            (LineState::InUse, told),
            "{status}"
        );
    }
    let request = rig.within("INVITE", 5, ABT, SENDONLY).expect("known");
    assert_eq!(rig.line("alice"), LineState::InUse, "not yet");
    rig.dialogs.unanswered(rig.now, request, 503, &mut rig.out);
    rig.apply();
    rig.answered(request, &response(200, 5, "INVITE", ABT, RECVONLY));
    assert_eq!(rig.line("alice"), LineState::InUse);
}

/// RFC 3261 §13.2.1: the offer in the 2xx, the answer in the ACK.
#[test]
fn an_offer_in_the_2xx_counts_with_the_ack() {
    let mut rig = Rig::new();
    rig.talk();
    exchange(&mut rig, "INVITE", 2, "", 200, SENDONLY);
    assert_eq!(rig.line("bob"), LineState::InUse);
    rig.within("ACK", 2, ABT, RECVONLY);
    assert_eq!(rig.line("bob"), LineState::OnHold);
}

#[test]
fn an_answer_in_a_provisional_response_counts_with_the_2xx() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, SENDRECV).expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response_with(call, 0, 183, ABT, SENDONLY);
    rig.response(call, 0, 200, ABT);
    assert_eq!(rig.line("bob"), LineState::OnHold);
}

/// RFC 3261 §12.2.1.2, RFC 5057 §5.1: who answers 481 has no dialog; who does not answer is
/// gone.
#[test]
fn the_481_and_408_end_the_dialog() {
    for (method, status, end) in [
        ("INVITE", 481, DialogEnd::Error),
        ("UPDATE", 408, DialogEnd::Timeout),
        ("INFO", 481, DialogEnd::Error),
    ] {
        let mut rig = Rig::new();
        rig.talk();
        exchange(&mut rig, method, 2, "", status, "");
        assert_eq!(rig.ends("alice"), [end], "{method} {status}");
        assert_eq!(rig.ends("bob"), [end], "{method} {status}");
        assert_eq!(rig.records.len(), 1);
    }
    let mut rig = Rig::new();
    rig.talk();
    let request = rig.within("INFO", 2, ABT, "").expect("known");
    rig.dialogs.unanswered(rig.now, request, 408, &mut rig.out);
    rig.apply();
    assert_eq!(rig.ends("alice"), [DialogEnd::Timeout]);
}

/// RFC 5057 §4.2, §5.1: the usage of a subscription ends alone; RFC 3262 §3: a PRACK without
/// its response.
#[test]
fn the_481_of_another_usage_ends_nothing() {
    let mut rig = Rig::new();
    rig.talk();
    for (cseq, method) in ["NOTIFY", "REFER", "SUBSCRIBE", "PRACK"]
        .into_iter()
        .enumerate()
    {
        exchange(&mut rig, method, cseq as u32 + 2, "", 481, "");
        assert_eq!(rig.line("alice"), LineState::InUse, "{method}");
    }
    for (cseq, status) in [404, 486, 500, 503, 603].into_iter().enumerate() {
        exchange(&mut rig, "INFO", cseq as u32 + 9, "", status, "");
        assert_eq!(rig.line("alice"), LineState::InUse, "{status}");
    }
}

/// RFC 3515 and RFC 3261 §15: alice transfers bob, and hangs up.
#[test]
fn a_transfer_by_refer_ends_with_bye() {
    let mut rig = Rig::new();
    rig.talk();
    exchange(&mut rig, "REFER", 2, "", 202, "");
    assert_eq!(rig.line("alice"), LineState::InUse);
    let bye = rig.within("BYE", 3, ABT, "").expect("known");
    rig.answered(bye, &response(200, 3, "BYE", ABT, ""));
    assert_eq!(rig.ends("alice"), [DialogEnd::LocalBye]);
}

/// RFC 3261 §15.1.1: the session is over with the BYE, whatever comes back.
#[test]
fn a_bye_that_is_not_answered_ends_the_dialog() {
    let mut rig = Rig::new();
    rig.talk();
    let bye = rig.within("BYE", 2, ABT, "").expect("known");
    rig.dialogs.unanswered(rig.now, bye, 408, &mut rig.out);
    rig.apply();
    rig.within("BYE", 2, ABT, "");
    rig.within("BYE", 1, ABT.reversed(), "");
    assert_eq!((rig.ends("alice").len(), rig.ends("bob").len()), (1, 1));
}

/// RFC 3261 §12.2.2: other tags are another dialog.
#[test]
fn a_request_with_other_tags_is_not_of_the_dialog() {
    let mut rig = Rig::new();
    rig.talk();
    for names in [ABT.to_tag("x"), AB, from_another("z")] {
        assert!(rig.within("BYE", 2, names, "").is_none());
    }
    assert_eq!(rig.line("alice"), LineState::InUse);
}

/// After a restart nothing is known; a refresh that succeeds tells of the call, and its end
/// is seen.
#[test]
fn a_successful_refresh_tells_of_a_call_of_an_earlier_process() {
    for sender in [Role::Caller, Role::Callee] {
        let mut rig = Rig::new();
        let names = match sender {
            Role::Caller => ABT,
            Role::Callee => ABT.reversed(),
        };
        assert!(rig.within("INVITE", 7, names, "").is_none());
        adopt(&mut rig, 486, "INVITE", names, sender);
        adopt(&mut rig, 200, "INFO", names, sender);
        assert_eq!(rig.line("alice"), LineState::Idle);
        adopt(&mut rig, 200, "UPDATE", names, sender);
        assert_eq!(
            (rig.line("alice"), rig.line("bob")),
            (LineState::InUse, LineState::InUse)
        );
        let alice = rig.infos("alice").remove(0);
        assert_eq!(
            (alice.local_tag(), alice.direction.as_str()),
            (Some("a"), "initiator")
        );
        adopt(&mut rig, 200, "UPDATE", names, sender);
        assert_eq!(rig.dialogs.stats().adopted, 1);
        rig.within("BYE", 8, names, "");
        assert_eq!(
            (rig.line("alice"), rig.line("bob")),
            (LineState::Idle, LineState::Idle)
        );
        assert!(rig.records.is_empty(), "nobody saw its beginning");
        assert_eq!(rig.ended.len(), 1, "but it has ended");
    }
}

#[test]
fn the_answer_to_a_re_invite_says_who_holds() {
    for (answer, alice, bob) in [
        (SENDRECV, LineState::InUse, LineState::InUse),
        (RECVONLY, LineState::OnHold, LineState::InUse),
        (SENDONLY, LineState::InUse, LineState::OnHold),
    ] {
        let mut rig = Rig::new();
        let text = response(200, 7, "INVITE", ABT, answer);
        let message = Message::parse(text.as_bytes()).expect("sound");
        let (at, parties) = (rig.at(), [user("alice"), user("bob")]);
        rig.dialogs
            .adopt(at, &message, parties, Role::Caller, &mut rig.out);
        rig.apply();
        assert_eq!(
            (rig.line("alice"), rig.line("bob")),
            (alice, bob),
            "{answer}"
        );
    }
}

/// A 200 to a re-INVITE that comes after the BYE brings nothing back.
#[test]
fn a_dialog_that_ended_is_not_adopted() {
    let mut rig = Rig::new();
    rig.talk();
    rig.within("BYE", 2, ABT, "");
    adopt(&mut rig, 200, "INVITE", ABT, Role::Caller);
    assert_eq!(rig.line("alice"), LineState::Idle);
}

/// Two servers of a cluster have adopted it, and the other one keeps it.
#[test]
fn an_adopted_dialog_is_handed_over_to_another_server() {
    let mut rig = Rig::new();
    adopt(&mut rig, 200, "INVITE", ABT, Role::Caller);
    assert_eq!(carried(&rig, "bob"), Some(Carried::Adopted));
    // Somebody else's dialog of the same names.
    assert!(!hand_over(&mut rig, "carol"));
    assert_eq!(carried(&rig, "carol"), None);
    assert_eq!(rig.line("alice"), LineState::InUse);
    assert!(hand_over(&mut rig, "bob"));
    assert_eq!(carried(&rig, "bob"), None);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::Idle, LineState::Idle)
    );
    assert!(rig.records.is_empty() && rig.ended.is_empty(), "it lasts");
    // The other one has died, and both sides say that it lasts.
    adopt(&mut rig, 200, "UPDATE", ABT, Role::Caller);
    assert_eq!(rig.line("alice"), LineState::InUse);
    let stats = rig.dialogs.stats();
    assert_eq!((stats.adopted, stats.handed_over), (2, 1));
}

#[test]
fn a_call_that_began_here_is_handed_over_to_nobody() {
    let mut rig = Rig::new();
    rig.talk();
    assert_eq!(carried(&rig, "bob"), Some(Carried::FromBeginning));
    assert!(!hand_over(&mut rig, "bob"));
    assert_eq!(rig.line("alice"), LineState::InUse);
}

/// Another server has forwarded it. A stranger's dialog may have the same names.
#[test]
fn a_bye_that_another_server_has_forwarded_ends_the_dialog_of_its_parties() {
    let mut rig = Rig::new();
    rig.talk();
    let bye = request("BYE", 2, ABT, "");
    let bye = Message::parse(bye.as_bytes()).expect("sound");
    for (callee, state) in [("carol", LineState::InUse), ("bob", LineState::Idle)] {
        let (now, parties) = (rig.now, [user("alice"), user(callee)]);
        let told = (&parties, Role::Caller);
        (rig.dialogs).ended_elsewhere(now, &bye, told, &mut rig.out);
        rig.apply();
        assert_eq!(rig.line("alice"), state, "{callee}");
    }
}

fn carried(rig: &Rig, callee: &str) -> Option<Carried> {
    let update = request("UPDATE", 8, ABT, "");
    let update = Message::parse(update.as_bytes()).expect("sound");
    rig.dialogs.carried(&update, &[user("alice"), user(callee)])
}

fn hand_over(rig: &mut Rig, callee: &str) -> bool {
    let update = request("UPDATE", 8, ABT, "");
    let update = Message::parse(update.as_bytes()).expect("sound");
    let (now, parties) = (rig.now, [user("alice"), user(callee)]);
    let is_over = (rig.dialogs).hand_over(now, &update, &parties, &mut rig.out);
    rig.apply();
    is_over
}

fn adopt(rig: &mut Rig, status: u16, method: &str, names: crate::rig::Names<'_>, sender: Role) {
    let text = response(status, 7, method, names, "");
    let message = Message::parse(text.as_bytes()).expect("sound");
    let parties = [user("alice"), user("bob")];
    let at = rig.at();
    rig.dialogs
        .adopt(at, &message, parties, sender, &mut rig.out);
    rig.apply();
}

fn from_another(from_tag: &str) -> crate::rig::Names<'_> {
    crate::rig::Names { from_tag, ..ABT }
}

fn exchange(rig: &mut Rig, method: &str, cseq: u32, offer: &str, status: u16, answer: &str) {
    let request = rig.within(method, cseq, ABT, offer).expect("known");
    rig.answered(request, &response(status, cseq, method, ABT, answer));
}
