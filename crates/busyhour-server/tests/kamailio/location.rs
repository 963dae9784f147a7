//! A real Kamailio that finds contacts by the view `location` of our database.

use crate::{
    kamailio::{Kamailio, free_address},
    phone::{OPEN, Phone},
    support::{Place, ServerProcess, busyhour, postgres::Postgres, wait_until},
};
use rusqlite::Connection;
use std::net::SocketAddr;

#[test]
fn kamailio_routes_calls_by_the_view_of_an_sqlite_database() {
    let place = Place::new();
    let server = place.server(&format!("{OPEN}[store]\nlocation_view = \"on\"\n"));
    let path = place.path("busyhour.db");
    let database = format!("sqlite://{}", path.display());
    // The database is about a second behind what was acknowledged.
    let followed = |wanted: u32| {
        let rows = Connection::open(&path).unwrap();
        let count = || rows.query_row("SELECT count(*) FROM location", [], |row| row.get(0));
        wait_until(|| count() == Ok(wanted), || server.log());
    };
    calls_follow_registrations(&place, &server, ("db_sqlite", &database), followed);
}

#[test]
fn kamailio_routes_calls_by_the_view_of_a_postgresql_database() {
    let (place, postgres) = (Place::new(), Postgres::start_on_tcp());
    postgres.database("calls");
    let url = postgres.tcp_url("calls");
    let store = format!("[store]\nlocation_view = \"on\"\nurl = \"{url}\"\n");
    let server = place.server(&format!("{OPEN}{store}"));
    calls_follow_registrations(&place, &server, ("db_postgres", &url), |_| ());
}

fn calls_follow_registrations(
    place: &Place,
    server: &ServerProcess,
    (driver, database): (&str, &str),
    followed: impl Fn(u32),
) {
    let address = free_address();
    let text = include_str!("configurations/location.cfg")
        .replace("%HERE%", &address.to_string())
        .replace("%DRIVER%", driver)
        .replace("%DATABASE%", database);
    let kamailio = Kamailio::run(place, address, &text);
    let [alice, bob, world] = [(); 3].map(|()| Phone::at("127.0.0.1:0"));
    assert_eq!(call(&world, "bob", "before", address), "404");
    // Her row comes first, and has what his has not; she is behind a proxy of the test.
    let proxy = Phone::at("127.0.0.1:0");
    let contact = "Contact: <sip:alice@192.0.2.1;ob>;+sip.instance=\"<urn:uuid:1>\";reg-id=7;q=0.5";
    let path = format!(
        "Path: <sip:{};lr>\r\nSupported: path, outbound",
        proxy.address()
    );
    let register = alice.request(
        "REGISTER",
        "sip:example.com",
        "alice",
        &format!("{contact}\r\n{path}\r\n"),
    );
    accept(&alice, &register, server.sip);
    // Nobody listens at the URI of his contact: he is behind a NAT.
    let register = bob
        .register("bob")
        .replace(&format!("bob@{}", bob.address()), "bob@192.0.2.2:9");
    accept(&bob, &register, server.sip);
    followed(2);
    world.send(&invite(&world, "bob", "there"), address);
    let (arrived, _) = bob.hear("INVITE ");
    assert!(
        arrived.starts_with("INVITE sip:bob@192.0.2.2:9 "),
        "{arrived}\n{}",
        kamailio.log()
    );
    world.send(&invite(&world, "alice", "there"), address);
    let (arrived, _) = proxy.hear("INVITE ");
    assert!(
        arrived.starts_with("INVITE sip:alice@192.0.2.1;ob "),
        "{arrived}\n{}",
        kamailio.log()
    );
    assert!(
        arrived.contains(&format!("Route: <sip:{};lr>", proxy.address())),
        "{arrived}"
    );
    let mut unregister = busyhour();
    unregister.args(["device", "unregister", "bob@example.com"]);
    place.keep_sockets_here(&mut unregister);
    assert!(unregister.status().expect("a program").success());
    followed(1);
    wait_until(
        || call(&world, "bob", "after", address) == "404",
        || kamailio.log(),
    );
    let log = kamailio.log();
    assert!(!log.contains("ERROR"), "{log}");
}

fn invite(world: &Phone, user: &str, call: &str) -> String {
    let uri = format!("sip:{user}@example.com");
    let request = world.request("INVITE", &uri, user, "Max-Forwards: 70\r\n");
    request.replace("branch=z9hG4bK", &format!("branch=z9hG4bK{call}"))
}

/// The status of a call that is refused.
fn call(world: &Phone, user: &str, call: &str, kamailio: SocketAddr) -> String {
    world.send(&invite(world, user, call), kamailio);
    loop {
        let (answer, _) = world.hear("SIP/2.0 ");
        match answer.split(' ').nth(1) {
            Some("404") => return "404".into(),
            // Of the calls before.
            _ => continue,
        }
    }
}

fn accept(phone: &Phone, register: &str, server: SocketAddr) {
    let (answer, _) = phone.ask(register, server);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}
