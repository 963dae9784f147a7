//! Records of calls: each call that ended has one in the store, whatever its disk does.

use crate::{
    established,
    exchange::digest_config,
    world::{ALICE, BOB, World, ack_of_refusal, cancel, respond, within},
};
use busyhour_server::server::{CallConfig, ServerConfig};
use busyhour_store::{CallRecordQuery, CallRecordRow, DiskBehaviour};

fn records(world: &World) -> Vec<CallRecordRow> {
    world
        .server
        .call_records(&CallRecordQuery::first(100))
        .unwrap()
}

fn two_telephones(config: ServerConfig) -> World {
    let mut world = World::with(config);
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world
}

/// Alice calls bob, who rings for a second and then refuses.
fn refused(world: &mut World, call_id: &str, status: &str) {
    let sent = world.call(ALICE, "bob", call_id);
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "180 Ringing"));
    world.read_status(ALICE, "180");
    world.pass(1000);
    world.send(BOB, &respond(BOB, &invite, status));
    world.read_request(BOB, "ACK");
    let refusal = world.read_status(ALICE, status);
    world.send(ALICE, &ack_of_refusal(&sent, &refusal));
}

fn answered(world: &mut World, call_id: &str) {
    let answer = established(world, call_id);
    world.pass(3000);
    let bye = within(world, BOB, "BYE", 1, &answer, false);
    world.send(BOB, &bye);
    let bye = world.read_request(ALICE, "BYE");
    world.send(ALICE, &respond(ALICE, &bye, "200 OK"));
    world.read_status(BOB, "200");
}

#[test]
fn each_call_that_ended_has_a_record_which_survives_a_crash() {
    let mut world = two_telephones(digest_config());
    answered(&mut world, "talked");
    refused(&mut world, "busy", "486 Busy Here");
    refused(&mut world, "declined", "603 Decline");
    let sent = world.call(ALICE, "bob", "given-up");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "180 Ringing"));
    world.read_status(ALICE, "180");
    world.send(ALICE, &cancel(&sent));
    world.read_status(ALICE, "200");
    let cancelled = world.read_request(BOB, "CANCEL");
    world.send(BOB, &respond(BOB, &cancelled, "200 OK"));
    world.send(BOB, &respond(BOB, &invite, "487 Request Terminated"));
    world.read_request(BOB, "ACK");
    let refusal = world.read_status(ALICE, "487");
    world.send(ALICE, &ack_of_refusal(&sent, &refusal));
    world.pass(1000);

    let found = records(&world);
    let told = found
        .iter()
        .map(|row| (row.id, &*row.call_id, &*row.outcome));
    assert!(
        told.eq([
            (4, "given-up", "cancelled"),
            (3, "declined", "refused"),
            (2, "busy", "busy"),
            (1, "talked", "answered"),
        ]),
        "{found:#?}"
    );
    let talked = &found[3];
    assert_eq!(talked.caller.as_deref(), Some("sip:alice@example.com"));
    assert_eq!(talked.answered_by.as_deref(), Some("sip:bob@example.com"));
    assert_eq!(talked.ended_by.as_deref(), Some("callee"));
    let talk_time = talked.talk_time_ns.unwrap();
    assert!(
        (3_000_000_000..4_000_000_000).contains(&talk_time),
        "{talk_time}"
    );
    assert_eq!(
        talked.ended_at_ns - talked.answered_at_ns.unwrap(),
        talk_time
    );

    let calls = world.stats().calls;
    let outcomes = calls.outcomes;
    assert_eq!(
        (
            outcomes.answered,
            outcomes.busy,
            outcomes.refused,
            outcomes.cancelled
        ),
        (1, 1, 1, 1)
    );
    assert_eq!((calls.records.stored, calls.records.lost), (4, 0));
    assert_eq!(calls.records.waiting_len, 0);
    // All but the first response came at once in virtual time, a step of it later.
    let delays = calls.post_dial_delay;
    assert_eq!(delays.count, 4);
    let last = delays.buckets.last().unwrap();
    assert_eq!((last.name, last.count), ("32", 4));
    assert!(delays.sum_ns > 0);

    world.restart();
    assert_eq!(records(&world), found);
    // The next one has the next number.
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    answered(&mut world, "again");
    world.pass(1000);
    assert_eq!(records(&world)[0].id, 5);
}

#[test]
fn records_that_the_disk_refuses_are_stored_when_it_works_again() {
    let mut world = two_telephones(digest_config());
    let broken = DiskBehaviour {
        failures_per_mille: 1000,
        ..DiskBehaviour::default()
    };
    world.disk.set_behaviour(broken);
    // A call needs no disk.
    for number in 0..3 {
        refused(&mut world, &format!("busy-{number}"), "486 Busy Here");
    }
    assert_eq!(records(&world), []);
    assert_eq!(world.stats().calls.records.waiting_len, 3);
    world.disk.set_behaviour(DiskBehaviour::default());
    world.pass(3000);
    assert_eq!(records(&world).len(), 3);
    let stats = world.stats().calls.records;
    assert_eq!((stats.waiting_len, stats.stored, stats.lost), (0, 3, 0));
}

#[test]
fn records_that_the_disk_refuses_at_the_end_are_counted_as_lost() {
    let mut world = two_telephones(digest_config());
    let broken = DiskBehaviour {
        failures_per_mille: 1000,
        ..DiskBehaviour::default()
    };
    world.disk.set_behaviour(broken.clone());
    for number in 0..3 {
        refused(&mut world, &format!("busy-{number}"), "486 Busy Here");
    }
    assert_eq!(world.stats().calls.records.waiting_len, 3);
    world.disk.set_behaviour(DiskBehaviour {
        queue_capacity: 0,
        ..broken
    });
    world.server.shutdown(std::time::Duration::ZERO);
    let stats = world.stats().calls.records;
    assert_eq!((stats.waiting_len, stats.stored, stats.lost), (0, 0, 3));
}

fn with_records(records_days: u32, records_max: u64) -> World {
    two_telephones(ServerConfig {
        calls: CallConfig {
            records_days,
            records_max,
            ..CallConfig::default()
        },
        ..digest_config()
    })
}

#[test]
fn old_records_are_removed_by_their_number() {
    let mut world = with_records(30, 2);
    for number in 0..5 {
        refused(&mut world, &format!("busy-{number}"), "486 Busy Here");
    }
    world.pass(1000);
    assert_eq!(records(&world).len(), 5, "they are removed once a minute");
    world.pass(61_000);
    let kept = records(&world);
    let kept = kept.iter().map(|row| &*row.call_id);
    assert!(kept.eq(["busy-4", "busy-3"]));
}

#[test]
fn no_records_are_kept_where_none_are_wanted() {
    let mut world = with_records(30, 0);
    refused(&mut world, "busy", "486 Busy Here");
    world.pass(1000);
    assert_eq!(records(&world), []);
    let calls = world.stats().calls;
    assert_eq!((calls.records.stored, calls.records.lost), (0, 0));
    assert_eq!(calls.outcomes.busy, 1);
}

/// Alice calls somebody whom the server does not send the call to; what it answers.
fn declined(world: &mut World, user: &str, call_id: &str) -> String {
    let sent = world.call(ALICE, user, call_id);
    let refusal = world.read(ALICE);
    // It comes once more before its caller has heard the answer.
    world.send(ALICE, &sent);
    assert_eq!(world.read(ALICE), refusal);
    world.send(ALICE, &ack_of_refusal(&sent, &refusal));
    refusal
}

#[test]
fn a_call_that_the_server_refuses_has_one_record() {
    let mut world = two_telephones(digest_config());
    let answer = declined(&mut world, "carol", "absent");
    assert!(answer.starts_with("SIP/2.0 480 Not Registered"), "{answer}");
    let answer = declined(&mut world, "nobody", "unknown");
    assert!(answer.starts_with("SIP/2.0 404 "), "{answer}");
    // Who asks for another domain is not asked who he is.
    let relay = world.invite(BOB, "bob", "relay");
    let relay = relay.replacen("bob@example.com", "bob@example.net", 1);
    world.send(BOB, &relay);
    world.read_status(BOB, "403");
    world.pass(1000);

    let found = records(&world);
    let told = found.iter().map(|row| {
        let caller = row.caller.as_deref().unwrap_or("");
        (&*row.call_id, &*row.outcome, row.status, &*row.end, caller)
    });
    let alice = "sip:alice@example.com";
    assert!(
        told.eq([
            ("relay", "refused", 403, "rejected", ""),
            ("unknown", "unavailable", 404, "rejected", alice),
            ("absent", "unavailable", 480, "rejected", alice),
        ]),
        "{found:#?}"
    );
    let absent = &found[2];
    assert_eq!(
        (&*absent.from, &*absent.to),
        (alice, "sip:carol@example.com")
    );
    assert_eq!(
        absent.caller_flow.as_ref(),
        "udp/192.0.2.1:5060-192.0.2.7:5060"
    );
    assert_eq!(world.stats().calls.outcomes.unavailable, 2);
    let of_carol = CallRecordQuery {
        user: Some("carol".to_owned()),
        ..CallRecordQuery::first(10)
    };
    assert_eq!(world.server.call_records(&of_carol).unwrap().len(), 1);
}

#[test]
fn whoever_is_refused_often_takes_few_records() {
    let mut world = two_telephones(digest_config());
    for number in 0..20 {
        let invite = world.invite(BOB, "bob", &format!("relay-{number}"));
        world.send(
            BOB,
            &invite.replacen("bob@example.com", "bob@example.net", 1),
        );
        world.read_status(BOB, "403");
    }
    world.pass(1000);
    assert_eq!(records(&world).len(), 5, "half of ten a minute");
    assert_eq!(world.stats().calls.records.refused_left_out, 15);
    world.pass(60_000);
    let invite = world.invite(BOB, "bob", "later");
    world.send(
        BOB,
        &invite.replacen("bob@example.com", "bob@example.net", 1),
    );
    world.pass(1000);
    assert_eq!(records(&world).len(), 6);
}
