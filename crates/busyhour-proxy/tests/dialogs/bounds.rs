//! What happens beyond the bounds: calls go on, untracked and counted.

use busyhour::bus::Name;
use busyhour_proxy::dialogs::{DialogPolicy, Role};
use busyhour_registrar::watch::LineState;
use busyhour_sip::Message;

use crate::rig::{AB, ABT, Names, Rig, request, response, user};

#[test]
fn beyond_a_bound_calls_are_untracked_and_counted() {
    let policy = DialogPolicy {
        calls_max: 4,
        calls_per_source_max: 3,
        calls_per_account_max: 2,
        ..DialogPolicy::default()
    };
    let mut rig = Rig::with(policy);
    let mut begin = |call_id: &str, from: &str| {
        let names = Names {
            call_id,
            from,
            ..AB
        };
        let text = request("INVITE", 1, names, "");
        rig.invite_text(&text, &user(from))
    };
    let first = begin("1", "alice");
    assert!(first.is_some() && begin("2", "alice").is_some());
    assert!(begin("3", "alice").is_none(), "the account");
    assert!(begin("4", "carol").is_some());
    assert!(begin("5", "dave").is_none(), "the source");
    rig.dialogs.set_others(1);
    let mut elsewhere = user("erin");
    elsewhere.flow.remote.set_ip([192, 0, 2, 77].into());
    let names = Names {
        call_id: "6",
        from: "erin",
        ..AB
    };
    let text = request("INVITE", 1, names, "");
    assert!(rig.invite_text(&text, &elsewhere).is_none(), "the whole");
    let stats = rig.dialogs.stats();
    let untracked = (
        stats.untracked_full,
        stats.untracked_source,
        stats.untracked_account,
    );
    assert_eq!((untracked, stats.call_count), ((1, 1, 1), 3));
    assert!(rig.within("BYE", 2, names.to_tag("b"), "").is_none());
    // An ended call makes room.
    rig.dialogs.set_others(0);
    rig.refused(first.unwrap(), 486);
    assert!(rig.invite_text(&text, &elsewhere).is_some());
    assert_eq!(rig.dialogs.stats().lingering_count, 1);
}

/// A callee behind a proxy that forks without end.
#[test]
fn the_dialogs_of_one_invite_are_bounded() {
    let policy = DialogPolicy {
        dialogs_per_call_max: 3,
        ..DialogPolicy::default()
    };
    let mut rig = Rig::with(policy);
    let call = rig.invite(AB, "").expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    let tags: Vec<String> = (0..9).map(|tag| format!("t{tag}")).collect();
    for tag in &tags {
        rig.response(call, 0, 180, AB.to_tag(tag));
    }
    assert_eq!(rig.states("bob").len(), 3);
    assert_eq!(rig.dialogs.stats().untracked_forks, 6);
    // An answer has room all the same: nothing else rings any more.
    rig.response(call, 0, 200, AB.to_tag("t8"));
    assert_eq!(rig.states("bob"), ["confirmed"]);
    for tag in &tags {
        rig.response(call, 0, 200, AB.to_tag(tag));
    }
    assert_eq!(rig.states("bob").len(), 3);
}

#[test]
fn too_long_names_are_untracked() {
    let mut rig = Rig::new();
    let long = "x".repeat(300);
    for names in [
        Names {
            call_id: &long,
            ..AB
        },
        Names {
            from_tag: &long,
            ..AB
        },
    ] {
        assert!(rig.invite(names, "").is_none());
    }
    assert_eq!(rig.dialogs.stats().untracked_malformed, 2);
    // Nor are they when only a refresh of the call is seen.
    let too_long = Names {
        call_id: &long,
        ..ABT
    };
    for names in [too_long, ABT] {
        let text = response(200, 7, "UPDATE", names, "");
        let message = Message::parse(text.as_bytes()).expect("sound");
        let (at, parties) = (rig.at(), [user("alice"), user("bob")]);
        (rig.dialogs).adopt(at, &message, parties, Role::Caller, &mut rig.out);
        rig.apply();
    }
    assert_eq!((rig.dialogs.len(), rig.dialogs.stats().adopted), (1, 1));
}

/// The callee chooses its tag when the call stands: nobody can be refused for it.
#[test]
fn a_callee_with_a_long_tag_or_none_is_followed() {
    let long = "x".repeat(300);
    for tag in [&*long, ""] {
        let mut rig = Rig::new();
        let call = rig.invite(AB, "").expect("room");
        rig.dialogs.forwarded(call, 0, user("bob"));
        rig.response(call, 0, 200, AB.to_tag(tag));
        assert_eq!(rig.line("bob"), LineState::InUse, "{tag}");
        rig.within("ACK", 1, AB.to_tag(tag), "");
        // Its end is seen, and not after four minutes.
        rig.wait(600);
        assert_eq!(rig.line("bob"), LineState::InUse, "{tag}");
        rig.within("BYE", 2, AB.to_tag(tag), "")
            .expect("its dialog");
        assert_eq!(rig.line("bob"), LineState::Idle, "{tag}");
        assert_eq!((rig.records.len(), rig.records[0].status), (1, 200));
    }
}

#[test]
fn a_caller_without_a_tag_is_followed() {
    let mut rig = Rig::new();
    let names = Names { from_tag: "", ..AB };
    let text = request("INVITE", 1, names, "").replace(";tag=\r\n", "\r\n");
    let call = rig.invite_text(&text, &user("alice")).expect("room");
    rig.dialogs.forwarded(call, 0, user("bob"));
    rig.response(call, 0, 200, names.to_tag("b"));
    assert_eq!(rig.line("bob"), LineState::InUse);
}

#[test]
fn ended_calls_are_remembered_for_a_while_and_only_so_many() {
    let policy = DialogPolicy {
        lingering_max: 5,
        ..DialogPolicy::default()
    };
    let mut rig = Rig::with(policy);
    for number in 0..8 {
        let call_id = number.to_string();
        let names = Names {
            call_id: &call_id,
            ..AB
        };
        let call = rig.invite(names, "").expect("room");
        rig.refused(call, 486);
    }
    let stats = rig.dialogs.stats();
    assert_eq!((stats.lingering_count, stats.lingering_evicted), (5, 3));
    assert_eq!((rig.records.len(), stats.unanswered), (8, 8));
    // The oldest are forgotten: the last one is known when its INVITE comes again.
    let calls = ["7", "0"].map(|call_id| {
        let call = rig.invite(Names { call_id, ..AB }, "").expect("room");
        assert_eq!(rig.dialogs.stats().lingering_count, 4, "{call_id}");
        call
    });
    for call in calls {
        rig.refused(call, 486);
    }
    rig.wait(33);
    assert_eq!(rig.dialogs.stats().lingering_count, 0);
    assert_eq!(rig.dialogs.next_deadline(), None);
}

/// A peer counts by its name, with a bound of its own, and not by its source.
#[test]
fn a_peer_has_a_bound_of_its_own() {
    let mut rig = Rig::with(DialogPolicy {
        calls_per_source_max: 1,
        calls_per_account_max: 1,
        calls_per_peer_max: [(Name::new("#trunk"), 2)].into(),
        ..DialogPolicy::default()
    });
    let mut invite = |call_id, party| {
        let names = Names { call_id, ..AB };
        let text = request("INVITE", 1, names, "");
        rig.invite_text(&text, &user(party)).is_some()
    };
    assert!(invite("1", "#trunk"));
    assert!(invite("2", "#trunk"));
    assert!(!invite("3", "#trunk"), "its own bound");
    assert!(invite("4", "#other"));
    assert!(!invite("5", "#other"), "without one, that of a source");
    assert!(
        invite("6", "alice"),
        "the calls of peers are not its source's"
    );
}
