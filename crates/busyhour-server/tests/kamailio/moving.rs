//! A site moves from a real Kamailio to this server at the same address: telephones need not register again.

use crate::{
    kamailio::{Kamailio, free_address},
    phone::{OPEN, Phone},
    support::{Place, busyhour, wait_until},
};
use std::process::Output;

#[test]
fn contacts_of_kamailio_are_called_here_at_the_same_address() {
    let place = Place::new();
    let database = place.path("kamailio.sqlite");
    let connection = rusqlite::Connection::open(&database).unwrap();
    for table in ["standard", "auth_db", "usrloc"] {
        let schema = format!("/usr/share/kamailio/db_sqlite/{table}-create.sql");
        let schema = std::fs::read_to_string(schema).unwrap();
        connection.execute_batch(&schema).unwrap();
    }
    let address = free_address();
    let text = include_str!("configurations/moving.cfg")
        .replace("%HERE%", &address.to_string())
        .replace("%DATABASE%", &format!("sqlite://{}", database.display()));
    let kamailio = Kamailio::run(&place, address, &text);
    // Nobody listens at the URI of his contact: he is behind a NAT.
    let [bob, world] = [(); 2].map(|()| Phone::at("127.0.0.1:0"));
    let register = bob
        .register("bob")
        .replace(&format!("bob@{}", bob.address()), "bob@10.0.0.2:5060");
    let (answer, _) = bob.ask(&register, address);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let is_written = || {
        let count = connection.query_row("SELECT count(*) FROM location", [], |row| row.get(0));
        count == Ok(1)
    };
    wait_until(is_written, || kamailio.log());
    drop(kamailio);

    let open = format!("{OPEN}verify_seconds = 1\n");
    let import = |more: &[&str]| {
        let mut command = busyhour();
        command.args(["device", "import", "--create", "--json", "--contacts"]);
        command.args(more).arg(&database);
        command
            .arg("--config")
            .arg(place.file("busyhour.toml", &open));
        command.arg("--store-path").arg(place.path("busyhour.db"));
        command.output().unwrap()
    };
    assert_eq!(contacts(&import(&["--dry-run"])), [1, 0]);
    assert_eq!(contacts(&import(&[])), [1, 0]);
    assert_eq!(contacts(&import(&[])), [0, 1], "it is there");

    let server = place.server_at(address, &open);
    let running = import(&[]);
    assert!(!running.status.success(), "a server has the database");
    // It is asked, and believed when it has answered.
    let (options, _) = bob.hear("OPTIONS ");
    assert!(
        options.starts_with("OPTIONS sip:bob@10.0.0.2:5060 "),
        "{options}"
    );
    bob.send(&answer_to(&options), address);
    // On a slow machine the answer may come after a second, in which he is asked anew.
    let is_verified = || {
        while let Some(again) = waiting_at(&bob) {
            bob.send(&answer_to(&again), address);
        }
        server.stat("/registrar/verified") == 1
    };
    wait_until(is_verified, || server.log());
    let uri = "sip:bob@example.com";
    let invite = world.request("INVITE", uri, "bob", "Max-Forwards: 70\r\n");
    world.send(&invite, address);
    let (arrived, _) = bob.hear("INVITE ");
    assert!(
        arrived.starts_with("INVITE sip:bob@10.0.0.2:5060 "),
        "{arrived}"
    );
}

/// How many contacts were taken, and how many were there.
fn contacts(output: &Output) -> [u64; 2] {
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    let report: serde_json::Value = serde_json::from_str(line).unwrap();
    ["taken", "unchanged"].map(|name| report["contacts"][name].as_u64().unwrap())
}

/// The message that has come to a telephone, if one has.
fn waiting_at(phone: &Phone) -> Option<String> {
    let mut room = vec![0; 65_536];
    phone.socket.set_nonblocking(true).unwrap();
    let heard = phone.socket.recv(&mut room);
    phone.socket.set_nonblocking(false).unwrap();
    room.truncate(heard.ok()?);
    Some(String::from_utf8(room).unwrap())
}

fn answer_to(request: &str) -> String {
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let lines = head
        .split("\r\n")
        .filter(|line| kept.iter().any(|name| line.starts_with(name)));
    let lines: Vec<&str> = lines.collect();
    format!(
        "SIP/2.0 200 OK\r\n{}\r\nContent-Length: 0\r\n\r\n",
        lines.join("\r\n")
    )
}
