//! A real telephone without a screen: Debian's baresip. It registers with digest,
//! subscribes to its mailbox and to another user's presence, publishes its own
//! presence, and receives NOTIFYs.

mod support;

use std::{
    fs::File,
    process::{Child, Command, Stdio},
};
use support::{Place, ServerProcess, wait_until};

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
    /// How often its output has been read.
    looks: u32,
}

impl Telephone {
    /// Starts alice's telephone, which subscribes to her messages and has bob
    /// among its contacts.
    fn alice(server: &ServerProcess, options: &str) -> Self {
        let contacts = "\"Bob\" <sip:bob@example.com>;presence=p2p\n";
        Self::start(server, "alice", "something", options, contacts)
    }

    /// Starts bob's telephone, which has no contacts.
    fn bob(server: &ServerProcess) -> Self {
        Self::start(server, "bob", "else", ";mwi=no", "")
    }

    /// Starts a telephone and waits until it has registered. baresip sometimes starts
    /// without sending anything, or repeats its own subscribe command without end;
    /// then it is started again.
    fn start(
        server: &ServerProcess,
        user: &str,
        password: &str,
        options: &str,
        contacts: &str,
    ) -> Self {
        let place = Place::new();
        place.file("config", CONFIG);
        place.file(
            "accounts",
            &format!(
                "<sip:{user}@example.com;transport=udp>;auth_user={user};auth_pass={password};\
                 outbound=\"sip:{};transport=udp\";regint=600;pubint=600{options}\n",
                server.sip
            ),
        );
        place.file("contacts", contacts);
        let mut telephone = Self::run(place);
        wait_until(
            || {
                telephone.awaken();
                telephone.output().contains("200 OK")
            },
            || format!("{user} does not register"),
        );
        telephone
    }

    fn run(place: Place) -> Self {
        let child = begin(&place);
        let looks = 0;
        Self {
            child,
            place,
            looks,
        }
    }

    fn run_again(&mut self) {
        self.end();
        self.child = begin(&self.place);
    }

    fn end(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.place.path("output")).unwrap_or_default()
    }

    /// Waits until the telephone has printed a line with all of `words`; fails if it
    /// ends first.
    fn wait_for(&mut self, words: &[&str]) {
        let path = self.place.path("output");
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        let is_printed = || {
            self.output().lines().any(has_all) || {
                self.awaken();
                false
            }
        };
        let output = || std::fs::read_to_string(path).unwrap_or_default();
        wait_until(is_printed, || format!("no {words:?} in:\n{}", output()));
    }

    /// Starts the telephone again if it repeats itself or has printed nothing for
    /// long, since it does nothing useful any more.
    fn awaken(&mut self) {
        self.assert_lives();
        self.looks += 1;
        let is_in_a_circle = self.output().matches("mwi: subscribing").count() > SUBSCRIBING_MAX;
        if is_in_a_circle || self.looks.is_multiple_of(LOOKS_MAX) {
            self.run_again();
        }
    }

    /// Fails if the telephone has ended.
    fn assert_lives(&mut self) {
        let output = self.output();
        assert_lives(&mut self.child, &output);
    }
}

fn assert_lives(child: &mut Child, output: &str) {
    if let Some(status) = child
        .try_wait()
        .expect("the process is a child of the test")
    {
        panic!("baresip, which scripts/install-deps.sh test installs, ended: {status}\n{output}");
    }
}

impl Drop for Telephone {
    fn drop(&mut self) {
        self.end();
    }
}

fn begin(place: &Place) -> Child {
    let output = File::create(place.path("output")).expect("a writable temporary folder");
    // Line by line, so that the test can read its output at once.
    let child = Command::new("stdbuf")
        .args(["-oL", "baresip", "-f"])
        .arg(place.path("."))
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("another handle"))
        .stderr(output)
        .spawn();
    child.expect("stdbuf, which coreutils has")
}

#[test]
fn a_telephone_registers_and_is_notified_of_its_messages() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    put(
        &server,
        "/api/mailboxes/alice",
        r#"{"voice":{"new":2,"old":8}}"#,
    );
    let mut telephone = Telephone::alice(&server, ";mwi=yes");
    telephone.wait_for(&["Voice-Message: 2/8 (0/0)"]);
    assert!(telephone.output().contains("Messages-Waiting: yes"));
    // A telephone that was started again has left its first binding behind.
    assert!(server.stat("/registrar/binding_count") >= 1);
    put(&server, "/api/mailboxes/alice", r#"{"voice":{"old":10}}"#);
    telephone.wait_for(&["Voice-Message: 0/10 (0/0)"]);
    assert!(telephone.output().contains("Messages-Waiting: no"));
}

#[test]
fn a_telephone_publishes_and_watches() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let mut alices = Telephone::alice(&server, ";mwi=no");
    server.wait_for("/publish/publication_count", |count| {
        alices.assert_lives();
        count >= 1
    });
    // The NOTIFY says that bob cannot be reached.
    server.wait_for("/watch/confirmed", |count| count >= 1);
    let mut bobs = Telephone::bob(&server);
    alices.wait_for(&["<sip:bob@example.com> changed status", "Online"]);
    bobs.assert_lives();
    assert_eq!(server.stat("/publish/rejected"), 0);
    assert_eq!(server.stat("/watch/rejected"), 0);
}

fn put(server: &ServerProcess, path: &str, body: &str) {
    let request = ureq::put(format!("http://{}{path}", server.http));
    let response = request.header("authorization", "Bearer secret").send(body);
    response.expect("no request was refused");
}

/// A working telephone never subscribes this often.
const SUBSCRIBING_MAX: usize = 20;
/// How often the output is read before a telephone that does not make progress is
/// started again.
const LOOKS_MAX: u32 = 2_000;

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
