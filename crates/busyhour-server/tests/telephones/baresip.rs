//! Debian's baresip: a telephone that runs until it is dropped.

use crate::{
    site::Site,
    support::{Place, wait_until},
    tone,
};
use std::{
    fs::File,
    process::{Child, Command, Stdio},
};

pub struct Baresip {
    child: Child,
    place: Place,
    /// Beside its folder.
    arguments: Vec<String>,
    /// How often its output has been read.
    looks: u32,
}

/// What a telephone with sound does.
pub struct Speaker<'a> {
    pub user: &'a str,
    pub password: &'a str,
    pub transport: &'a str,
    /// The tone that it plays.
    pub hertz: u32,
    /// Parameters of its account.
    pub options: &'a str,
    /// A command that it carries out when it is ready.
    pub command: &'a str,
}

impl Baresip {
    /// Starts a telephone without sound, with a line of its file of accounts. baresip
    /// sometimes starts without sending anything, or repeats its own subscribe command
    /// without end; then it is started again.
    pub fn silent(account: &str, contacts: &str) -> Self {
        let place = Place::new();
        place.file("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
        let telephone = Self::run(place, SILENCE, account, contacts, Vec::new());
        telephone.registered(Self::awaken)
    }

    /// Starts a telephone that plays a tone, records what it hears, and prints the messages
    /// that it sends and receives.
    pub fn speaking(site: &Site, speaker: &Speaker<'_>) -> Self {
        let place = Place::new();
        let tone = place.path("tone.wav");
        tone::write(&tone, speaker.hertz);
        let sound = format!(
            "module aufile.so\nmodule aubridge.so\nmodule sndfile.so\nsnd_path {}\n\
             audio_source aufile,{}\naudio_player aubridge,ear\nsip_cafile {}\n",
            place.path(".").display(),
            tone.display(),
            site.authority.display(),
        );
        let Speaker {
            user,
            password,
            transport,
            options,
            ..
        } = speaker;
        let account = format!(
            "<sip:{user}@example.com;transport={transport}>;auth_user={user};\
             auth_pass={password};outbound=\"sip:{};transport={transport}\";\
             regint=600;mwi=no{options}",
            site.address(transport)
        );
        let mut arguments = vec!["-s".to_owned()];
        if !speaker.command.is_empty() {
            arguments.extend(["-e", speaker.command].map(str::to_owned));
        }
        let telephone = Self::run(place, &sound, &account, "", arguments);
        telephone.registered(Self::assert_lives)
    }

    /// How loud a tone is in what the telephone has just heard.
    pub fn hears(&self, hertz: u32) -> f64 {
        tone::loudness(&self.heard(), hertz)
    }

    /// Waits until the telephone hears this tone, and not its own.
    pub fn wait_for_tone(&self, hertz: u32, own: u32) {
        wait_until(
            || self.hears(hertz) > 20.0 * self.hears(own).max(1e-9),
            || format!("it does not hear {hertz} Hz:\n{}", self.output()),
        );
    }

    /// The sound file of what it has decoded in its last call.
    fn heard(&self) -> Vec<u8> {
        let entries = std::fs::read_dir(self.place.path(".")).expect("the folder of the test");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let is_decoded = |path: &std::path::PathBuf| path.to_string_lossy().ends_with("-dec.wav");
        let decoded = paths.filter(is_decoded);
        let last = decoded.max_by_key(|path| path.metadata().and_then(|it| it.modified()).ok());
        last.map_or_else(Vec::new, |path| std::fs::read(path).unwrap_or_default())
    }

    /// Asks the process to end, which ends its calls.
    pub fn end_gently(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it lives");
    }

    pub fn output(&self) -> String {
        let output = std::fs::read(self.place.path("output")).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Waits until the telephone has printed a line with all of `words`; fails if it
    /// ends first.
    pub fn wait_for(&mut self, words: &[&str]) {
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

    /// Fails if the telephone has ended.
    pub fn assert_lives(&mut self) {
        let output = self.output();
        let status = self.child.try_wait();
        if let Some(status) = status.expect("the process is a child of the test") {
            panic!(
                "baresip, which scripts/install-deps.sh test installs, ended: {status}\n{output}"
            );
        }
    }

    fn run(
        place: Place,
        config: &str,
        account: &str,
        contacts: &str,
        arguments: Vec<String>,
    ) -> Self {
        place.file("config", &format!("{CONFIG}{config}"));
        place.file("accounts", &format!("{account}\n"));
        place.file("contacts", contacts);
        Self {
            child: begin(&place, &arguments),
            place,
            arguments,
            looks: 0,
        }
    }

    fn registered(mut self, mut check: impl FnMut(&mut Self)) -> Self {
        let output = self.place.path("output");
        wait_until(
            || {
                check(&mut self);
                self.output().contains("200 OK")
            },
            || {
                let output = std::fs::read_to_string(output);
                format!("it does not register:\n{}", output.unwrap_or_default())
            },
        );
        self
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

    fn run_again(&mut self) {
        self.end();
        self.child = begin(&self.place, &self.arguments);
    }

    fn end(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Baresip {
    fn drop(&mut self) {
        self.end();
    }
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

/// A working telephone never subscribes this often.
const SUBSCRIBING_MAX: usize = 20;
/// How often the output is read before a telephone that does not make progress is
/// started again.
const LOOKS_MAX: u32 = 2_000;

const CONFIG: &str = "\
poll_method epoll
sip_listen 127.0.0.1:0
net_interface 127.0.0.1
module_path /usr/lib/baresip/modules
module g711.so
module_app account.so
module_app contact.so
module_app menu.so
";

/// Only what a telephone without sound needs.
const SILENCE: &str = "\
audio_source none
audio_player none
module uuid.so
module_app mwi.so
module_app presence.so
";
