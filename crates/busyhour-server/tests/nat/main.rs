//! A real telephone behind a real address translation: baresip in a network namespace, behind
//! another one where nftables translates addresses and forgets a flow after four seconds of silence.

#[path = "../support/mod.rs"]
mod support;

mod internet;
mod media;
mod telephone;
#[path = "../telephones/tone.rs"]
mod tone;

use internet::Internet;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;
use support::{Place, ServerProcess, busyhour, wait_until};
use telephone::Telephone;

#[test]
fn probes_keep_the_translation_open_so_that_calls_come_through() {
    let internet = Internet::new();
    let site = Site::new(&internet, "nat_probe_seconds = 2\n");
    let mut alice = Telephone::start(&internet.inside(), "10.0.0.2", "alice", "");
    let first = site.contact("alice");
    assert!(
        first["contact"].as_str().unwrap().contains("@10.0.0.2:"),
        "{first}"
    );
    assert!(
        first["source"]
            .as_str()
            .unwrap()
            .starts_with("198.51.100.2:"),
        "{first}"
    );
    // Three times as long as the translation remembers a silent flow.
    std::thread::sleep(FORGETS * 3);
    assert_eq!(
        site.contact("alice"),
        first,
        "it did not have to register again"
    );
    let mut bob = Telephone::start(
        &internet.outside(),
        "198.51.100.1",
        "bob",
        "/dial sip:alice@example.com",
    );
    // It rings, or is answered already.
    wait_until(
        || {
            bob.assert_lives();
            ["early", "confirmed"].contains(&&*site.call_state())
        },
        || format!("{:?}: {}", site.call_state(), alice.output()),
    );
    // Without its power it is noticed within its interval and three questions.
    alice.kill();
    site.wait_for_reach("alice", "unreachable");
}

/// Nobody answers a keep-alive: what the server sends is enough for this translation.
#[test]
fn keep_alives_alone_keep_the_translation_open() {
    let internet = Internet::new();
    let nobody_is_asked = "nat_probe_seconds = 0\nverify_seconds = 0\n";
    let site = Site::new(
        &internet,
        &format!("{nobody_is_asked}nat_keep_alive_seconds = 2\n"),
    );
    let mut alice = Telephone::start(&internet.inside(), "10.0.0.2", "alice", "");
    let first = site.contact("alice");
    std::thread::sleep(FORGETS * 3);
    assert_eq!(site.contact("alice"), first, "it has not registered again");
    let mut bob = Telephone::start(
        &internet.outside(),
        "198.51.100.1",
        "bob",
        "/dial sip:alice@example.com",
    );
    wait_until(
        || {
            bob.assert_lives();
            ["early", "confirmed"].contains(&&*site.call_state())
        },
        || format!("{:?}: {}", site.call_state(), alice.output()),
    );
    alice.assert_lives();
}

#[test]
fn without_probes_the_translation_forgets_the_telephone_and_no_call_comes_through() {
    let internet = Internet::new();
    let site = Site::new(&internet, "nat_probe_seconds = 0\nverify_seconds = 0\n");
    let mut alice = Telephone::start(&internet.inside(), "10.0.0.2", "alice", "");
    assert_eq!(site.contact("alice")["reach"], "reachable");
    std::thread::sleep(FORGETS * 2);
    let mut bob = Telephone::start(
        &internet.outside(),
        "198.51.100.1",
        "bob",
        "/dial sip:alice@example.com",
    );
    bob.wait_for("SIP/2.0 100 ");
    std::thread::sleep(FORGETS);
    alice.assert_lives();
    assert!(
        !alice.output().contains("INVITE sip:"),
        "{}",
        alice.output()
    );
    assert_eq!(site.call_state(), "trying", "nobody has answered");
}

#[test]
fn after_a_restart_a_telephone_is_believed_when_it_has_answered_and_not_before() {
    let internet = Internet::new();
    let mut site = Site::new(&internet, "nat_probe_seconds = 0\nverify_seconds = 2\n");
    let _alice = Telephone::start(&internet.inside(), "10.0.0.2", "alice", "");
    // At once, so that the translation still knows the telephone.
    site.restart("nat_probe_seconds = 0\nverify_seconds = 2\n");
    site.wait_for_reach("alice", "reachable");
    // Nobody is asked: so it is not believed.
    site.restart("nat_probe_seconds = 0\nverify_seconds = 0\n");
    assert_eq!(site.contact("alice")["reach"], "unverified");
    // The translation has forgotten it meanwhile.
    std::thread::sleep(FORGETS * 2);
    site.restart("nat_probe_seconds = 0\nverify_seconds = 2\n");
    site.wait_for_reach("alice", "unreachable");
}

/// A server on the outside, which is asked over its local socket.
struct Site<'i> {
    internet: &'i Internet,
    place: Place,
    server: ServerProcess,
}

impl<'i> Site<'i> {
    fn new(internet: &'i Internet, sip: &str) -> Self {
        let place = Place::new();
        let server = serve(internet, &place, sip);
        Self {
            internet,
            place,
            server,
        }
    }

    /// Kills the server, and starts it again with other settings.
    fn restart(&mut self, sip: &str) {
        self.server.signal(Signal::SIGKILL);
        self.server.wait();
        self.server = serve(self.internet, &self.place, sip);
    }

    /// The only contact of a user.
    fn contact(&self, user: &str) -> Value {
        let mut listed = self.show(&["device", user]);
        let mut contact = listed[0].take();
        // It is another one each second.
        contact
            .as_object_mut()
            .unwrap()
            .remove("expires_in_seconds");
        contact
    }

    fn wait_for_reach(&self, user: &str, reach: &str) {
        wait_until(
            || self.contact(user)["reach"] == reach,
            || format!("not {reach}: {}\n{}", self.contact(user), self.server.log()),
        );
    }

    /// How far the only call is; empty without one.
    fn call_state(&self) -> String {
        let calls = self.show(&["calls"]);
        calls[0]["state"].as_str().unwrap_or_default().to_owned()
    }

    fn show(&self, what: &[&str]) -> Value {
        let mut command = busyhour();
        self.place.keep_sockets_here(&mut command);
        command
            .arg("show")
            .args(what)
            .args(["--json", "--limit", "0"]);
        let told = command.output().expect("the program runs");
        let errors = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{errors}");
        serde_json::from_slice(&told.stdout).expect("JSON")
    }
}

fn serve(internet: &Internet, place: &Place, sip: &str) -> ServerProcess {
    let text = format!("[sip]\nauth = \"open\"\ndomains = [\"example.com\"]\n{sip}");
    let mut program = busyhour();
    program.args(["serve", "--sip-listen", "198.51.100.1:5060"]);
    program.args([
        "--iax2-listen",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
    ]);
    program.arg("--store-path").arg(place.path("busyhour.db"));
    program
        .arg("--config")
        .arg(place.file("busyhour.toml", &text));
    place.keep_sockets_here(&mut program);
    ServerProcess::start(&mut internet.outside().run(&program), place)
}

/// How long the translation remembers a silent flow.
const FORGETS: Duration = Duration::from_secs(4);
