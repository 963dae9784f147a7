//! Calls whose offers go to several telephones.

use super::*;

#[test]
fn the_offers_of_a_fork_have_a_leg_each_by_their_branch() {
    let mut site = Site::new(1, true);
    for (number, branch) in ["z9hG4bKb1", "z9hG4bKb2"].iter().enumerate() {
        let flow = to(Transport::Udp, 5060 + number as u16);
        site.pass(&invite(branch, WEB), flow, None, number as u32);
        let command = site.answer();
        assert_eq!(text(&Value::read(&command).unwrap(), "via-branch"), *branch);
        site.ready();
    }
    let busy = response("486 Busy Here", "b2", "");
    let busy = Message::parse(busy.as_bytes()).unwrap();
    site.table
        .branch_failed(site.now, &busy, "z9hG4bKb2", &site.relays, &mut site.out);
    let (_, _, command) = site.command();
    let command = Value::read(&command).unwrap();
    let fields = ["command", "via-branch"].map(|name| text(&command, name));
    assert_eq!(fields, ["delete", "z9hG4bKb2"]);
    let ok = response("200 OK", "b1", PLAIN);
    site.pass(&ok, to(Transport::Ws, 1), Some("z9hG4bKb1"), 9);
    let command = site.answer();
    let command = Value::read(&command).unwrap();
    assert_eq!(text(&command, "via-branch"), "z9hG4bKb1");
}

const DESK: &str = "z9hG4bKb1";
const POCKET: &str = "z9hG4bKb2";

/// A relay sends the caller's media to the branch whose offer or answer it has handled last.
#[test]
fn a_relay_is_asked_again_for_the_answer_of_one_branch_after_the_offer_of_another() {
    let (mut site, (relay, offer)) = with_a_late_offer();
    let answer = site.answered("200 OK", DESK, 3);
    site.reply(relay, &offer, &[("result", "ok"), ("sdp", RELAYED)]);
    assert_eq!(site.ready().0, 2);
    let (_, cookie, again) = site.command();
    assert_ne!(cookie, offer);
    assert_eq!(again, answer);
    // It is lost, and asked for once more; nothing waits for it.
    site.later(300);
    let (_, same, _) = site.command();
    assert_eq!(same, cookie);
    site.reply(relay, &cookie, &[("result", "ok"), ("sdp", RELAYED)]);
    assert_eq!(site.table.next_deadline(), None);
    assert!(site.out.ready.is_empty() && site.out.commands.is_empty());
}

/// One branch rings with media, and the other one answers while the relay is asked for that of the first again.
#[test]
fn an_answer_that_is_not_the_last_one_any_more_is_not_asked_for_again() {
    let (mut site, (relay, offer)) = with_a_late_offer();
    site.answered("183 Session Progress", DESK, 3);
    site.reply(relay, &offer, &[("result", "ok"), ("sdp", RELAYED)]);
    site.ready();
    let (_, repeated, _) = site.command();
    let last = site.answered("200 OK", POCKET, 4);
    // The relay may have handled the repeated one after the last one.
    site.later(300);
    let (_, cookie, again) = site.command();
    assert_eq!(again, last);
    site.reply(relay, &cookie, &[("result", "ok"), ("sdp", RELAYED)]);
    site.reply(relay, &repeated, &[("result", "ok"), ("sdp", RELAYED)]);
    assert_eq!(site.table.next_deadline(), None);
    assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
}

#[test]
fn of_two_answers_whose_replies_change_places_the_last_one_is_asked_for_again() {
    let (mut site, (relay, offer)) = with_a_late_offer();
    site.reply(relay, &offer, &[("result", "ok"), ("sdp", RELAYED)]);
    site.ready();
    let early = response("183 Session Progress", "b1", PLAIN);
    site.pass(&early, to(Transport::Ws, 1), Some(DESK), 3);
    let (_, early, _) = site.command();
    let ok = response("200 OK", "b2", PLAIN);
    site.pass(&ok, to(Transport::Ws, 1), Some(POCKET), 4);
    let last = site.answer();
    site.reply(relay, &early, &[("result", "ok"), ("sdp", RELAYED)]);
    let again = site.answer();
    assert_eq!(again, last);
    assert_eq!(site.table.next_deadline(), None);
}

#[test]
fn an_early_answer_of_a_branch_that_has_ended_is_not_asked_for_again() {
    let (mut site, (relay, offer)) = with_a_late_offer();
    site.answered("183 Session Progress", DESK, 3);
    site.reply(relay, &offer, &[("result", "ok"), ("sdp", RELAYED)]);
    site.ready();
    let (_, repeated, _) = site.command();
    let busy = response("486 Busy Here", "b1", "");
    let busy = Message::parse(busy.as_bytes()).unwrap();
    site.table
        .branch_failed(site.now, &busy, DESK, &site.relays, &mut site.out);
    let (_, delete, _) = site.command();
    site.reply(relay, &delete, &[("result", "ok")]);
    // The one that was under way is not sent again either.
    site.later(300);
    assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
    site.reply(relay, &repeated, &[("result", "ok"), ("sdp", RELAYED)]);
    let mobile = invite("z9hG4bKb3", WEB);
    site.pass(&mobile, to(Transport::Udp, 9), None, 4);
    site.answer();
    site.ready();
    assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
}

/// The caller changes his media, and the relay handles the offer on another branch only then.
#[test]
fn the_answer_of_a_branch_is_not_asked_for_again_when_its_dialog_has_gone_on() {
    let (mut site, (relay, offer)) = with_a_late_offer();
    site.answered("200 OK", DESK, 3);
    let vias = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKup\r\n";
    let update = message(
        "UPDATE sip:bob@192.0.2.9 SIP/2.0",
        vias,
        ";tag=b1",
        "2 UPDATE",
        WEB,
    );
    site.pass(&update, to(Transport::Udp, 5060), None, 4);
    site.answer();
    site.ready();
    site.reply(relay, &offer, &[("result", "ok"), ("sdp", RELAYED)]);
    assert_eq!(site.ready().0, 2);
    assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
}

/// A call to two telephones, of which the relay has not replied to the offer on the second branch: whom that question went to, and its
/// cookie.
fn with_a_late_offer() -> (Site, (SocketAddr, String)) {
    let mut site = Site::new(1, true);
    site.pass(&invite(DESK, WEB), to(Transport::Udp, 5060), None, 1);
    site.answer();
    site.ready();
    site.pass(&invite(POCKET, WEB), to(Transport::Udp, 5061), None, 2);
    let (relay, cookie, _) = site.command();
    (site, (relay, cookie))
}
