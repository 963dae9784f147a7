//! What those who know the names of a call may not do to it, and what leads nowhere.

use crate::{
    peers::{GATEWAY, SPARE, call_to, world},
    world::{
        ALICE, BOB, BOB_AT_HOME, CAROL, Phone, World, ack_of_refusal, cancel, header, phone,
        respond, within,
    },
};

/// One way that is silent says nothing of the dialog, as long as the next one answers.
#[test]
fn a_call_lives_when_a_reinvite_takes_the_next_way() {
    for status in [None, Some("503 Service Unavailable")] {
        let mut world = world();
        world.watch(CAROL, "alice");
        let invite = call_to(&mut world, GATEWAY, "030", "hold");
        world.send(GATEWAY, &respond(GATEWAY, &invite, "200 OK"));
        let answer = world.read_status(ALICE, "200");
        let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
        world.send(ALICE, &ack);
        world.read_request(GATEWAY, "ACK");
        assert_eq!(world.lamp(CAROL), "confirmed");

        let hold = within(&mut world, ALICE, "INVITE", 3, &answer, true);
        let hold = hold.replace("Content-Length: 0\r\n\r\n", &body("sendonly"));
        world.send(ALICE, &hold);
        let at_first = world.read_request(GATEWAY, "INVITE");
        match status {
            Some(status) => world.send(GATEWAY, &respond(GATEWAY, &at_first, status)),
            None => world.pass(4_100),
        }
        let again = world.read_request(SPARE, "INVITE");
        assert_eq!(world.server.calls(10).len(), 1, "{status:?}");
        let ok = respond(SPARE, &again, "200 OK");
        let ok = ok.replace("Content-Length: 0\r\n\r\n", &body("recvonly"));
        world.send(SPARE, &ok);
        world.read_status(ALICE, "100");
        world.read_status(ALICE, "200");
        let notify = world.read_request(CAROL, "NOTIFY");
        assert!(notify.contains("+sip.rendering"), "she holds: {notify}");
        assert_eq!(world.server.calls(10)[0].hold, Some("caller"));
        world.send(CAROL, &crate::exchange::ok(&notify));

        // Where no way is left, the dialog is over.
        while world.try_read(GATEWAY).is_some() {}
        let update = within(&mut world, ALICE, "INFO", 4, &answer, true);
        world.send(ALICE, &update);
        let info = world.read_request(GATEWAY, "INFO");
        let refusal = "481 Call/Transaction Does Not Exist";
        world.send(GATEWAY, &respond(GATEWAY, &info, refusal));
        assert_eq!(world.lamp(CAROL), "");
        assert_eq!(world.server.calls(10).len(), 0);
    }
}

/// The end of a message with a description of one stream.
fn body(direction: &str) -> String {
    let sdp = format!(
        "v=0\r\no=- 1 1 IN IP4 192.0.2.7\r\ns=-\r\nc=IN IP4 192.0.2.7\r\nt=0 0\r\n\
         m=audio 4000 RTP/AVP 0\r\na={direction}\r\n"
    );
    let len = sdp.len();
    format!("Content-Type: application/sdp\r\nContent-Length: {len}\r\n\r\n{sdp}")
}

/// A NOTIFY can have a telephone start anew, or show messages that are not there.
#[test]
fn nobody_but_a_peer_notifies_a_telephone_that_has_not_subscribed() {
    let mut world = world();
    let notify = |world: &mut World, phone: Phone| {
        let headers = "Event: check-sync;reboot=true\r\nSubscription-State: active\r\n";
        let to = "<sip:bob@example.com>";
        let uri = "sip:bob@example.com";
        world.request(phone, "NOTIFY", uri, to, phone.address, headers)
    };
    let from_alice = notify(&mut world, ALICE);
    world.send(ALICE, &from_alice);
    world.read_status(ALICE, "481");
    assert_eq!(world.try_read(BOB), None);
    let from_peer = notify(&mut world, GATEWAY);
    world.send(GATEWAY, &from_peer);
    let notify = world.read_request(BOB, "NOTIFY");
    world.send(BOB, &respond(BOB, &notify, "200 OK"));
    world.read_status(GATEWAY, "200");
}

/// Each telephone of a fork sees all that names the INVITE.
#[test]
fn who_is_called_does_not_cancel_the_call_for_others() {
    let mut world = World::new();
    for phone in [ALICE, BOB, BOB_AT_HOME] {
        world.register(phone);
    }
    let sent = world.call(ALICE, "bob", "call-1");
    world.read_status(ALICE, "100");
    let phones = [BOB, BOB_AT_HOME];
    let invites = phones.map(|phone| {
        let invite = world.read_request(phone, "INVITE");
        world.send(phone, &respond(phone, &invite, "180 Ringing"));
        world.read_status(ALICE, "180");
        invite
    });
    world.send(BOB, &cancel(&sent));
    world.read_status(BOB, "481");
    assert_eq!(world.try_read(BOB_AT_HOME), None, "it rings on");
    assert_eq!(world.try_read(ALICE), None);
    let [_, at_home] = invites;
    world.send(BOB_AT_HOME, &respond(BOB_AT_HOME, &at_home, "200 OK"));
    world.read_status(ALICE, "200");
}

/// The caller has heard that his call failed (RFC 3261 §17.2.1).
#[test]
fn a_late_copy_of_an_invite_that_was_refused_does_not_ring() {
    let mut world = World::new();
    world.register(ALICE);
    let invite = world.call(ALICE, "bob", "call-1");
    let refusal = world.read_status(ALICE, "480");
    world.send(ALICE, &ack_of_refusal(&invite, &refusal));
    world.register(BOB);
    world.pass(31_000);
    world.send(ALICE, &invite);
    assert_eq!(world.read_status(ALICE, "480"), refusal);
    assert_eq!(world.try_read(BOB), None);
    assert_eq!(world.stats().traffic.retransmissions_answered, 1);
    // No client sends it again later than that.
    world.pass(2_000);
    assert_eq!(world.stats().traffic.transaction_count, 0);

    world.call(ALICE, "bob", "call-2");
    world.read_request(BOB, "INVITE");
}

/// Such a call would be in no list, have no record, and count for nobody.
#[test]
fn a_call_whose_names_are_too_long_is_refused() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let long = "x".repeat(257);
    let invite = world.invite(ALICE, "bob", &long);
    world.send(ALICE, &invite);
    world.read_status(ALICE, "400 Call-ID Too Long");
    let invite = world.invite(ALICE, "bob", "tag");
    world.send(
        ALICE,
        &invite.replace(";tag=alice", &format!(";tag={long}")),
    );
    world.read_status(ALICE, "400 From Tag Too Long");
    assert_eq!(world.try_read(BOB), None);
}

/// Bob has two telephones, of which one is in a call. The other one would say that it knows no
/// such dialog.
#[test]
fn the_telephone_of_the_dialog_is_asked_whether_it_lives_and_nobody_else_answers() {
    // It sends from another port than the one in its Contact.
    const LISTENS: Phone = phone("bob", "192.0.2.18:5062");
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let to = "<sip:bob@example.com>";
    let contact = format!("Contact: <sip:bob@{}>\r\n", LISTENS.address);
    let register = world.request(
        BOB_AT_HOME,
        "REGISTER",
        "sip:example.com",
        to,
        "home",
        &contact,
    );
    let answer = world.ask(BOB_AT_HOME, &register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");

    world.call(ALICE, "bob", "call-1");
    world.read_status(ALICE, "100");
    let desk = world.read_request(BOB, "INVITE");
    let invite = world.read_request(LISTENS, "INVITE");
    world.send(BOB_AT_HOME, &respond(LISTENS, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &ack);
    world.send(BOB, &respond(BOB, &desk, "486 Busy Here"));
    for phone in [BOB, LISTENS, ALICE] {
        while world.try_read(phone).is_some() {}
    }
    world.pass(15 * 60_000 + 1_000);
    assert_eq!(world.try_read(BOB), None);
    let options = world.read_request(LISTENS, "OPTIONS");
    assert_eq!(header(&options, "Call-ID"), "call-1");
    let gone = "481 Call/Transaction Does Not Exist";
    world.send(CAROL, &respond(LISTENS, &options, gone));
    world.send(BOB, &respond(LISTENS, &options, gone));
    assert_eq!(world.server.calls(10).len(), 1, "others say nothing of it");
    world.send(BOB_AT_HOME, &respond(LISTENS, &options, gone));
    assert_eq!(world.server.calls(10).len(), 0);
}
