//! A command removes an account beside the running server, or while none runs: the
//! account's bindings, publications and subscriptions end. Another one removes only what is
//! registered.

use crate::{
    phone::Phone,
    support::{Place, ServerProcess, busyhour, ports::free_port, wait_until},
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Write},
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
    server.wait_for_log(
        "reason=\"its account was removed or disabled\" aor=\"sip:alice@example.com\"",
    );
    // It has also ended after a restart.
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
    // The rows are removed as well, so that a later account of the same name starts
    // without them.
    wait_until(
        || server.stat("/store/ended_len") == 0,
        || server.stats().to_string(),
    );
    server.kill();
    device(&place, &["add", "alice"], "secret\n");
    let server = serve(&place, address);
    assert_eq!(server.stat("/registrar/binding_count"), 0);
}

/// The server cannot know whether a user without an account ever had one.
#[test]
fn an_open_registration_ends_when_the_server_has_accounts_without_this_user() {
    let (place, address) = place();
    let mut open = command(&place, address);
    let server = ServerProcess::start(open.args(["--sip-auth", "open"]), &place);
    let carol = Phone::at("127.0.0.11:0");
    let (answer, _) = carol.ask(&carol.register("carol"), address);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    server.kill();
    let server = serve(&place, address);
    server.wait_for_log(
        "reason=\"there is no account for it, or it is disabled\" aor=\"sip:carol@example.com\"",
    );
    assert!(!server.log().contains("was removed"), "{}", server.log());
    assert_eq!(server.stat("/registrar/revoked"), 1);
}

/// With another realm, no account of the store would count, and all their
/// registrations would end.
#[test]
fn a_realm_without_accounts_ends_no_registration() {
    let (place, address) = place();
    let server = serve(&place, address);
    let (alice, bob) = (Phone::at("127.0.0.9:0"), Phone::at("127.0.0.10:0"));
    take_all(&alice, &bob, address);
    server.kill();
    let mut misspelt = command(&place, address);
    misspelt.args(["--sip-realm", "busyhuor"]);
    let piped = misspelt.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("a program");
    // It ends, or reports that it is ready; then the test has to end it.
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("text");
    child.kill().expect("the process is a child of the test");
    let output = child
        .wait_with_output()
        .expect("the process is a child of the test");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*line), (Some(1), ""), "{said}");
    let expected = "sip.realm is `busyhuor`, but the store has accounts only for `busyhour`";
    assert!(said.contains(expected), "{said}");
    let server = serve(&place, address);
    assert_eq!(server.stat("/registrar/binding_count"), 1);
    assert_eq!(server.stat("/watch/watcher_count"), 2);
    server.kill();
    // If the realm has an account, the others were removed on purpose.
    device(&place, &["add", "carol", "--sip-realm", "new"], "secret\n");
    let server = ServerProcess::start(
        command(&place, address).args(["--sip-realm", "new"]),
        &place,
    );
    wait_until(
        || server.stat("/registrar/binding_count") == 0,
        || server.stats().to_string(),
    );
}

#[test]
fn a_registration_that_an_operator_ends_is_over_until_the_device_comes_again() {
    let (place, address) = place();
    let server = serve(&place, address);
    let (alice, bob) = (Phone::at("127.0.0.9:0"), Phone::at("127.0.0.10:0"));
    take_all(&alice, &bob, address);
    let shown: Value = serde_json::from_str(&server.get("/api/bindings/alice")).expect("JSON");
    assert_eq!(shown["bindings"][0]["aor"], "sip:alice@example.com");
    assert_eq!(shown["bindings"][0]["transport"], "udp");
    let done = unregister(&place, &["alice"]);
    assert!(done.is_ok_and(|done| done.starts_with("alice: 1 contact removed in the server at ")));
    bob.hear_all(&["NOTIFY ", "<basic>closed</basic>"]);
    server.wait_for_log("reason=\"an operator removed it\" aor=\"sip:alice@example.com\"");
    assert_eq!(server.stat("/registrar/removed"), 1);
    assert_eq!(server.stat("/registrar/binding_count"), 0);
    let again = unregister(&place, &["sip:alice@EXAMPLE.com"]).unwrap_err();
    assert!(
        again.contains("nothing is registered as sip:alice@example.com"),
        "{again}"
    );
    let odd = unregister(&place, &["alice@example.org"]).unwrap_err();
    assert!(
        odd.contains("`alice@example.org` is no address of record"),
        "{odd}"
    );
    // A late duplicate of the registration does not bring the contact back, even after a
    // restart.
    server.kill();
    let server = serve(&place, address);
    alice.prove(&alice.register("alice"), "alice", address);
    assert_eq!(server.stat("/registrar/binding_count"), 0);
    let next = alice.register("alice").replace("CSeq: 1 ", "CSeq: 2 ");
    let next = next.replace("branch=z9hG4bK", "branch=z9hG4bKnext");
    alice.prove(&next, "alice", address);
    bob.hear_all(&["NOTIFY ", "<basic>open</basic>"]);
    assert_eq!(server.stat("/registrar/binding_count"), 1);
}

#[test]
fn an_operator_ends_one_of_two_contacts() {
    let (place, address) = place();
    let server = serve(&place, address);
    let alice = Phone::at("127.0.0.9:0");
    let both = "Contact: <sip:desk@192.0.2.1>;q=0.5, <sip:car@192.0.2.2;ob>\r\nPath: <sip:e@192.0.2.3;lr>\r\n";
    let both = format!("{both}Supported: path\r\n");
    let register = alice.request("REGISTER", "sip:example.com", "alice", &both);
    alice.prove(&register, "alice", address);
    let other = unregister(&place, &["alice", "--contact", "sip:desk@192.0.2.9"]).unwrap_err();
    assert!(
        other.contains("sip:alice@example.com has no contact sip:desk@192.0.2.9"),
        "{other}"
    );
    let done = unregister(&place, &["alice", "--contact", "sip:car@192.0.2.2;OB"]);
    assert!(done.is_ok_and(|done| done.starts_with("alice: 1 contact removed in the server at ")));
    let page: Value =
        serde_json::from_str(&server.get("/api/bindings/alice@example.com")).expect("JSON");
    let left = page["bindings"].as_array().expect("a list");
    assert_eq!(left.len(), 1, "{page}");
    assert_eq!(left[0]["contact"], "sip:desk@192.0.2.1");
    assert_eq!(left[0]["q_milli"], 500);
    assert_eq!(left[0]["path"], "<sip:e@192.0.2.3;lr>");
}

/// What `busyhour device unregister …` says, or why it fails.
fn unregister(place: &Place, words: &[&str]) -> Result<String, String> {
    let mut command: Command = busyhour();
    command.args(["device", "unregister"]).args(words);
    place.keep_sockets_here(&mut command);
    let output = command.output().expect("a program");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

/// A place with the accounts of alice and bob in its database, and an address
/// for the server.
fn place() -> (Place, SocketAddr) {
    let place = Place::new();
    device(&place, &["add", "alice", "--create"], "secret\n");
    device(&place, &["add", "bob"], "secret\n");
    (place, SocketAddr::from(([127, 0, 0, 1], free_port())))
}

fn serve(place: &Place, address: SocketAddr) -> ServerProcess {
    ServerProcess::start(&mut command(place, address), place)
}

fn command(place: &Place, address: SocketAddr) -> Command {
    let mut command = busyhour();
    place.keep_sockets_here(&mut command);
    let (address, any) = (address.to_string(), "127.0.0.1:0");
    command.args(["serve", "--sip-listen", &address, "--sip-tcp", any]);
    command.args(["--iax2-listen", any, "--http-listen", any]);
    command
        .arg("--store-path")
        .arg(place.path("busyhour.db"))
        .arg("--config")
        .arg(place.file("busyhour.toml", "[sip]\ndomains = \"example.com\"\n"));
    command
}

/// Registers alice; both phones watch her.
fn take_all(alice: &Phone, bob: &Phone, server: SocketAddr) {
    alice.prove(&alice.register("alice"), "alice", server);
    for (phone, user) in [(bob, "bob"), (alice, "alice")] {
        phone.prove(&phone.subscribe("alice"), user, server);
        phone.hear_all(&["NOTIFY ", "<basic>open</basic>"]);
    }
}

impl Phone {
    /// Sends a request, and again with the password; the answer must be 200.
    fn prove(&self, request: &str, user: &str, server: SocketAddr) {
        let (challenge, _) = self.ask(request, server);
        let (answer, _) = self.ask(&self.proven(request, &challenge, user), server);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// The next message that contains all of these words; answers it with 200.
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

/// Runs `busyhour device …` with the store of a place.
fn device(place: &Place, words: &[&str], input: &str) {
    let mut command: Command = busyhour();
    command.arg("device").args(words);
    command.arg("--store-path").arg(place.path("busyhour.db"));
    let mut child = command.stdin(Stdio::piped()).spawn().expect("a program");
    let mut stdin = child.stdin.take().expect("piped");
    // A command that asks for nothing does not read its input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    assert!(
        child
            .wait()
            .expect("the process is a child of the test")
            .success(),
        "{words:?}"
    );
}
