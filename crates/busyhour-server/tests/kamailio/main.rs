//! A real Kamailio beside the server: in front of it, behind it, and as the publisher of the
//! calls that it carries.

#[path = "../wire/phone.rs"]
#[allow(dead_code, reason = "only its socket is used here")]
mod phone;
#[path = "../support/http_receiver.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod http_receiver;
#[path = "../support/mod.rs"]
mod support;

#[path = "../support/authority.rs"]
mod authority;
mod connected_registrar;
mod connections;
mod dnsmasq;
mod kamailio;
mod location;
mod moving;
mod names;
mod pushing;
mod registrar;
mod telephone;

use kamailio::{Kamailio, free_address};
use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    thread,
    time::Duration,
};
use support::{Place, ServerProcess, ports::free_port};
use telephone::Telephone;

const ACCOUNTS: &str = "[sip]\ndomains = \"example.com\"\n\
    [[account]]\nuser = \"alice\"\npassword = \"secret\"\n\
    [[account]]\nuser = \"bob\"\npassword = \"secret\"\n\
    [[account]]\nuser = \"carol\"\npassword = \"secret\"\n";

/// What Kamailio publishes before it has read the answer to its last PUBLISH is another publication, and the first one then
/// stays until its time is over. Nobody is told when it has read it.
const READS_ANSWERS: Duration = Duration::from_millis(500);

/// A server and a Kamailio that it trusts, whose own users are at `own`.
fn start(place: &Place, own: SocketAddr) -> (ServerProcess, Kamailio) {
    let address = free_address();
    let peer = format!(
        "[[peer]]\nname = \"kamailio\"\naddresses = [\"{address}\"]\nmay_call = true\n\
         may_publish = true\nprefixes = [\"9\"]\nprobe_seconds = 10\n"
    );
    let server = place.server(&format!("{ACCOUNTS}{peer}"));
    let kamailio = Kamailio::start(place, address, server.sip, own);
    (server, kamailio)
}

fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 31], free_port()))
}

/// Kamailio passes a call of the world on to bob, who registered here, and publishes it too:
/// that is one dialog, and one lamp.
#[test]
fn kamailio_in_front_passes_calls_on_to_our_users() {
    let place = Place::new();
    let (server, kamailio) = start(&place, nobody());
    let (bob, carol) = (
        Telephone::new("bob", server.sip),
        Telephone::new("carol", server.sip),
    );
    bob.register();
    carol.watch("bob");
    let world = Telephone::new("+4930", kamailio.address);
    let asserted = "P-Asserted-Identity: <tel:+4930123>\r\n";
    world.send(&world.request(
        "INVITE",
        "sip:bob@example.com",
        "sip:+4930@world.example",
        "in",
        asserted,
    ));
    let invite = bob.hear("INVITE ");
    assert!(
        invite.contains("P-Asserted-Identity: <tel:+4930123>"),
        "{invite}"
    );
    bob.answer(&invite, "180 Ringing");
    world.hear("SIP/2.0 180");
    carol.lamps_until(&[""], "early");
    bob.answer(&invite, "200 OK");
    let answer = world.final_answer();
    world.send_within("ACK", 1, &answer);
    bob.hear("ACK ");
    carol.lamps_until(&["early"], "confirmed");
    bob.send_within("BYE", 1, &invite);
    let bye = world.hear("BYE ");
    world.answer(&bye, "200 OK");
    let ended = bob.final_answer();
    assert!(ended.starts_with("SIP/2.0 200 "), "{ended}");
    carol.lamps_until(&["confirmed"], "");
    assert_eq!(server.stat("/peers/calls_from"), 1);
    server.wait_for("/calls/dialogs/call_count", |count| count == 0);
}

/// Calls to numbers that begin with 9 go to Kamailio, which has sipp behind it.
#[test]
fn kamailio_behind_takes_calls_by_prefix() {
    let place = Place::new();
    let own = nobody();
    let mut callee = Command::new("sipp")
        .arg("-sf")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/kamailio/answer.xml"
        ))
        .args(["-m", "1", "-nostdin", "-timeout", "60s", "-timeout_error"])
        .args(["-i", &own.ip().to_string(), "-p", &own.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("sipp: run scripts/install-deps.sh test");
    let (server, kamailio) = start(&place, own);
    server.wait_for("/peers/probes_answered", |count| count > 0);
    let listed = server.get("/api/peers");
    assert!(listed.contains("\"state\":\"up\""), "{listed}");
    let alice = Telephone::new("alice", server.sip);
    alice.register();
    let answer = alice.ask("INVITE", "sip:9001@example.com", "out", "");
    assert!(
        answer.starts_with("SIP/2.0 200 "),
        "{answer}\n{}",
        kamailio.log()
    );
    alice.send_within("ACK", 2, &answer);
    // Kamailio has several processes, so a BYE at once might come before the ACK, which sipp takes for an error.
    thread::sleep(Duration::from_millis(500));
    alice.send_within("BYE", 3, &answer);
    let ended = alice.final_answer();
    assert!(ended.starts_with("SIP/2.0 200 "), "{ended}");
    assert!(
        callee.wait().expect("a child").success(),
        "{}",
        kamailio.log()
    );
    assert_eq!(server.stat("/peers/calls_to"), 1);
    server.wait_for("/calls/dialogs/call_count", |count| count == 0);
}

/// A call that only Kamailio carries: alice's and bob's lamps follow what it publishes.
#[test]
fn kamailio_publishes_the_calls_that_it_carries() {
    let place = Place::new();
    // A user of Kamailio's own, who sends nothing outside of a dialog.
    let own = Telephone::new("bob", nobody());
    let (server, kamailio) = start(&place, own.address());
    let carol = Telephone::new("carol", server.sip);
    carol.watch("bob");
    let alice = Telephone::new("alice", kamailio.address);
    let invite = alice.request(
        "INVITE",
        "sip:bob@example.com",
        "sip:alice@example.com",
        "own",
        "X-Own: 1\r\n",
    );
    alice.send(&invite);
    let invite = own.hear("INVITE ");
    own.answer(&invite, "180 Ringing");
    alice.hear("SIP/2.0 180");
    carol.lamps_until(&["", "trying"], "early");
    thread::sleep(READS_ANSWERS);
    own.answer(&invite, "200 OK");
    let answer = alice.final_answer();
    alice.send_within("ACK", 1, &answer);
    own.hear("ACK ");
    carol.lamps_until(&["early"], "confirmed");
    thread::sleep(READS_ANSWERS);
    own.send_within("BYE", 1, &invite);
    let bye = alice.hear("BYE ");
    alice.answer(&bye, "200 OK");
    carol.lamps_until(&["confirmed"], "");
    assert_eq!(server.stat("/peers/calls_from"), 0);
    // For both sides: early, confirmed, terminated.
    server.wait_for("/peers/publications", |count| count >= 6);
    assert_eq!(server.stat("/publish/rejected"), 0, "{}", kamailio.log());
}
