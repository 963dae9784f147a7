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
