//! Requests within a dialog whose sender or target is not where the route says.

use crate::{
    established,
    world::{ALICE, BOB, CAROL, Phone, World, header, phone, respond, within},
};
use busyhour_server::server::CallView;

/// The ACK and BYE of a telephone that forgets the route, but sends everything to its proxy.
#[test]
fn a_caller_without_our_route_is_known_by_its_call_id_and_tags() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world.call(ALICE, "bob", "call-1");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &without_routes(&ack));
    world.read_request(BOB, "ACK");
    world.pass(60_000);
    assert_eq!(world.server.calls(10).len(), 1, "its ACK was seen");

    // Nobody else, though he may know all names.
    let bye = without_routes(&within(&mut world, ALICE, "BYE", 3, &answer, true));
    world.send(CAROL, &bye.replace("192.0.2.7", "192.0.2.9"));
    world.read_status(CAROL, "481");
    assert_eq!(world.server.calls(10).len(), 1);
    // Nor to somebody else's server.
    let route = "Route: <sip:example.net;lr>\r\nFrom:";
    let abroad = bye.replace("From:", route).replace("z9hG4bK", "z9hG4bKx");
    world.send(ALICE, &abroad);
    world.read_status(ALICE, "481");

    world.send(ALICE, &bye);
    let bye = world.read_request(BOB, "BYE");
    world.send(BOB, &respond(BOB, &bye, "200 OK"));
    world.read_status(ALICE, "200");
    assert_eq!(world.server.calls(10), Vec::<CallView>::new());
}

/// RFC 5627 §5.1: alice's telephone has moved, and its Contact in the call is its GRUU. With a
/// reg-id it is known where it was before (RFC 5626 §6); without one, the last registration says
/// where it is.
#[test]
fn a_gruu_reaches_the_telephone_where_it_is_now() {
    const MOVED: Phone = phone("alice", "192.0.2.77:5060");
    const INSTANCE: &str = "urn:uuid:0c67446e-f1a1-11d9-94d3-000a95a0e128";
    const EDGE: &str = "<sip:flow@192.0.2.80;lr;ob>";
    for outbound in ["reg-id=1;", ""] {
        let parameters =
            format!(";{outbound}+sip.instance=\"<{INSTANCE}>\"\r\nSupported: outbound, path");
        let mut world = World::new();
        world.register_with(ALICE, &parameters);
        world.register(BOB);
        let answer = established(&mut world, "call-1");
        world.pass(1000);
        // Behind an edge proxy now.
        world.register_with(MOVED, &format!("{parameters}\r\nPath: {EDGE}"));
        let ack = within(&mut world, BOB, "ACK", 1, &answer, false);
        let gruu = format!("ACK sip:alice@example.com;gr={INSTANCE} SIP/2.0");
        let ack = ack.replacen("ACK sip:alice@192.0.2.7:5060 SIP/2.0", &gruu, 1);
        world.send(BOB, &ack);
        let ack = world.read_request(MOVED, "ACK");
        assert!(ack.starts_with("ACK sip:alice@192.0.2.77:5060 "), "{ack}");
        assert_eq!(header(&ack, "Route"), EDGE);
        let bye = within(&mut world, BOB, "BYE", 1, &answer, false);
        let gruu = format!("BYE sip:alice@example.com;gr={INSTANCE} SIP/2.0");
        let bye = bye.replacen("BYE sip:alice@192.0.2.7:5060 SIP/2.0", &gruu, 1);
        world.send(BOB, &bye);
        let phones = [MOVED, ALICE];
        let reached = phones
            .into_iter()
            .find_map(|it| Some((it, world.try_read(it)?)));
        let (reached, bye) = reached.expect("the BYE");
        assert_eq!(reached.address, MOVED.address, "{outbound}");
        assert!(bye.starts_with("BYE sip:alice@192.0.2.77:5060 "), "{bye}");
        assert_eq!(header(&bye, "Call-ID"), "call-1");
        assert_eq!(header(&bye, "Route"), EDGE);
        world.send(MOVED, &respond(MOVED, &bye, "200 OK"));
        world.read_status(BOB, "200");
    }
}

/// A request without its routes.
fn without_routes(text: &str) -> String {
    let lines = text.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("Route:")).collect()
}

/// Who watches a line knows the names of its calls. Carol makes a call of her own with them, to
/// get tokens for these names, and with their help she sends an ACK in alice's call.
#[test]
fn the_tokens_of_another_call_open_no_call() {
    let anonymous = "<sip:anonymous@anonymous.invalid>;tag=alice";
    for from in ["<sip:alice@example.com>;tag=alice", anonymous] {
        let mut world = World::new();
        for phone in [ALICE, BOB, CAROL] {
            world.register(phone);
        }
        let of_carol = match from == anonymous {
            true => from,
            false => "<sip:carol@example.com>;tag=alice",
        };
        let call = call_as(&mut world, ALICE, from);
        let answer = answered(&mut world, ALICE, &call, "200 OK");
        let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
        world.send(ALICE, &ack);
        world.read_request(BOB, "ACK");
        let call = call_as(&mut world, CAROL, of_carol);
        let ringing = answered(&mut world, CAROL, &call, "180 Ringing");
        let (own, of_bob) = (header(&ringing, "To"), header(&answer, "To"));
        assert_ne!(own, of_bob);
        let stolen = ringing.replace(&own, &of_bob).replace(of_carol, from);

        let ack = within(&mut world, CAROL, "ACK", 2, &stolen, true);
        world.send(CAROL, &ack);
        assert_eq!(world.try_read(BOB), None, "her ACK is not of this call");
        assert_eq!(world.stats().calls.untrusted_routes, 1);
        for method in ["INFO", "INVITE", "BYE"] {
            let request = within(&mut world, CAROL, method, 9, &stolen, true);
            world.send(CAROL, &request);
            world.read_status(CAROL, "481");
            let request = within(&mut world, CAROL, method, 9, &stolen, true);
            world.send(CAROL, &without_routes(&request));
            world.read_status(CAROL, "481");
        }
        assert_eq!(world.server.calls(10).len(), 1, "alice's call lasts");

        // Alice is still where she was.
        let bye = within(&mut world, ALICE, "BYE", 10, &answer, true);
        world.send(ALICE, &without_routes(&bye));
        let bye = world.read_request(BOB, "BYE");
        world.send(BOB, &respond(BOB, &bye, "200 OK"));
        world.read_status(ALICE, "200");
    }
}

/// A telephone calls bob with this From and the Call-ID of all these calls.
fn call_as(world: &mut World, phone: Phone, from: &str) -> String {
    let invite = world.invite(phone, "bob", "call-1");
    let invite = invite.replace(&header(&invite, "From"), from);
    world.send(phone, &invite);
    let challenge = world.read_status(phone, "407");
    let proven = world.proven(phone, &invite, &challenge);
    world.send(phone, &proven);
    world.read_status(phone, "100");
    world.read_request(BOB, "INVITE")
}

/// What the caller is told when bob responds with a tag of this call.
fn answered(world: &mut World, caller: Phone, invite: &str, status: &str) -> String {
    let own_tag = Phone {
        user: "bob",
        ..caller
    };
    world.send(BOB, &respond(own_tag, invite, status));
    world.read_status(caller, &status[..3])
}

/// Alice and bob talk, and carol has tokens for the names of their call; the 200 as alice got it,
/// and as carol would have it.
fn call_with_a_stranger(world: &mut World) -> (String, String) {
    for phone in [ALICE, BOB, CAROL] {
        world.register(phone);
    }
    let from = "<sip:alice@example.com>;tag=alice";
    let of_carol = "<sip:carol@example.com>;tag=alice";
    let call = call_as(world, ALICE, from);
    let answer = answered(world, ALICE, &call, "200 OK");
    let ack = within(world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &ack);
    world.read_request(BOB, "ACK");
    let call = call_as(world, CAROL, of_carol);
    let ringing = answered(world, CAROL, &call, "180 Ringing");
    let (own, of_bob) = (header(&ringing, "To"), header(&answer, "To"));
    let stolen = ringing.replace(&own, &of_bob).replace(of_carol, from);
    (answer, stolen)
}

/// After a restart nothing but tokens tells whose a dialog is. Carol, who has some, refreshes it in
/// her name, and so the server takes it for hers.
#[test]
fn a_dialog_that_a_stranger_had_adopted_stays_open_for_its_parties() {
    let mut world = World::new();
    let (answer, stolen) = call_with_a_stranger(&mut world);
    world.restart();
    let refresh = within(&mut world, CAROL, "INVITE", 9, &stolen, true);
    world.send(CAROL, &refresh);
    let refresh = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &refresh, "200 OK"));
    world.read_status(CAROL, "100");
    world.read_status(CAROL, "200");
    assert_eq!(world.stats().calls.dialogs.adopted, 1);

    let info = within(&mut world, ALICE, "INFO", 10, &answer, true);
    world.send(ALICE, &info);
    let info = world.read_request(BOB, "INFO");
    world.send(BOB, &respond(BOB, &info, "200 OK"));
    world.read_status(ALICE, "200");
    let bye = within(&mut world, BOB, "BYE", 1, &answer, false);
    world.send(BOB, &bye);
    let bye = world.read_request(ALICE, "BYE");
    world.send(ALICE, &respond(ALICE, &bye, "200 OK"));
    world.read_status(BOB, "200");
}

/// The routes of a call have the tokens of both sides, so bob could write a request of alice.
#[test]
fn a_side_of_a_call_cannot_send_as_the_other() {
    let mut world = World::new();
    let (answer, _) = call_with_a_stranger(&mut world);
    let elsewhere = Phone {
        address: "203.0.113.9:5060",
        ..BOB
    };
    for phone in [BOB, elsewhere] {
        let forged = within(&mut world, ALICE, "INFO", 11, &answer, true);
        let forged = forged.replace(ALICE.address, phone.address);
        world.send(phone, &forged);
        let refusal = world.read(phone);
        let is_refused = ["481", "407"].map(|it| refusal.starts_with(&format!("SIP/2.0 {it} ")));
        assert!(is_refused.contains(&true), "{refusal}");
        assert_eq!(world.try_read(BOB), None);
    }
    // An ACK is answered by nobody, and tells nothing of where alice is.
    let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
    world.send(elsewhere, &ack.replace(ALICE.address, elsewhere.address));
    while world.try_read(BOB).is_some() {}
    let bye = within(&mut world, ALICE, "BYE", 12, &answer, true);
    world.send(ALICE, &without_routes(&bye));
    let bye = world.read_request(BOB, "BYE");
    world.send(BOB, &respond(BOB, &bye, "200 OK"));
    world.read_status(ALICE, "200");
}

/// Alice's telephone comes into another network and has not registered from there yet.
#[test]
fn a_telephone_that_has_moved_proves_who_it_is() {
    let mut world = World::new();
    let (answer, _) = call_with_a_stranger(&mut world);
    let moved = Phone {
        address: "203.0.113.7:5060",
        ..ALICE
    };
    let bye = within(&mut world, ALICE, "BYE", 13, &answer, true);
    let bye = bye.replace(ALICE.address, moved.address);
    world.send(moved, &bye);
    let challenge = world.read_status(moved, "407");
    let proven = world.proven(moved, &bye, &challenge);
    world.send(moved, &proven.replace("CSeq: 13 ", "CSeq: 14 "));
    let bye = world.read_request(BOB, "BYE");
    world.send(BOB, &respond(BOB, &bye, "200 OK"));
    world.read_status(moved, "200");
}

/// Who has seen the branch of a request cannot answer it from his own address.
#[test]
fn a_response_comes_from_where_its_request_went() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let call = call_as(&mut world, ALICE, "<sip:alice@example.com>;tag=alice");
    world.send(CAROL, &respond(BOB, &call, "603 Decline"));
    assert_eq!(world.try_read(ALICE), None);
    assert_eq!(world.stats().calls.proxy.stray_responses, 1);
    // Another port is nobody else.
    let port = Phone {
        address: "192.0.2.8:40000",
        ..BOB
    };
    world.send(port, &respond(BOB, &call, "180 Ringing"));
    world.read_status(ALICE, "180");
}
