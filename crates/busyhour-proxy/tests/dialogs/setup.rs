//! An INVITE until its final response.

use busyhour_proxy::dialogs::{MediaFailure, MediaSides, Party, Role};
use busyhour_registrar::watch::{DialogDirection, DialogEnd, DialogState, LineState};

use crate::rig::{AB, ABT, Names, Rig, SENDRECV, aor, request, user};

/// RFC 4235 §3.7.1: trying, early, confirmed; the caller is in use, the callee rings.
#[test]
fn a_call_goes_from_trying_to_confirmed_to_terminated() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, SENDRECV).expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    assert_eq!(rig.states("alice"), ["trying"]);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::Idle)
    );
    rig.response(call, 0, 180, ABT);
    assert_eq!(
        (rig.states("alice"), rig.states("bob")),
        (vec!["early"], vec!["early"])
    );
    assert_eq!(rig.line("bob"), LineState::Ringing);
    rig.response(call, 0, 200, ABT);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::InUse)
    );
    rig.within("ACK", 1, ABT, "");
    rig.within("BYE", 2, ABT, "");
    assert_eq!(rig.ends("alice"), [DialogEnd::LocalBye]);
    assert_eq!(rig.ends("bob"), [DialogEnd::RemoteBye]);
    assert!(rig.dialogs.is_empty());
}

#[test]
fn each_side_is_told_who_the_other_one_is() {
    let mut rig = Rig::new();
    rig.talk();
    let (alice, bob) = (rig.infos("alice").remove(0), rig.infos("bob").remove(0));
    assert_eq!(
        (alice.names.call_id(), alice.direction),
        ("c1", DialogDirection::Initiator)
    );
    assert_eq!(bob.direction, DialogDirection::Recipient);
    let tags = |info: &busyhour_registrar::watch::DialogInfo| {
        (
            info.local_tag().unwrap().to_owned(),
            info.remote_tag().unwrap().to_owned(),
        )
    };
    assert_eq!(tags(&alice), ("a".into(), "b".into()));
    assert_eq!(tags(&bob), ("b".into(), "a".into()));
    let remote = bob.remote().unwrap();
    assert_eq!(
        (remote.display, remote.uri),
        ("alice", "sip:alice@example.com")
    );
    assert_eq!(alice.remote().unwrap().uri, "sip:bob@example.com");
}

/// RFC 4235 §3.7.1: a provisional response without a tag makes it proceeding. A 100 says
/// nothing, since every hop sends one.
#[test]
fn a_response_without_a_tag_is_proceeding() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 100, AB);
    assert_eq!(rig.states("alice"), ["trying"]);
    rig.response(call, 0, 180, AB);
    assert_eq!(
        (rig.states("alice"), rig.states("bob")),
        (vec!["proceeding"], vec!["proceeding"])
    );
    rig.response(call, 0, 180, ABT);
    assert_eq!(
        (rig.states("alice"), rig.states("bob")),
        (vec!["early"], vec!["early"])
    );
}

#[test]
fn a_retransmitted_response_tells_nothing_new() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    for status in [180, 180, 200, 200, 180, 200] {
        rig.response(call, 0, status, ABT);
    }
    assert_eq!(rig.changes.len(), 5, "{:?}", rig.changes);
}

#[test]
fn the_reason_says_how_a_call_was_not_answered() {
    for (status, is_cancelled, end, by) in [
        (486, false, DialogEnd::Rejected, Some(Role::Callee)),
        (408, false, DialogEnd::Timeout, None),
        (487, true, DialogEnd::Cancelled, Some(Role::Caller)),
    ] {
        let mut rig = Rig::new();
        let call = rig.invite(AB, "").expect("room");
        rig.dialogs.forwarded(call, 0, user("bob"));
        rig.response(call, 0, 180, ABT);
        if is_cancelled {
            rig.dialogs.cancelled(call);
            assert_eq!(rig.line("bob"), LineState::Ringing, "until it answers");
        }
        rig.response(call, 0, status, ABT);
        assert_eq!(rig.ends("bob"), [end]);
        assert_eq!(rig.line("alice"), LineState::InUse, "until it is told");
        rig.refused(call, status);
        assert_eq!(rig.ends("alice"), [end]);
        let record = rig.records.remove(0);
        assert_eq!(
            (record.status, record.end, record.ended_by),
            (status, end, by)
        );
    }
}

/// RFC 3261 §16.7: of several that ring, one is answered; the others go back to idle at
/// once, and a late word of theirs changes nothing.
#[test]
fn who_rang_and_lost_is_idle() {
    let mut rig = Rig::new();
    let call = forked(&mut rig);
    assert_eq!(rig.states("alice"), ["early", "early"]);
    assert_eq!(
        (rig.line("bob"), rig.line("carol")),
        (LineState::Ringing, LineState::Ringing)
    );
    rig.response(call, 1, 200, AB.to_tag("c"));
    assert_eq!(
        (rig.line("bob"), rig.line("carol")),
        (LineState::Idle, LineState::InUse)
    );
    assert_eq!(rig.ends("bob"), [DialogEnd::Cancelled]);
    assert_eq!(rig.states("alice"), ["confirmed"]);
    rig.response(call, 0, 180, AB.to_tag("b"));
    rig.response(call, 0, 487, AB.to_tag("b"));
    assert_eq!(rig.line("bob"), LineState::Idle);
    assert_eq!(rig.infos("carol")[0].local_tag(), Some("c"));
}

/// RFC 3261 §13.2.2.4: a second 2xx is a dialog of its own, until the caller hangs it up.
#[test]
fn two_answers_are_two_dialogs() {
    let mut rig = Rig::new();
    let call = forked(&mut rig);
    rig.response(call, 1, 200, AB.to_tag("c"));
    rig.response(call, 0, 200, AB.to_tag("b"));
    assert_eq!(rig.states("alice"), ["confirmed", "confirmed"]);
    assert_eq!(rig.states("bob"), ["confirmed"]);
    for tag in ["b", "c"] {
        rig.within("ACK", 1, AB.to_tag(tag), "");
    }
    rig.within("BYE", 2, AB.to_tag("b"), "");
    assert_eq!(
        (rig.line("bob"), rig.line("carol")),
        (LineState::Idle, LineState::InUse)
    );
    assert!(rig.records.is_empty());
    rig.within("BYE", 3, AB.to_tag("c"), "");
    assert_eq!(rig.line("alice"), LineState::Idle);
    assert_eq!(rig.records.len(), 1);
    assert_eq!(rig.records[0].answered_by, Some(aor("carol")));
}

/// One after the other: the caller keeps dialing, who did not answer is idle.
#[test]
fn the_next_target_rings_after_the_first_has_failed() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, AB.to_tag("b"));
    rig.failed(call, 0, 408);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::Idle)
    );
    rig.dialogs.forwarded(call, 1, user("voicemail"));
    rig.response(call, 1, 200, AB.to_tag("v"));
    assert_eq!(rig.states("alice"), ["confirmed"]);
    assert_eq!(rig.line("voicemail"), LineState::InUse);
}

/// RFC 3261 §9.1: a 200 that crosses the CANCEL wins, and the caller hangs up.
#[test]
fn a_200_that_crosses_the_cancel_is_a_call() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, ABT);
    rig.dialogs.cancelled(call);
    rig.response(call, 0, 200, ABT);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::InUse, LineState::InUse)
    );
    rig.within("ACK", 1, ABT, "");
    rig.within("BYE", 2, ABT, "");
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::Idle, LineState::Idle)
    );
}

/// RFC 3261 §16.8: a branch was given up after timer C, and is answered after all.
#[test]
fn a_200_of_a_branch_that_was_given_up_is_a_call() {
    let mut rig = Rig::new();
    let call = forked(&mut rig);
    rig.failed(call, 0, 408);
    assert_eq!(rig.line("bob"), LineState::Idle);
    rig.response(call, 0, 200, AB.to_tag("b"));
    assert_eq!(
        (rig.line("bob"), rig.states("alice")),
        (LineState::InUse, vec!["confirmed"])
    );
    assert_eq!(rig.line("carol"), LineState::Idle);
}

/// The same after the caller was sent 487: it is believed until the ACK or BYE is due.
#[test]
fn a_200_after_the_end_of_the_call_ends_with_it() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, ABT);
    rig.refused(call, 408);
    assert!(rig.dialogs.is_empty());
    rig.response(call, 0, 200, ABT);
    assert_eq!(rig.line("bob"), LineState::InUse);
    assert_eq!(rig.dialogs.len(), 1);
    rig.wait(40);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::Idle, LineState::Idle)
    );
    assert!(rig.dialogs.is_empty());
    assert_eq!(rig.records.len(), 1, "one call, one record");
}

/// RFC 3261 §13.3.1.4: a 2xx is sent again; after BYE it brings nothing back.
#[test]
fn a_late_2xx_brings_no_dialog_back() {
    let mut rig = Rig::new();
    let call = rig.talk();
    rig.within("BYE", 2, ABT, "");
    rig.response(call, 0, 200, ABT);
    rig.response(call, 0, 180, ABT);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::Idle, LineState::Idle)
    );
}

/// RFC 3261 §15: a caller may hang up one early dialog.
#[test]
fn bye_ends_one_early_dialog() {
    let mut rig = Rig::new();
    let call = forked(&mut rig);
    rig.within("BYE", 2, AB.to_tag("b"), "");
    assert_eq!(
        (rig.line("bob"), rig.line("carol")),
        (LineState::Idle, LineState::Ringing)
    );
    assert_eq!(rig.line("alice"), LineState::InUse);
    rig.response(call, 1, 200, AB.to_tag("c"));
    assert_eq!(rig.line("carol"), LineState::InUse);
}

/// RFC 3261 §8.1.3.5: after 401, 407 or 422 the caller tries again with the same Call-ID.
#[test]
fn a_second_try_is_a_call_of_its_own() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 422, ABT);
    rig.refused(call, 422);
    let text = request("INVITE", 2, AB, "");
    let again = rig.invite_text(&text, &user("alice")).expect("room");
    rig.dialogs.forwarded(again, 0, user("bob"));
    assert_eq!(rig.line("alice"), LineState::InUse);
    rig.response(again, 0, 180, AB.to_tag("b2"));
    assert_eq!(rig.line("bob"), LineState::Ringing);
    rig.refused(again, 486);
    assert_eq!(rig.records.len(), 2);
}

/// RFC 3261 §16.3: a spiral comes again by another way, and is one call.
#[test]
fn a_spiral_is_one_dialog() {
    let mut rig = Rig::new();
    let first = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(first, 0, user("#pbx"));
    let text = request("INVITE", 1, AB, "");
    let second = rig.invite_text(&text, &user("#pbx")).expect("known");
    rig.dialogs.forwarded(second, 0, user("bob"));
    for status in [180, 200] {
        rig.response(second, 0, status, ABT);
        rig.response(first, 0, status, ABT);
    }
    assert_eq!(
        (rig.states("alice"), rig.states("bob")),
        (vec!["confirmed"], vec!["confirmed"])
    );
    assert_eq!((rig.dialogs.len(), rig.dialogs.stats().spirals), (1, 1));
    rig.within("BYE", 9, ABT.reversed(), "");
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::Idle, LineState::Idle)
    );
}

/// Who knows the names of a call that rings sends them to somebody who answers at once.
#[test]
fn a_spiral_comes_from_the_caller_or_by_way_of_a_peer() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, ABT);
    let text = request("INVITE", 1, AB, "");
    for stranger in ["mallory", "+mallory"] {
        assert_eq!(rig.invite_text(&text, &user(stranger)), None, "{stranger}");
    }
    assert_eq!(rig.dialogs.stats().untracked_malformed, 2);
    for sender in ["alice", "#pbx"] {
        assert!(rig.invite_text(&text, &user(sender)).is_some(), "{sender}");
    }
    assert_eq!((rig.dialogs.len(), rig.dialogs.stats().spirals), (1, 2));
    assert_eq!(rig.states("bob"), ["early"]);
}

/// Anonymous callers have no name, and are told apart by where they are.
#[test]
fn a_call_of_nobody_is_not_given_up_for_another_one_of_nobody() {
    let mut rig = Rig::new();
    let names = Names { from: "+one", ..AB };
    let call = rig.invite(names, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 200, names.to_tag("b"));
    let again = request("INVITE", 2, names, "");
    assert_eq!(rig.invite_text(&again, &user("+another")), None);
    assert_eq!(rig.line("bob"), LineState::InUse);
    // A telephone on the same flow is not nobody.
    let telephone = Party::device(aor("carol"), user("+one").flow);
    assert_eq!(rig.invite_text(&again, &telephone), None);
    assert_eq!(rig.line("bob"), LineState::InUse);
    // And by nothing else, so it keeps its place when it moves.
    let moved = rig.within_from(&user("+another"), "INFO", names.to_tag("b"));
    assert!(moved.is_some());
    assert!(rig.invite_text(&again, &user("+one")).is_some());
    assert_eq!(rig.line("bob"), LineState::Idle);
}

#[test]
fn the_refusal_of_the_second_pass_is_not_the_callers() {
    let mut rig = Rig::new();
    let first = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(first, 0, user("#pbx"));
    let text = request("INVITE", 1, AB, "");
    let second = rig.invite_text(&text, &user("#pbx")).expect("known");
    rig.dialogs.forwarded(second, 0, user("bob"));
    rig.response(second, 0, 486, ABT);
    rig.refused(second, 486);
    assert_eq!(
        rig.line("alice"),
        LineState::InUse,
        "the other server may try another way"
    );
    rig.refused(first, 486);
    assert_eq!(rig.line("alice"), LineState::Idle);
}

/// A caller beyond a peer.
fn by_pbx() -> (Party, Names<'static>) {
    let names = Names {
        from: "+4930",
        ..AB
    };
    (user("#pbx"), names)
}

/// A PBX forks a call to two of our users, with one Call-ID, tag and CSeq for both.
#[test]
fn the_branches_of_a_peer_that_forks_live_on_their_own() {
    let mut rig = Rig::new();
    let (peer, names) = by_pbx();
    let text = request("INVITE", 1, names, "");
    let to_bob = rig.invite_text(&text, &peer).expect("room");
    rig.dialogs.forwarded(to_bob, 0, user("bob"));
    let to_carol = rig.invite_text(&text, &peer).expect("known");
    rig.dialogs.forwarded(to_carol, 0, user("carol"));
    rig.response(to_bob, 0, 180, names.to_tag("b"));
    rig.response(to_carol, 0, 180, names.to_tag("c"));
    rig.response(to_bob, 0, 486, names.to_tag("b"));
    rig.refused(to_bob, 486);
    assert_eq!(
        (rig.line("bob"), rig.states("carol"), rig.records.len()),
        (LineState::Idle, vec!["early"], 0)
    );
    rig.response(to_carol, 0, 200, names.to_tag("c"));
    assert_eq!(rig.states("carol"), ["confirmed"]);
    // A branch that comes late ends nothing.
    let late = rig.invite_text(&text, &peer).expect("known");
    rig.dialogs.forwarded(late, 0, user("dave"));
    rig.refused(late, 480);
    assert_eq!(
        (rig.states("carol"), rig.dialogs.len()),
        (vec!["confirmed"], 1)
    );
    rig.within("BYE", 9, names.to_tag("c").reversed(), "");
    assert_eq!(rig.line("carol"), LineState::Idle);
    assert_eq!((rig.records.len(), rig.records[0].status), (1, 200));
}

#[test]
fn a_call_that_a_peer_forks_ends_with_its_last_branch() {
    let mut rig = Rig::new();
    let (peer, names) = by_pbx();
    let text = request("INVITE", 1, names, "");
    let passes = ["bob", "carol"].map(|name| {
        let pass = rig.invite_text(&text, &peer).expect("room");
        rig.dialogs.forwarded(pass, 0, user(name));
        rig.response(pass, 0, 180, names.to_tag(name));
        pass
    });
    // Without a response to each branch: the server itself has refused.
    rig.refused(passes[1], 480);
    assert_eq!(
        (rig.states("bob"), rig.line("carol")),
        (vec!["early"], LineState::Idle)
    );
    rig.refused(passes[0], 486);
    assert_eq!((rig.line("bob"), rig.dialogs.len()), (LineState::Idle, 0));
    assert_eq!((rig.records.len(), rig.records[0].status), (1, 486));
    // One after the other (a failure route): the next one is a call of its own.
    let next = rig.invite_text(&text, &peer).expect("room");
    rig.dialogs.forwarded(next, 0, user("carol"));
    rig.response(next, 0, 180, names.to_tag("carol2"));
    assert_eq!(rig.states("carol"), ["early"]);
}

/// Its two dialogs are two for watchers (RFC 4235 §4.1: ids are unique).
#[test]
fn a_device_that_calls_itself_has_two_dialogs() {
    let mut rig = Rig::new();
    let names = Names { to: "alice", ..AB };
    let call = rig.invite(names, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("alice"));
    rig.response(call, 0, 180, names.to_tag("b"));
    assert_eq!(rig.line("alice"), LineState::RingInUse);
    rig.refused(call, 486);
    assert_eq!(rig.line("alice"), LineState::Idle);
}

/// A gateway has no lamp; its partner has.
#[test]
fn a_party_elsewhere_is_no_device() {
    let mut rig = Rig::new();
    let names = Names {
        from: "+4930",
        ..AB
    };
    let call = rig.invite(names, "").expect("room");
    assert!(rig.changes.is_empty());
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, names.to_tag("b"));
    assert_eq!(rig.changes.len(), 1);
    assert_eq!(rig.line("bob"), LineState::Ringing);
}

#[test]
fn a_call_without_any_answer_ends_after_timer_c() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, ABT);
    rig.wait(180);
    // RFC 3261 §16.7, step 2: a provisional response sets timer C again.
    rig.response(call, 0, 180, ABT);
    rig.wait(231);
    assert_eq!(rig.line("bob"), LineState::Ringing);
    rig.wait(2);
    assert_eq!(
        (rig.line("alice"), rig.line("bob")),
        (LineState::Idle, LineState::Idle)
    );
    assert_eq!(rig.ends("bob"), [DialogEnd::Timeout]);
}

/// RFC 3891 §3: the dialog that is replaced ends, and another one has its place.
#[test]
fn a_replaced_dialog_ends_when_the_other_is_answered() {
    let mut rig = Rig::new();
    rig.talk();
    let names = Names {
        call_id: "c2",
        from: "carol",
        from_tag: "x",
        ..AB
    };
    // From carol to bob, in alice's place: bob's own tag is to-tag.
    let text = request("INVITE", 1, names, "").replacen(
        "\r\n",
        "\r\nReplaces: c1;to-tag=b;from-tag=a\r\n",
        1,
    );
    let call = rig.invite_text(&text, &user("carol")).expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 180, names.to_tag("y"));
    assert!(rig.ends("bob").is_empty());
    rig.response(call, 0, 200, names.to_tag("y"));
    assert_eq!(
        (rig.ends("bob"), rig.ends("alice")),
        (vec![DialogEnd::Replaced], vec![DialogEnd::Replaced])
    );
    assert_eq!(
        (rig.line("bob"), rig.line("alice")),
        (LineState::InUse, LineState::Idle)
    );
    // Bob's BYE to alice comes after it (RFC 3891 §3).
    rig.within("BYE", 1, ABT.reversed(), "");
    assert_eq!(rig.ends("alice").len(), 1);
}

/// RFC 3891 §3: early-only replaces no answered dialog.
#[test]
fn early_only_leaves_an_answered_dialog() {
    let mut rig = Rig::new();
    rig.talk();
    let names = Names {
        call_id: "c2",
        from: "carol",
        from_tag: "x",
        ..AB
    };
    let header = "\r\nReplaces: c1;to-tag=b;from-tag=a;early-only\r\n";
    let text = request("INVITE", 1, names, "").replacen("\r\n", header, 1);
    let call = rig.invite_text(&text, &user("carol")).expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 200, names.to_tag("y"));
    assert!(rig.ends("bob").is_empty());
}

/// Alice talks with one party, and an INVITE from carol that replaces the dialog is answered
/// by another one: whether that ends alice's dialog.
fn is_replaced(party: &str, answerer: &str) -> bool {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user(party));
    rig.response(call, 0, 200, ABT);
    let names = Names {
        call_id: "c2",
        from: "carol",
        from_tag: "x",
        ..AB
    };
    let header = "\r\nReplaces: c1;to-tag=b;from-tag=a\r\n";
    let text = request("INVITE", 1, names, "").replacen("\r\n", header, 1);
    let call = rig.invite_text(&text, &user("carol")).expect("room");
    rig.dialogs.forwarded(call, 0, user(answerer));
    rig.response(call, 0, 200, names.to_tag("y"));
    !rig.ends("alice").is_empty()
}

/// RFC 3891 §3: who answers must be a party of the dialog. Two parties without a name may be
/// anybody, so neither takes the place of the other.
#[test]
fn only_a_party_of_a_dialog_replaces_it() {
    assert!(is_replaced("bob", "bob"));
    assert!(is_replaced("#trunk", "#trunk"));
    assert!(!is_replaced("#trunk", "#other"));
    assert!(!is_replaced("#trunk", "+49"));
    assert!(!is_replaced("+49", "+49"));
    assert!(!is_replaced("+49", "bob"));
}

#[test]
fn a_record_says_what_became_of_a_call() {
    let mut rig = Rig::new();
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.wait(2);
    rig.response(call, 0, 180, ABT);
    rig.wait(5);
    rig.response(call, 0, 200, ABT);
    rig.within("ACK", 1, ABT, "");
    let live: Vec<_> = rig.dialogs.live().collect();
    assert_eq!((live.len(), live[0].state), (1, DialogState::Confirmed));
    assert_eq!(live[0].callee_device, Some(aor("bob")));
    assert_eq!(live[0].since, rig.now);
    rig.wait(60);
    rig.within("BYE", 1, ABT.reversed(), "");
    let record = rig.records.remove(0);
    assert_eq!(
        (record.caller(), record.callee()),
        ("sip:alice@example.com", "sip:bob@example.com")
    );
    assert_eq!(
        (record.caller_device, record.answered_by),
        (Some(aor("alice")), Some(aor("bob")))
    );
    assert_eq!(record.post_dial_delay.unwrap().as_secs(), 2);
    assert_eq!(record.talk_time.unwrap().as_secs(), 60);
    assert_eq!((record.ended - record.began).as_secs(), 67);
    assert_eq!((record.answered.unwrap() - record.began).as_secs(), 7);
    assert_eq!((record.status, record.end), (200, DialogEnd::RemoteBye));
    assert_eq!(record.ended_by, Some(Role::Callee));
    assert!(
        record
            .caller_flow
            .starts_with("udp/192.0.2.1:5060-192.0.2.9:")
    );
    assert!(record.callee_flow.is_some());
    assert_eq!(rig.dialogs.live().count(), 0);
}

/// The first reason is kept, and one that comes when the call has ended is of none.
#[test]
fn a_record_says_why_the_media_could_not_flow() {
    let mut rig = Rig::new();
    let fails = |rig: &mut Rig, failure| {
        rig.dialogs
            .media_fails(AB.call_id, MediaSides::All, failure)
    };
    fails(&mut rig, MediaFailure::OtherFamily);
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    fails(&mut rig, MediaFailure::SenderBehindNat);
    fails(&mut rig, MediaFailure::RelayFailed);
    rig.response(call, 0, 486, ABT);
    rig.refused(call, 486);
    fails(&mut rig, MediaFailure::RelayFailed);
    let record = rig.records.remove(0);
    assert_eq!(record.media_failure, Some(MediaFailure::SenderBehindNat));
    let next = Names {
        call_id: "c2",
        ..AB
    };
    let call = rig.invite(next, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.refused(call, 486);
    assert_eq!(rig.records.remove(0).media_failure, None);
}

/// The media with bob fails, and carol hears the caller: so it matters who answers.
#[test]
fn a_record_says_why_the_media_failed_with_who_answered() {
    let failure = MediaFailure::SenderBehindNat;
    for (who, expected) in [(0, Some(failure)), (1, None)] {
        let mut rig = Rig::new();
        let call = forked(&mut rig);
        let to_bob = MediaSides::Flow(user("bob").flow);
        assert_ne!(user("bob").flow, user("carol").flow);
        for failure in [failure, MediaFailure::OtherFamily] {
            rig.dialogs.media_fails(AB.call_id, to_bob, failure);
        }
        let names = AB.to_tag(["b", "c"][who as usize]);
        rig.response(call, who, 200, names);
        rig.response(call, 1 - who, 487, AB.to_tag(["c", "b"][who as usize]));
        rig.within("ACK", 1, names, "");
        rig.within("BYE", 2, names, "");
        assert_eq!(rig.records.remove(0).media_failure, expected);
    }
}

/// Bob and carol are behind one proxy, so their flow is the same.
#[test]
fn the_media_fails_with_one_of_two_branches_over_one_flow() {
    for (who, expected) in [(0, None), (1, Some(MediaFailure::OtherFamily))] {
        let mut rig = Rig::new();
        let call = rig.invite(AB, "").expect("room");
        for branch in [0, 1] {
            rig.dialogs.forwarded(call, branch, user("bob"));
        }
        let to_second = MediaSides::Branch(call, 1);
        rig.dialogs
            .media_fails(AB.call_id, to_second, MediaFailure::OtherFamily);
        rig.response(call, who, 200, ABT);
        rig.response(call, 1 - who, 487, AB.to_tag("c"));
        rig.within("BYE", 2, ABT, "");
        assert_eq!(rig.records.remove(0).media_failure, expected);
    }
}

/// Bob and carol ring.
fn forked(rig: &mut Rig) -> busyhour_proxy::dialogs::CallHandle {
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.dialogs.forwarded(call, 1, user("carol"));
    rig.response(call, 0, 180, AB.to_tag("b"));
    rig.response(call, 1, 180, AB.to_tag("c"));
    call
}
