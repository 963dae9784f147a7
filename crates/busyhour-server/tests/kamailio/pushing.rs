//! Telephones that sleep (RFC 8599), with a real Kamailio between them and the server, or behind it as their
//! registrar.

use crate::{
    ACCOUNTS,
    http_receiver::{Answer, HttpReceiver, Received},
    kamailio::{Kamailio, free_address},
    support::{Place, ServerProcess, wait_until},
    telephone::Telephone,
};
use serde_json::{Value, json};
use std::{net::SocketAddr, thread, time::Duration};

const PN: &str = ";pn-provider=acme;pn-param=p;pn-prid=b0b";
/// So long after a registration the telephone is no longer believed to be awake.
const UNTIL_ASLEEP: Duration = Duration::from_millis(2_100);

/// What the waking service was asked.
fn asked(service: &HttpReceiver) -> Vec<Value> {
    let received = service.received();
    let read = |request: &Received| serde_json::from_slice(&request.body).expect("JSON");
    received.iter().map(read).collect()
}

fn waking_service() -> HttpReceiver {
    HttpReceiver::start(|_| Answer::Now(200, String::new()))
}

fn configuration(service: &HttpReceiver, peer: SocketAddr) -> String {
    format!(
        "{ACCOUNTS}[[peer]]\nname = \"kamailio\"\naddresses = [\"{}\"]\nmay_call = true\n\
         [[push]]\nprovider = \"acme\"\nservice = \"webhook\"\nurl = \"{}\"\nawake_seconds = 2\n",
        // From whatever port, since its connections have others.
        peer.ip(),
        service.url("/wake")
    )
}

/// Bob registers and sleeps; the world calls him; the service is asked; nobody rings meanwhile.
fn call_a_sleeper(
    server: &ServerProcess,
    service: &HttpReceiver,
    bob: &Telephone,
    world: &Telephone,
    kamailio: &Kamailio,
) {
    bob.register();
    thread::sleep(UNTIL_ASLEEP);
    let uri = "sip:bob@example.com";
    world.send(&world.request("INVITE", uri, "sip:world@world.example", "wake", ""));
    world.hear("SIP/2.0 100 ");
    wait_until(
        || !service.received().is_empty(),
        || format!("{}\n{}", server.log(), kamailio.log()),
    );
    let wanted = json!({
        "type": "call", "aor": "sip:bob@example.com", "call_id": "wake@world",
        "provider": "acme", "prid": "b0b", "param": "p",
    });
    let request = asked(service).remove(0);
    for (key, value) in wanted.as_object().expect("an object") {
        assert_eq!(&request[key], value, "{key} of {request}");
    }
    server.wait_for("/push/waiting_count", |count| count == 1);
}

/// The INVITE that the woken telephone hears is answered, and the call ends.
fn is_called(server: &ServerProcess, bob: &Telephone, world: &Telephone) {
    let invite = bob.hear("INVITE ");
    bob.answer(&invite, "180 Ringing");
    world.hear("SIP/2.0 180 ");
    bob.answer(&invite, "200 OK");
    let answer = world.final_answer();
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    world.send_within("ACK", 1, &answer);
    bob.hear("ACK ");
    bob.send_within("BYE", 1, &invite);
    let bye = world.hear("BYE ");
    world.answer(&bye, "200 OK");
    let ended = bob.final_answer();
    assert!(ended.starts_with("SIP/2.0 200 "), "{ended}");
    server.wait_for("/calls/dialogs/call_count", |count| count == 0);
    assert_eq!(server.stat("/push/woken"), 1);
    assert_eq!(server.stat("/push/waiting_count"), 0);
}

/// Kamailio stands between all telephones and the server, and speaks to it so.
fn kamailio_in_front(transport: &str) {
    let (place, service, address) = (Place::new(), waking_service(), free_address());
    let server = place.server(&configuration(&service, address));
    let at = if transport == "tcp" {
        server.tcp
    } else {
        server.sip
    };
    let text = include_str!("configurations/edge.cfg")
        .replace("%HERE%", &address.to_string())
        .replace("%BUSYHOUR%", &format!("{at};transport={transport}"));
    let kamailio = Kamailio::run(&place, address, &text);
    let [bob, bob_later] = [(); 2].map(|()| Telephone::with("bob", address, PN));
    let world = Telephone::new("world", address);
    call_a_sleeper(&server, &service, &bob, &world, &kamailio);
    // Its system has woken it, and it has another address now.
    bob_later.register();
    is_called(&server, &bob_later, &world);
    let listed = server.get("/api/bindings/bob@example.com");
    assert!(
        listed.contains(&format!("sip:{address}")),
        "by a Path: {listed}"
    );
    assert!(server.stop().success());
}

#[test]
fn behind_kamailio_a_telephone_is_woken_and_called_where_it_registers_then() {
    kamailio_in_front("udp");
}

/// The connection is Kamailio's, which says nothing of the telephones behind it.
#[test]
fn behind_kamailio_over_tcp_a_telephone_sleeps_though_the_connection_stands() {
    kamailio_in_front("tcp");
}

/// Kamailio has the registrations, calls by what it was told, and is not told anew of one that wakes.
#[test]
fn before_kamailio_a_telephone_is_woken_for_the_calls_that_come_from_there() {
    let (place, service, address) = (Place::new(), waking_service(), free_address());
    let text = include_str!("configurations/registrar.cfg").replace("%HERE%", &address.to_string());
    let kamailio = Kamailio::run(&place, address, &text);
    let registrar = format!("[[registrar]]\nname = \"pbx\"\naddress = \"{address}\"\n");
    let server = place.server(&format!("{}{registrar}", configuration(&service, address)));
    let [bob, bob_later] = [(); 2].map(|()| Telephone::with("bob", server.sip, PN));
    let world = Telephone::new("world", address);
    call_a_sleeper(&server, &service, &bob, &world, &kamailio);
    bob_later.register();
    is_called(&server, &bob_later, &world);
    // Once, and once more with credentials: its registration from elsewhere ended here.
    assert_eq!(server.stat("/upstream/sent"), 1);
    assert!(server.stop().success());
}

/// Nobody wakes: Kamailio, and the caller through it, get a clear answer.
#[test]
fn behind_kamailio_the_caller_of_one_who_is_gone_is_told_so() {
    let service = HttpReceiver::start(|_| Answer::Now(410, String::new()));
    let (place, address) = (Place::new(), free_address());
    let server = place.server(&configuration(&service, address));
    let text = include_str!("configurations/edge.cfg")
        .replace("%HERE%", &address.to_string())
        .replace("%BUSYHOUR%", &server.sip.to_string());
    let _kamailio = Kamailio::run(&place, address, &text);
    let bob = Telephone::with("bob", address, PN);
    let world = Telephone::new("world", address);
    bob.register();
    thread::sleep(UNTIL_ASLEEP);
    let uri = "sip:bob@example.com";
    world.send(&world.request("INVITE", uri, "sip:world@world.example", "gone", ""));
    let answer = world.final_answer();
    assert!(
        answer.starts_with("SIP/2.0 480 Device Is Gone\r\n"),
        "{answer}"
    );
    server.wait_for("/registrar/binding_count", |count| count == 0);
    assert!(server.stop().success());
}
