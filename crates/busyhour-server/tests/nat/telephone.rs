//! Debian's baresip in one of the networks. It registers for an hour, and sends no keep-alives.

use crate::{
    internet::Network,
    support::{Place, wait_until},
    tone,
};
use std::{
    fs::File,
    process::{Child, Command, Stdio},
};

pub struct Telephone {
    child: Child,
    place: Place,
}

impl Telephone {
    /// Starts it and waits until it has registered; it answers calls, and carries out a command.
    pub fn start(network: &Network, address: &str, user: &str, command: &str) -> Self {
        Self::playing(network, address, user, (440, command))
    }

    /// The same, and it plays a tone and keeps what it hears.
    pub fn playing(
        network: &Network,
        address: &str,
        user: &str,
        (hertz, command): (u32, &str),
    ) -> Self {
        let place = Place::new();
        let sound = place.path("tone.wav");
        tone::write(&sound, hertz);
        let folder = place.path(".").display().to_string();
        let config = CONFIG.replace("ADDRESS", address);
        let config = config.replace("FOLDER", &folder);
        place.file(
            "config",
            &config.replace("SOUND", &sound.display().to_string()),
        );
        let account = format!(
            "<sip:{user}@example.com>;outbound=\"sip:198.51.100.1\";regint=3600;mwi=no;answermode=auto\n"
        );
        place.file("accounts", &account);
        place.file("contacts", "");
        let mut program = Command::new("stdbuf");
        program
            .args(["-oL", "baresip", "-s", "-f"])
            .arg(place.path("."));
        if !command.is_empty() {
            program.args(["-e", command]);
        }
        let output = File::create(place.path("output")).expect("a writable temporary folder");
        let child = network
            .run(&program)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("another handle"))
            .stderr(output)
            .spawn()
            .expect("nsenter, which util-linux has");
        let mut telephone = Self { child, place };
        telephone.wait_for("SIP/2.0 200 OK");
        telephone
    }

    pub fn output(&self) -> String {
        let output = std::fs::read(self.place.path("output")).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Waits until it has printed these words.
    pub fn wait_for(&mut self, words: &str) {
        let path = self.place.path("output");
        let output = || std::fs::read_to_string(&path).unwrap_or_default();
        wait_until(
            || {
                self.assert_lives();
                output().contains(words)
            },
            || format!("no {words:?} in:\n{}", output()),
        );
    }

    /// Waits until it hears this tone, and not its own.
    pub fn wait_for_tone(&self, hertz: u32, own: u32) {
        let is_heard = || {
            let heard = self.heard();
            let [other, own] = [hertz, own].map(|hertz| tone::loudness(&heard, hertz));
            other > 20.0 * own.max(1e-9)
        };
        wait_until(is_heard, || format!("no {hertz} Hz:\n{}", self.output()));
    }

    /// The sound file of what it has decoded in its only call.
    fn heard(&self) -> Vec<u8> {
        let entries = std::fs::read_dir(self.place.path(".")).expect("the folder of the test");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        let decoded = paths.find(|path| path.to_string_lossy().ends_with("-dec.wav"));
        decoded.map_or_else(Vec::new, |path| std::fs::read(path).unwrap_or_default())
    }

    pub fn assert_lives(&mut self) {
        let ended = self.child.try_wait().expect("a process of the test");
        assert!(ended.is_none(), "baresip ended: {}", self.output());
    }

    /// It ends without a word.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Telephone {
    fn drop(&mut self) {
        self.kill();
    }
}

const CONFIG: &str = "\
poll_method epoll
sip_listen ADDRESS:0
net_interface ADDRESS
module_path /usr/lib/baresip/modules
module g711.so
module aufile.so
module sndfile.so
snd_path FOLDER
module aubridge.so
audio_source aufile,SOUND
audio_player aubridge,ear
module_app account.so
module_app contact.so
module_app menu.so
";
