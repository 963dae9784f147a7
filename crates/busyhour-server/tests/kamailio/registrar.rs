//! A real Kamailio behind the server, where addresses of record are registered.

use crate::{
    kamailio::{Kamailio, free_address},
    support::{Place, ServerProcess, ports::free_port, wait_until},
    telephone::Telephone,
};
use std::net::SocketAddr;

fn configuration(address: SocketAddr) -> String {
    let password = ["alice", "bob", "mallory"]
        .map(|user| format!("[[account]]\nuser = \"{user}\"\npassword = \"secret\"\n"))
        .concat();
    format!(
        "[sip]\ndomains = \"example.com\"\nmin_expires_seconds = 60\n{password}\
         [[peer]]\nname = \"pbx\"\naddresses = [\"{address}\"]\nmay_call = true\nprefixes = [\"0\"]\n\
         [[registrar]]\nname = \"pbx\"\naddress = \"{address}\"\n"
    )
}

fn registrar(place: &Place, address: SocketAddr) -> Kamailio {
    let text = include_str!("configurations/registrar.cfg").replace("%HERE%", &address.to_string());
    Kamailio::run(place, address, &text)
}

/// Whether a call by way of Kamailio arrives at bob.
pub fn is_known(world: &Telephone, bob: &Telephone, call_id: &str) -> bool {
    let uri = "sip:bob@example.com";
    world.send(&world.request("INVITE", uri, "sip:world@world.example", call_id, ""));
    // The answer to an earlier call comes until it is acknowledged.
    let own = format!("Call-ID: {call_id}@world\r\n");
    let hear = |begin: &str| loop {
        let answer = world.hear(begin);
        if answer.contains(&own) {
            return answer;
        }
    };
    let answer = hear("SIP/2.0 ");
    if answer.starts_with("SIP/2.0 404 ") {
        return false;
    }
    let invite = bob.hear("INVITE ");
    bob.answer(&invite, "486 Busy Here");
    hear("SIP/2.0 486 ");
    true
}

fn stat(server: &ServerProcess, name: &str) -> u64 {
    server.stat(&format!("/upstream/{name}"))
}

/// Forty refreshes of a telephone are one registration at Kamailio, and calls by way of it arrive.
#[test]
fn refreshes_end_here_and_one_registration_goes_on() {
    let place = Place::new();
    let address = free_address();
    let _kamailio = registrar(&place, address);
    let server = place.server(&configuration(address));
    let bob = Telephone::new("bob", server.sip);
    for number in 0..40 {
        let id = format!("register{number}");
        let answer = bob.ask("REGISTER", "sip:example.com", &id, "Expires: 60\r\n");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    server.wait_for("/upstream/answered", |count| count == 2);
    let (sent, challenged) = (stat(&server, "sent"), stat(&server, "challenged"));
    assert_eq!(
        (sent, challenged),
        (1, 1),
        "a request, and once more with credentials"
    );
    assert_eq!(server.stat("/registrar/accepted"), 40);
    let world = Telephone::new("world", address);
    assert!(is_known(&world, &bob, "one"));

    // Kamailio is told the end as well.
    let answer = bob.ask("REGISTER", "sip:example.com", "end", "Expires: 0\r\n");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    server.wait_for("/upstream/told_count", |count| count == 0);
    assert!(!is_known(&world, &bob, "two"));
    assert!(server.stop().success());
}

/// RFC 3327: Kamailio calls by the Path of the registration. RFC 3608: what the telephone sends there goes by the
/// Service-Route that Kamailio has answered with, also after a restart here.
#[test]
fn calls_take_the_path_of_the_registration_and_the_route_of_its_answer() {
    let place = Place::new();
    let address = free_address();
    let _kamailio = registrar(&place, address);
    let ours = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = place.server_at(ours, &configuration(address));
    let bob = Telephone::new("bob", ours);
    let home = format!("SIP/2.0 480 By <sip:{address};lr;way=home>\r\n");
    bob.register();
    server.wait_for("/upstream/answered", |count| count == 2);
    let world = Telephone::new("world", address);
    let uri = "sip:bob@example.com";
    world.send(&world.request("INVITE", uri, "sip:world@world.example", "path", ""));
    let invite = bob.hear("INVITE ");
    let way = format!("X-Way: sip:{ours};lr\r\n");
    assert!(invite.contains(&way), "{invite}");
    assert!(!invite.contains("\r\nRoute:"), "it is our own: {invite}");
    bob.answer(&invite, "486 Busy Here");

    let answer = bob.ask("INVITE", "sip:0123@example.com", "route", "");
    assert!(answer.starts_with(&home), "{answer}");
    // Who is not registered there has none.
    let alice = Telephone::new("alice", ours);
    let answer = alice.ask("INVITE", "sip:0123@example.com", "none", "");
    assert!(answer.starts_with("SIP/2.0 480 By"), "{answer}");
    assert!(!answer.contains("way=home"), "{answer}");

    server.kill();
    let server = place.server_at(ours, &configuration(address));
    server.wait_for("/upstream/told_count", |count| count == 1);
    let answer = bob.ask("INVITE", "sip:0123@example.com", "again", "");
    assert!(answer.starts_with(&home), "{answer}");
    assert_eq!(stat(&server, "sent"), 0, "it has not been told anew");
}

#[test]
fn what_kamailio_was_told_survives_a_kill_and_its_refusal_reaches_the_telephone() {
    let place = Place::new();
    let address = free_address();
    let kamailio = registrar(&place, address);
    let ours = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = place.server_at(ours, &configuration(address));
    let bob = Telephone::new("bob", server.sip);
    bob.register();
    server.wait_for("/upstream/answered", |count| count == 2);
    server.kill();
    let server = place.server_at(ours, &configuration(address));
    server.wait_for("/upstream/told_count", |count| count == 1);
    assert_eq!(
        stat(&server, "sent"),
        0,
        "it is not told again before it is time"
    );
    let world = Telephone::new("world", address);
    assert!(is_known(&world, &bob, "there"));
    let answer = bob.ask("REGISTER", "sip:example.com", "end", "Expires: 0\r\n");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    server.wait_for("/upstream/told_count", |count| count == 0);
    assert!(!is_known(&world, &bob, "gone"));

    // Who is refused there is told so with the next refresh.
    let mallory = Telephone::new("mallory", server.sip);
    mallory.register();
    server.wait_for("/upstream/failing_count", |count| count == 1);
    let answer = mallory.ask("REGISTER", "sip:example.com", "again", "Expires: 600\r\n");
    assert!(
        answer.starts_with("SIP/2.0 403 Refused By The Registrar Behind\r\n"),
        "{answer}"
    );

    // It is away: telephones stay registered, and it is told when it is back.
    drop(kamailio);
    let answer = bob.ask("REGISTER", "sip:example.com", "anew", "Expires: 600\r\n");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    server.wait_for("/upstream/retransmitted", |count| count > 0);
    let _kamailio = registrar(&place, address);
    wait_until(
        || {
            is_known(
                &world,
                &bob,
                &format!("back{}", stat(&server, "retransmitted")),
            )
        },
        || server.log(),
    );
    assert!(server.stop().success());
}

/// Its users are in memory only: after a restart it knows nobody. A query notices it.
#[test]
fn kamailio_that_has_forgotten_is_told_again() {
    let place = Place::new();
    let address = free_address();
    let kamailio = registrar(&place, address);
    let server = place.server(&configuration(address));
    let bob = Telephone::new("bob", server.sip);
    bob.register();
    server.wait_for("/upstream/answered", |count| count == 2);
    drop(kamailio);
    let _kamailio = registrar(&place, address);
    let world = Telephone::new("world", address);
    assert!(!is_known(&world, &bob, "forgotten"));
    server.wait_for("/upstream/forgot", |count| count == 1);
    wait_until(
        || is_known(&world, &bob, &format!("again{}", stat(&server, "answered"))),
        || server.log(),
    );
    let listed = server.get("/api/registrars");
    assert!(listed.contains("\"state\":\"up\""), "{listed}");
    assert!(server.stop().success());
}
