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
    /// Beside its folder.
    arguments: Vec<String>,
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

    /// Starts a telephone that plays a tone of so many hertz, records what it hears, and
    /// carries a command out.
    fn start_over(
        server: &ServerProcess,
        transport: &str,
        (user, password, hertz): (&str, &str, u32),
        options: &str,
        command: &str,
    ) -> Self {
        let place = Place::new();
        write_tone(&place, hertz);
        let sound = format!(
            "module aufile.so\nmodule aubridge.so\nmodule sndfile.so\nsnd_path {}\n\
             audio_source aufile,{}\naudio_player aubridge,ear\n",
            place.path(".").display(),
            place.path("tone.wav").display()
        );
        place.file("config", &format!("{}{sound}", CONFIG.replace(SILENCE, "")));
        let account = format!(
            "<sip:{user}@example.com;transport={transport}>;auth_user={user};auth_pass={password};\
             outbound=\"sip:{};transport={transport}\";regint=600{options}\n",
            match transport {
                "udp" => server.sip,
                _ => server.tcp,
            }
        );
        place.file("accounts", &account);
        place.file("contacts", "");
        let arguments = match command {
            "" => Vec::new(),
            command => vec!["-e".to_owned(), command.to_owned()],
        };
        let mut telephone = Self::run_with(place, arguments);
        wait_until(
            || {
                telephone.assert_lives();
                telephone.output().contains("200 OK")
            },
            || format!("{user} does not register"),
        );
        telephone
    }

    /// How loud a tone is in what the telephone has heard in the last quarter of a second
    /// (Goertzel's algorithm), as a part of all sound.
    fn hears(&self, hertz: f64) -> f64 {
        let heard = self.heard();
        let samples = heard.get(44..).unwrap_or_default().chunks_exact(2);
        let samples: Vec<f64> = samples
            .map(|sample| f64::from(i16::from_le_bytes([sample[0], sample[1]])))
            .collect();
        let last = &samples[samples.len().saturating_sub(2000)..];
        let energy: f64 = last.iter().map(|sample| sample * sample).sum();
        if last.len() < 2000 || energy == 0.0 {
            return 0.0;
        }
        let coefficient = 2.0 * (2.0 * std::f64::consts::PI * hertz / 8000.0).cos();
        let (mut one, mut two) = (0.0, 0.0);
        for sample in last {
            (one, two) = (sample + coefficient * one - two, one);
        }
        (one * one + two * two - coefficient * one * two) / energy / 1000.0
    }

    /// The sound file of what it has decoded.
    fn heard(&self) -> Vec<u8> {
        let entries = std::fs::read_dir(self.place.path(".")).expect("the folder of the test");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        let decoded = paths.find(|path| path.to_string_lossy().ends_with("-dec.wav"));
        decoded.map_or_else(Vec::new, |path| std::fs::read(path).unwrap_or_default())
    }

    /// Asks the process to end, which ends its calls.
    fn end_gently(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it lives");
    }

    fn run(place: Place) -> Self {
        Self::run_with(place, Vec::new())
    }

    fn run_with(place: Place, arguments: Vec<String>) -> Self {
        let child = begin(&place, &arguments);
        let looks = 0;
        Self {
            child,
            place,
            arguments,
            looks,
        }
    }

    fn run_again(&mut self) {
        self.end();
        self.child = begin(&self.place, &self.arguments);
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

/// A sound file with a minute of a tone: 16 bits, 8,000 samples a second.
fn write_tone(place: &Place, hertz: u32) {
    let step = std::f64::consts::TAU * f64::from(hertz) / 8000.0;
    let sample = |index: u32| (8000.0 * (step * f64::from(index)).sin()) as i16;
    let samples: Vec<u8> = (0..60 * 8000)
        .flat_map(|index| sample(index).to_le_bytes())
        .collect();
    let len = u32::try_from(samples.len()).expect("a minute of sound");
    let mut file = Vec::new();
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + len).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16u32.to_le_bytes());
    for half in [1u16, 1] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    for word in [8000u32, 16_000] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for half in [2u16, 16] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    file.extend_from_slice(b"data");
    file.extend_from_slice(&len.to_le_bytes());
    file.extend_from_slice(&samples);
    std::fs::write(place.path("tone.wav"), file).expect("a writable temporary folder");
}

fn begin(place: &Place, arguments: &[String]) -> Child {
    let output = File::create(place.path("output")).expect("a writable temporary folder");
    // Line by line, so that the test can read its output at once.
    let child = Command::new("stdbuf")
        .args(["-oL", "baresip", "-f"])
        .arg(place.path("."))
        .args(arguments)
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

#[test]
fn telephones_call_and_hear_each_other_over_datagrams() {
    call_over("udp");
}

#[test]
fn telephones_call_and_hear_each_other_over_connections() {
    call_over("tcp");
}

/// Alice calls bob, who answers at once. Each plays a tone of its own, and hears that of the
/// other.
fn call_over(transport: &str) {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let options = ";mwi=no;answermode=auto";
    let mut bobs = Telephone::start_over(&server, transport, ("bob", "else", 880), options, "");
    let mut alices = Telephone::start_over(
        &server,
        transport,
        ("alice", "something", 440),
        ";mwi=no",
        "/dial sip:bob@example.com",
    );
    server.wait_for("/calls/dialogs/call_count", |count| {
        alices.assert_lives();
        bobs.assert_lives();
        count == 1
    });
    for (telephone, own, other) in [(&bobs, 880.0, 440.0), (&alices, 440.0, 880.0)] {
        wait_until(
            || telephone.hears(other) > 20.0 * telephone.hears(own).max(1e-9),
            || format!("it does not hear {other} Hz:\n{}", telephone.output()),
        );
    }
    // Alice hangs up.
    alices.end_gently();
    server.wait_for("/calls/dialogs/answered", |count| count == 1);
    assert_eq!(server.stat("/calls/dialogs/call_count"), 0);
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

/// Of a telephone without sound.
const SILENCE: &str = "audio_source none\naudio_player none\n";

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
