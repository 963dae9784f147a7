//! An account that a command removes beside the server, or while there is none, takes
//! along what it has.

use crate::{
    phone::Phone,
    support::{Place, ServerProcess, busyhour, sipp::free_port, wait_until},
};
use std::{
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
};

#[test]
fn a_device_that_is_removed_beside_the_server_loses_what_it_has() {
    let (place, address) = place();
    let server = serve(&place, address);
    let (alice, bob) = (Phone::at("127.0.0.9:0"), Phone::at("127.0.0.10:0"));
    take_all(&alice, &bob, address);
    device(&place, &["remove", "alice"], "");
    alice.hear_all(&["NOTIFY ", "terminated;reason=rejected\r\n"]);
    bob.hear_all(&["NOTIFY ", "<basic>closed</basic>"]);
    assert!(!server.get("/api/bindings").contains("alice"));
    assert_eq!(server.stat("/registrar/revoked"), 1);
    server.wait_for_log("reason=\"its account was removed\" aor=\"sip:alice@example.com\"");
    // It is over after a restart, too.
    server.kill();
    let server = serve(&place, address);
    assert_eq!(server.stat("/registrar/binding_count"), 0);
}

#[test]
fn a_device_that_is_removed_after_a_kill_has_nothing_when_the_server_is_back() {
    let (place, address) = place();
    let server = serve(&place, address);
    let (alice, bob) = (Phone::at("127.0.0.9:0"), Phone::at("127.0.0.10:0"));
    take_all(&alice, &bob, address);
    server.kill();
    device(&place, &["remove", "alice"], "");
    let server = serve(&place, address);
    alice.hear_all(&["NOTIFY ", "terminated;reason=rejected\r\n"]);
    bob.hear_all(&["NOTIFY ", "<basic>closed</basic>"]);
    assert_eq!(server.stat("/registrar/binding_count"), 0);
    // The rows go as well, so that an account of the same name has a new beginning.
    wait_until(
        || server.stat("/store/ended_len") == 0,
        || server.stats().to_string(),
    );
    server.kill();
    device(&place, &["add", "alice"], "secret\n");
    let server = serve(&place, address);
    assert_eq!(server.stat("/registrar/binding_count"), 0);
}

/// A place with alice and bob in its database, and an address to serve at.
fn place() -> (Place, SocketAddr) {
    let place = Place::new();
    device(&place, &["add", "alice", "--create"], "secret\n");
    device(&place, &["add", "bob"], "secret\n");
    (place, SocketAddr::from(([127, 0, 0, 1], free_port())))
}

fn serve(place: &Place, address: SocketAddr) -> ServerProcess {
    let mut command = busyhour();
    let (address, any) = (address.to_string(), "127.0.0.1:0");
    command.args(["serve", "--sip-listen", &address, "--sip-tcp", any]);
    command.args(["--iax2-listen", any, "--http-listen", any]);
    command
        .arg("--store-path")
        .arg(place.path("busyhour.db"))
        .arg("--config")
        .arg(place.file("busyhour.toml", "[sip]\ndomains = \"example.com\"\n"));
    ServerProcess::start(&mut command, place)
}

/// Alice registers, and both watch her.
fn take_all(alice: &Phone, bob: &Phone, server: SocketAddr) {
    alice.prove(&alice.register("alice"), "alice", server);
    for (phone, user) in [(bob, "bob"), (alice, "alice")] {
        phone.prove(&phone.subscribe("alice"), user, server);
        phone.hear_all(&["NOTIFY ", "<basic>open</basic>"]);
    }
}

impl Phone {
    /// Sends a request and again with the password; the answer is 200.
    fn prove(&self, request: &str, user: &str, server: SocketAddr) {
        let (challenge, _) = self.ask(request, server);
        let (answer, _) = self.ask(&self.proven(request, &challenge, user), server);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// The next message that has all of these words, answered with 200.
    fn hear_all(&self, words: &[&str]) {
        loop {
            let (message, from) = self.hear(words[0]);
            let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
            let is_kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
            let lines: Vec<_> = message.lines().filter(is_kept).collect();
            let head = lines.join("\r\n");
            self.send(
                &format!("SIP/2.0 200 OK\r\n{head}\r\nContent-Length: 0\r\n\r\n"),
                from,
            );
            if words.iter().all(|word| message.contains(word)) {
                return;
            }
        }
    }
}

/// `busyhour device …` on the store of a place.
fn device(place: &Place, words: &[&str], input: &str) {
    let mut command: Command = busyhour();
    command.arg("device").args(words);
    command.arg("--store-path").arg(place.path("busyhour.db"));
    let mut child = command.stdin(Stdio::piped()).spawn().expect("a program");
    let mut stdin = child.stdin.take().expect("piped");
    // A command that asks for nothing reads nothing.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    assert!(
        child.wait().expect("a child of ours").success(),
        "{words:?}"
    );
}
