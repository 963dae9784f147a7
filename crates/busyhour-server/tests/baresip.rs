//! A real telephone, Debian's baresip, without a screen: it registers with
//! digest, subscribes to its mailbox and to another's presence, publishes its
//! own, and is told what changes.

mod support;

use std::{
    fs::File,
    process::{Child, Command, Stdio},
};
use support::{Place, ServerProcess};

/// The token is `secret`.
const CONFIGURATION: &str = "
[[token]]
name = \"test\"
scope = \"write\"
sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"
[sip]
algorithms = [\"MD5\"]
domains = [\"example.com\"]

[[account]]
user = \"alice\"
password = \"something\"

[[account]]
user = \"bob\"
password = \"else\"
";

/// A telephone that runs until it is dropped.
struct Telephone {
    child: Child,
    place: Place,
}

impl Telephone {
    /// One of alice's, who has bob among her contacts.
    fn start(server: &ServerProcess) -> Self {
        let place = Place::new();
        place.file("config", CONFIG);
        place.file(
            "accounts",
            &format!(
                "<sip:alice@example.com;transport=udp>;auth_user=alice;auth_pass=something;\
                 outbound=\"sip:{};transport=udp\";regint=600;pubint=600;mwi=yes\n",
                server.sip
            ),
        );
        place.file("contacts", "\"Bob\" <sip:bob@example.com>;presence=p2p\n");
        let output = File::create(place.path("output")).expect("a writable temporary folder");
        // Line by line, so that what it prints is there to be read.
        let child = Command::new("stdbuf")
            .args(["-oL", "baresip", "-f"])
            .arg(place.path("."))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("another handle"))
            .stderr(output)
            .spawn();
        let child = child.expect("stdbuf, which coreutils has");
        Self { child, place }
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.place.path("output")).unwrap_or_default()
    }

    /// Waits until it has printed `words`; fails when it ends first.
    fn wait_for(&mut self, words: &str) {
        while !self.output().contains(words) {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                panic!(
                    "baresip, which scripts/install-deps.sh test installs, ended: {status}\n{}",
                    self.output()
                );
            }
            // Only to leave the processor to those who are waited for.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Telephone {
    fn drop(&mut self) {
        // Gone already is as good as ended here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_telephone_registers_and_is_told_of_its_messages() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    put(
        &server,
        "/api/mailboxes/alice",
        r#"{"voice":{"new":2,"old":8}}"#,
    );
    let mut telephone = Telephone::start(&server);
    telephone.wait_for("Voice-Message: 2/8 (0/0)");
    assert!(telephone.output().contains("Messages-Waiting: yes"));
    assert_eq!(server.stat("/registrar/binding_count"), 1);
    put(&server, "/api/mailboxes/alice", r#"{"voice":{"old":10}}"#);
    telephone.wait_for("Voice-Message: 0/10 (0/0)");
    assert!(telephone.output().contains("Messages-Waiting: no"));
}

#[test]
fn a_telephone_publishes_and_watches() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let _telephone = Telephone::start(&server);
    server.wait_for("/publish/publication_count", |count| count == 1);
    server.wait_for("/watch/watcher_count", |count| count == 2);
    server.wait_for("/watch/confirmed", |count| count >= 2);
    assert_eq!(server.stat("/publish/rejected"), 0);
    assert_eq!(server.stat("/watch/rejected"), 0);
}

fn put(server: &ServerProcess, path: &str, body: &str) {
    let request = ureq::put(format!("http://{}{path}", server.http));
    let response = request.header("authorization", "Bearer secret").send(body);
    response.expect("an answer that is no refusal");
}

/// Only what a telephone without sound needs.
const CONFIG: &str = "\
poll_method epoll
sip_listen 127.0.0.1:0
net_interface 127.0.0.1
audio_source none
audio_player none
module_path /usr/lib/baresip/modules
module g711.so
module_app account.so
module_app contact.so
module_app menu.so
module_app mwi.so
module_app presence.so
";
