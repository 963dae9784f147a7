//! Calls between telephones that register here, from received to sent datagrams, in
//! virtual time.

#[path = "../support/exchange.rs"]
mod exchange;
#[path = "../support/log_lines.rs"]
mod log_lines;
mod dialogs;
mod failover;
mod guards;
mod lamps;
mod lookups;
mod peers;
mod records;
mod room;
#[path = "../webhooks/scripted.rs"]
mod scripted;
mod sessions;
mod shedding;
mod spans;
mod world;
mod reader;
mod changes;

use busyhour_server::server::{CallConfig, ServerConfig};
use exchange::digest_config;
use std::time::Duration;
use world::{
    ALICE, BOB, BOB_ABROAD, BOB_AT_HOME, CAROL, Phone, World, ack_of_refusal, cancel, header,
    respond, within,
};

/// Alice calls bob, who answers; returns the 200 as alice received it.
fn established(world: &mut World, call_id: &str) -> String {
    world.call(ALICE, "bob", call_id);
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    let ack = within(world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &ack);
    world.read_request(BOB, "ACK");
    answer
}

#[test]
fn a_telephone_calls_another_and_the_lamps_follow() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world.watch(CAROL, "bob");

    world.call(ALICE, "bob", "call-1");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    assert!(
        invite.starts_with("INVITE sip:bob@192.0.2.8:5060 SIP/2.0\r\n"),
        "{invite}"
    );
    assert!(!invite.contains("Proxy-Authorization"), "{invite}");
    assert_eq!(header(&invite, "Max-Forwards"), "69");

    world.send(BOB, &respond(BOB, &invite, "180 Ringing"));
    world.read_status(ALICE, "180");
    assert_eq!(world.lamp(CAROL), "early");
    world.send(BOB, &respond(BOB, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    assert_eq!(world.lamp(CAROL), "confirmed");
    let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &ack);
    world.read_request(BOB, "ACK");

    // Bob hangs up.
    let bye = within(&mut world, BOB, "BYE", 1, &answer, false);
    world.send(BOB, &bye);
    let bye = world.read_request(ALICE, "BYE");
    assert!(!bye.contains("\r\nRoute:"), "{bye}");
    assert_eq!(world.lamp(CAROL), "");
    world.send(ALICE, &respond(ALICE, &bye, "200 OK"));
    world.read_status(BOB, "200");
    world.pass(40_000);
    let calls = world.stats().calls;
    assert_eq!(
        (calls.proxy.transaction_count, calls.dialogs.call_count),
        (0, 0)
    );
    assert_eq!(calls.dialogs.answered, 1);
}

#[test]
fn the_telephone_that_does_not_answer_stops_ringing() {
    let mut world = World::new();
    for phone in [ALICE, BOB, BOB_AT_HOME] {
        world.register(phone);
    }
    world.watch(CAROL, "bob");
    world.call(ALICE, "bob", "fork");
    let (desk, home) = (
        world.read_request(BOB, "INVITE"),
        world.read_request(BOB_AT_HOME, "INVITE"),
    );
    world.send(BOB, &respond(BOB, &desk, "180 Ringing"));
    world.send(BOB_AT_HOME, &respond(BOB_AT_HOME, &home, "180 Ringing"));
    assert_eq!(world.lamp(CAROL), "early early");
    world.send(BOB_AT_HOME, &respond(BOB_AT_HOME, &home, "200 OK"));
    let cancel = world.read_request(BOB, "CANCEL");
    assert_eq!(
        header(&cancel, "Reason"),
        "SIP;cause=200;text=\"Call completed elsewhere\""
    );
    world.send(BOB, &respond(BOB, &cancel, "200 OK"));
    world.send(BOB, &respond(BOB, &desk, "487 Request Terminated"));
    let calls = world.stats().calls;
    assert_eq!(calls.charged_bytes, calls.proxy.held_bytes);
    world.read_request(BOB, "ACK");
    assert_eq!(world.lamp(CAROL), "confirmed");
}

#[test]
fn a_caller_that_gives_up_frees_the_called() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world.watch(CAROL, "bob");
    let sent = world.call(ALICE, "bob", "given-up");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "180 Ringing"));
    world.read_status(ALICE, "180");
    world.send(ALICE, &cancel(&sent));
    world.read_status(ALICE, "200");
    let cancel = world.read_request(BOB, "CANCEL");
    world.send_at_once(
        BOB,
        &[
            respond(BOB, &cancel, "200 OK"),
            respond(BOB, &invite, "487 Request Terminated"),
        ],
    );
    world.read_request(BOB, "ACK");
    let refusal = world.read_status(ALICE, "487");
    world.send(ALICE, &ack_of_refusal(&sent, &refusal));
    assert_eq!(world.lamp(CAROL), "");
}

#[test]
fn who_is_not_there_is_not_called() {
    let mut world = World::new();
    world.register(ALICE);
    for (user, status) in [("bob", "480 Not Registered"), ("nobody", "404 Not Found")] {
        world.call(ALICE, user, user);
        world.read_status(ALICE, status);
    }
    let elsewhere = world
        .invite(ALICE, "bob", "elsewhere")
        .replace("bob@example.com", "bob@example.org");
    world.send(ALICE, &elsewhere);
    world.read_status(ALICE, "403 Domain Not Served Here");
}

#[test]
fn nobody_calls_in_the_name_of_another() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let invite = world
        .invite(ALICE, "bob", "forged")
        .replace("From: <sip:alice@", "From: <sip:carol@");
    world.send(ALICE, &invite);
    let challenge = world.read_status(ALICE, "407");
    let proven = world.proven(ALICE, &invite, &challenge);
    world.send(ALICE, &proven);
    world.read_status(ALICE, "403 Not Your Address");
    assert_eq!(world.try_read(BOB), None);
}

#[test]
fn a_request_within_a_dialog_needs_a_route_that_we_gave() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let answer = established(&mut world, "call-2");
    let bye = within(&mut world, ALICE, "BYE", 3, &answer, true);
    let forged = bye.replace("call-2", "call-3");
    world.send(ALICE, &forged);
    world.read_status(ALICE, "481");
    assert_eq!(world.try_read(BOB), None);
    world.send(ALICE, &bye);
    world.read_request(BOB, "BYE");
}

/// Each side knows the server by another address, as with two networks or with UDP and TLS.
#[test]
fn a_call_passes_between_two_addresses_of_the_server() {
    let mut world = World::new();
    for phone in [ALICE, BOB_ABROAD] {
        world.register(phone);
    }
    world.call(ALICE, "bob", "call-5");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB_ABROAD, "INVITE");
    world.send(BOB_ABROAD, &respond(BOB_ABROAD, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    // Each on its own line, since belle-sip repeats values of a list.
    for address in ["192.0.2.1:5060", "198.51.100.1:5060"] {
        let end = format!("@{address};lr>");
        let is_route = |line: &str| line.starts_with("Record-Route: ") && line.ends_with(&end);
        assert!(answer.lines().any(is_route), "{answer}");
    }
    let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &ack);
    world.read_request(BOB_ABROAD, "ACK");
    let bye = within(&mut world, BOB_ABROAD, "BYE", 1, &answer, false);
    world.send(BOB_ABROAD, &bye);
    let bye = world.read_request(ALICE, "BYE");
    assert!(!bye.contains("\r\nRoute:"), "{bye}");
    world.send(ALICE, &respond(ALICE, &bye, "200 OK"));
    world.read_status(BOB_ABROAD, "200");
}

#[test]
fn a_call_outlives_a_restart() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let answer = established(&mut world, "call-4");
    world.pass(1000);
    world.restart();
    let bye = within(&mut world, BOB, "BYE", 1, &answer, false);
    world.send(BOB, &bye);
    let bye = world.read_request(ALICE, "BYE");
    world.send(ALICE, &respond(ALICE, &bye, "200 OK"));
    world.read_status(BOB, "200");
}

/// Carol takes the calls that bob does not.
fn with_voicemail() -> World {
    let mut world = World::with(ServerConfig {
        calls: CallConfig {
            voicemail: Some("carol".into()),
            ring_time: Duration::from_secs(10),
            ..CallConfig::default()
        },
        ..digest_config()
    });
    for phone in [ALICE, CAROL] {
        world.register(phone);
    }
    world
}

#[track_caller]
fn goes_to_voicemail(world: &mut World, cause: u16) {
    let invite = world.read_request(CAROL, "INVITE");
    let uri = format!(
        "INVITE sip:carol@192.0.2.9:5060;target=sip:bob%40example.com;cause={cause} SIP/2.0\r\n"
    );
    assert!(invite.starts_with(&uri), "{invite}");
    world.send(CAROL, &respond(CAROL, &invite, "200 OK"));
    world.read_status(ALICE, "200");
}

#[test]
fn the_voicemail_takes_the_call_of_a_telephone_that_is_not_there() {
    let mut world = with_voicemail();
    world.call(ALICE, "bob", "not-there");
    world.read_status(ALICE, "100");
    goes_to_voicemail(&mut world, 404);
    world.call(ALICE, "nobody", "nobody");
    world.read_status(ALICE, "404");
}

#[test]
fn the_voicemail_takes_the_call_of_a_busy_telephone() {
    let mut world = with_voicemail();
    world.register(BOB);
    world.call(ALICE, "bob", "busy");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "486 Busy Here"));
    world.read_request(BOB, "ACK");
    goes_to_voicemail(&mut world, 486);
}

#[test]
fn the_voicemail_takes_the_call_that_nobody_answers() {
    let mut world = with_voicemail();
    world.register(BOB);
    world.call(ALICE, "bob", "unanswered");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "180 Ringing"));
    world.read_status(ALICE, "180");
    // The ring time, and the slack of the timer.
    world.pass(10_100);
    let cancel = world.read_request(BOB, "CANCEL");
    world.send(BOB, &respond(BOB, &cancel, "200 OK"));
    world.send(BOB, &respond(BOB, &invite, "487 Request Terminated"));
    world.read_request(BOB, "ACK");
    goes_to_voicemail(&mut world, 408);
}

/// The headers of a Contact's URI are not part of a Request-URI.
#[test]
fn a_voicemail_with_headers_in_its_contact_is_told_the_cause() {
    let mut world = with_voicemail();
    let to = "<sip:carol@example.com>";
    let contact = "Contact: <sip:carol@192.0.2.9:5060?Subject=voicemail>\r\n";
    let register = world.request(CAROL, "REGISTER", "sip:example.com", to, "again", contact);
    let answer = world.ask(CAROL, &register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    world.call(ALICE, "bob", "not-there");
    world.read_status(ALICE, "100");
    let mut invites = 0;
    while let Some(invite) = world.try_read(CAROL) {
        assert!(invite.contains(";cause=404 SIP/2.0"), "{invite}");
        assert!(!invite.contains("?Subject"), "{invite}");
        invites += 1;
    }
    assert!(invites > 0, "the voicemail is not called");
}

/// Carol knows the names of the dialog, which watchers are told, and calls bob with them, so
/// that she has tokens for the same names.
#[test]
fn nobody_gets_tokens_for_the_dialog_of_another() {
    let mut world = World::new();
    for phone in [ALICE, BOB, CAROL] {
        world.register(phone);
    }
    let answer = established(&mut world, "victim");
    for tag in ["carol", "alice"] {
        let with_tag = |text: &str| text.replace("tag=carol", &format!("tag={tag}"));
        let invite = with_tag(&world.invite(CAROL, "bob", "victim"));
        world.send(CAROL, &invite);
        let challenge = world.read_status(CAROL, "407");
        let proven = world
            .proven(CAROL, &invite, &challenge)
            .replace("CSeq: 2", "CSeq: 7");
        world.send(CAROL, &proven);
        world.read_status(CAROL, "100");
        let invite = world.read_request(BOB, "INVITE");
        let ringing = respond(BOB, &invite, "180 Ringing");
        world.send(BOB, &ringing);
        let ringing = world.read_status(CAROL, "180");
        // The routes of her own call, and the names of alice's.
        let routes_of = |text: &str| {
            let lines = text.split_inclusive("\r\n");
            lines
                .filter(|line| line.starts_with("Record-Route: "))
                .collect::<String>()
        };
        let mut stolen = answer.clone();
        stolen = stolen.replace(&routes_of(&answer), &routes_of(&ringing));
        let bye = within(&mut world, CAROL, "BYE", 9, &stolen, true);
        world.send(CAROL, &bye);
        world.read_status(CAROL, "481");
        assert_eq!(world.try_read(BOB), None, "{tag}");
    }
    let bye = within(&mut world, ALICE, "BYE", 3, &answer, true);
    world.send(ALICE, &bye);
    world.read_request(BOB, "BYE");
}

#[test]
fn nobody_calls_as_somebody_elsewhere() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let invite = world.invite(ALICE, "bob", "elsewhere");
    let elsewhere = invite.replace(
        "From: <sip:alice@example.com>",
        "From: <sip:ceo@example.org>",
    );
    world.send(ALICE, &elsewhere);
    world.read_status(ALICE, "403 Not Your Address");
    assert_eq!(world.try_read(BOB), None);
}

/// A gateway that trusts the server must not be called because somebody registers its
/// address.
#[test]
fn a_contact_at_another_address_is_called_where_it_registered() {
    let mut world = World::new();
    world.register(ALICE);
    let request = world.request(
        BOB,
        "REGISTER",
        "sip:example.com",
        "<sip:bob@example.com>",
        "elsewhere",
        "Contact: <sip:+1900@192.0.2.99>\r\n",
    );
    let answer = world.ask(BOB, &request);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    world.call(ALICE, "bob", "to-a-gateway");
    world.read_status(ALICE, "100");
    let invite = world.read_request(BOB, "INVITE");
    assert!(
        invite.starts_with("INVITE sip:+1900@192.0.2.99 "),
        "{invite}"
    );
}

/// RFC 5627 §5.1: the user is there, but not with this instance.
#[test]
fn an_instance_that_is_not_registered_is_not_called() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let invite = world.invite(ALICE, "bob", "instance").replace(
        "INVITE sip:bob@example.com",
        "INVITE sip:bob@example.com;gr=urn:uuid:1",
    );
    world.send(ALICE, &invite);
    let challenge = world.read_status(ALICE, "407");
    let proven = world.proven(ALICE, &invite, &challenge);
    world.send(ALICE, &proven);
    world.read_status(ALICE, "480 This Instance Is Not Registered");
}

/// A device behind two edge proxies: each flow has its own Contact and Path (RFC 5626 §4.2).
#[test]
fn the_second_flow_of_a_device_has_its_own_path() {
    let mut world = World::new();
    world.register(ALICE);
    for (number, edge) in [(1, BOB), (2, BOB_AT_HOME)] {
        let contact = format!(
            "Contact: <sip:bob@10.0.0.{number}>;reg-id={number};\
             +sip.instance=\"<urn:uuid:0c67446e-f1a1-11d9-94d3-000a95a0e128>\"\r\n\
             Supported: path, outbound\r\nPath: <sip:edge{number}.example.net;lr;ob>\r\n"
        );
        let request = world.request(
            edge,
            "REGISTER",
            "sip:example.com",
            "<sip:bob@example.com>",
            &format!("edge-{number}"),
            &contact,
        );
        let via = "Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKphone\r\nMax-Forwards";
        let request = request.replace("Max-Forwards", via);
        let answer = world.ask(edge, &request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    world.call(ALICE, "bob", "two-ways");
    world.read_status(ALICE, "100");
    let ways = [BOB, BOB_AT_HOME];
    let (first, edge) = ways
        .into_iter()
        .find_map(|edge| Some((world.try_read(edge)?, edge)))
        .expect("an INVITE");
    let number = if edge.address == BOB.address { 1 } else { 2 };
    let check = |invite: &str, number: u32| {
        let start = format!("INVITE sip:bob@10.0.0.{number} SIP/2.0\r\n");
        assert!(invite.starts_with(&start), "{invite}");
        let path = format!("<sip:edge{number}.example.net;lr;ob>");
        assert_eq!(header(invite, "Route"), path);
    };
    check(&first, number);
    world.send(edge, &respond(edge, &first, "503 Service Unavailable"));
    world.read_request(edge, "ACK");
    let other = ways[2 - number as usize];
    let second = world.read_request(other, "INVITE");
    check(&second, 3 - number);
}

/// Its refusal is kept until the ACK comes, and somebody must be charged for it.
#[test]
fn what_a_call_keeps_after_its_refusal_is_charged() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let sent = world.call(ALICE, "bob", "charged");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "486 Busy Here"));
    world.read_request(BOB, "ACK");
    world.read_status(ALICE, "100");
    let refusal = world.read_status(ALICE, "486");
    assert!(world.stats().calls.charged_bytes >= refusal.len() as u64);
    world.send(ALICE, &ack_of_refusal(&sent, &refusal));
    world.pass(40_000);
    assert_eq!(world.stats().calls.charged_bytes, 0);
}

/// Who hides behind an anonymous From counts as the account that proved itself.
#[test]
fn calls_count_for_the_account_that_proved_itself() {
    let mut config = digest_config();
    config.limits.calls_max = 640;
    let mut world = World::with(config);
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    // Each is on its own address, so that only the account is the same.
    for number in 0..40 {
        let address: &'static str = format!("198.51.{number}.7:5060").leak();
        let phone = Phone { address, ..ALICE };
        let invite = world.invite(phone, "bob", "one-shard").replace(
            "From: <sip:alice@example.com>;tag=alice",
            &anonymous(number),
        );
        world.send(phone, &invite);
        let challenge = world.read_status(phone, "407");
        let proven = world.proven(phone, &invite, &challenge);
        world.send(phone, &proven);
    }
    assert!(world.stats().calls.dialogs.untracked_account > 0);
}

fn anonymous(number: u32) -> String {
    format!("From: \"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=a{number}")
}

/// A network may ask the server something.
#[test]
fn a_probe_is_sent_under_no_lock() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    established(&mut world, "quiet");
    world.look_at_calls_when_sending();
    world.pass(16 * 60_000);
    world.read_request(BOB, "OPTIONS");
}

/// Its other side learned the new Contact by a re-INVITE, and then the route's token still
/// names the old flow.
#[test]
fn a_telephone_that_moves_in_a_call_is_reached_where_it_registered_since() {
    let mut world = World::new();
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let answer = established(&mut world, "moved");
    let moved = Phone {
        address: "198.51.100.8:5060",
        ..BOB
    };
    world.register(moved);
    let bye = within(&mut world, ALICE, "BYE", 3, &answer, true);
    let bye = bye.replacen("bob@192.0.2.8:5060", "bob@198.51.100.8:5060", 1);
    world.send(ALICE, &bye);
    world.read_request(moved, "BYE");
    assert_eq!(world.try_read(BOB), None);
}
