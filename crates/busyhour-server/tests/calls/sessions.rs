//! Session timers that the server asks for (RFC 4028 §8).

use crate::{
    exchange::digest_config,
    world::{ALICE, BOB, CAROL, World, ack_of_refusal, header, respond, within},
};
use busyhour_server::server::{CallConfig, ServerConfig};
use busyhour_store::CallRecordQuery;

/// A call whose caller knows session timers, and what it was answered.
fn call_with_timers(world: &mut World) -> String {
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world.watch(CAROL, "bob");
    let invite = world.invite(ALICE, "bob", "call-1");
    let invite = invite.replace("Contact:", "Supported: timer\r\nContact:");
    world.send(ALICE, &invite);
    let challenge = world.read_status(ALICE, "407");
    world.send(ALICE, &ack_of_refusal(&invite, &challenge));
    let proven = world.proven(ALICE, &invite, &challenge);
    world.send(ALICE, &proven);
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    let ack = within(world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &ack);
    world.read_request(BOB, "ACK");
    assert_eq!(world.lamp(CAROL), "confirmed");
    answer
}

/// §8.2: bob knows no session timers, and alice loses her power.
#[test]
fn a_call_that_nobody_refreshes_ends_with_its_record_and_its_lamp() {
    let mut world = World::new();
    let answer = call_with_timers(&mut world);
    assert_eq!(header(&answer, "Session-Expires"), "900;refresher=uac");
    assert_eq!(header(&answer, "Require"), "timer");

    world.pass(600_000);
    let update = within(&mut world, ALICE, "UPDATE", 3, &answer, true);
    let update = update.replace("Max-Forwards", "Supported: timer\r\nMax-Forwards");
    world.send(ALICE, &update);
    let update = world.read_request(BOB, "UPDATE");
    assert_eq!(header(&update, "Session-Expires"), "900");
    world.send(BOB, &respond(BOB, &update, "200 OK"));
    let refreshed = world.read_status(ALICE, "200");
    assert_eq!(header(&refreshed, "Session-Expires"), "900;refresher=uac");

    world.pass(900_000);
    assert_eq!(world.server.calls(10).len(), 1);
    world.pass(40_000);
    assert_eq!(world.server.calls(10).len(), 0);
    assert_eq!(world.lamp(CAROL), "");
    let records = world.server.call_records(&CallRecordQuery::first(10));
    let records = records.expect("the store can be read");
    assert_eq!((records.len(), &*records[0].end), (1, "timeout"));
}

/// §8.1.
#[test]
fn a_short_interval_is_refused_and_none_is_asked_for_where_the_operator_wants_none() {
    let mut world = World::new();
    world.register(BOB);
    let invite = world.invite(ALICE, "bob", "call-1");
    let short = "Supported: timer\r\nSession-Expires: 60\r\nContact:";
    let answer = world.ask(ALICE, &invite.replace("Contact:", short));
    assert!(answer.starts_with("SIP/2.0 422 "), "{answer}");
    assert_eq!(header(&answer, "Min-SE"), "90");
    assert_eq!(world.stats().calls.refused, 1);
    world.pass(1000);
    let recorded = world.server.call_records(&CallRecordQuery::first(10));
    let statuses: Vec<_> = recorded.unwrap().iter().map(|row| row.status).collect();
    assert_eq!(statuses, [422]);

    let mut world = World::with(ServerConfig {
        calls: CallConfig {
            session_s: 0,
            ..CallConfig::default()
        },
        ..digest_config()
    });
    let answer = call_with_timers(&mut world);
    assert!(!answer.contains("Session-Expires"), "{answer}");
}
