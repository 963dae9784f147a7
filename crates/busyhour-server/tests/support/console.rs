//! A telephone that is a console program: the test types lines and reads its
//! output.

use super::{Place, wait_until};
use std::{
    fs::File,
    io::{ErrorKind, Write},
    process::{Child, ChildStdin, Command, Stdio},
};

/// A running program in a folder of its own; it ends when this is dropped.
pub struct Console {
    child: Child,
    input: ChildStdin,
    pub place: Place,
    package: &'static str,
}

impl Console {
    /// Starts a program of the Debian package `package`, with `place` as its
    /// home.
    pub fn start(program: &str, arguments: &[&str], package: &'static str, place: Place) -> Self {
        let output = File::create(place.path(OUTPUT)).expect("a writable temporary folder");
        // Line by line, so that the test can read its output at once.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", program]).args(arguments);
        command.current_dir(place.path("."));
        command.env("HOME", place.path("."));
        // Without a desktop, whatever the user who runs the tests has.
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::piped());
        command.stdout(output.try_clone().expect("another handle"));
        let mut child = command
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("stdbuf, which coreutils has: {error}"));
        let input = child.stdin.take().expect("piped");
        Self {
            child,
            input,
            place,
            package,
        }
    }

    /// What the program has printed so far.
    pub fn output(&self) -> String {
        let bytes = std::fs::read(self.place.path(OUTPUT)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Types a line.
    pub fn say(&mut self, line: &str) {
        match writeln!(self.input, "{line}") {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.assert_lives(),
            said => said.expect("a pipe"),
        }
    }

    /// Waits until the program has printed `words`; fails if it ends first.
    pub fn wait_for(&mut self, words: &str) {
        let path = self.place.path(OUTPUT);
        let is_printed = || self.output().contains(words) || self.is_ended_without(words);
        let output = || std::fs::read_to_string(path).unwrap_or_default();
        wait_until(is_printed, || format!("no {words:?} in:\n{}", output()));
    }

    /// Waits until the program has ended by itself.
    pub fn wait(&mut self) {
        let mut status = None;
        wait_until(
            || {
                status = self
                    .child
                    .try_wait()
                    .expect("the process is a child of the test");
                status.is_some()
            },
            || "it does not end".to_owned(),
        );
    }

    /// Fails if the program has ended.
    pub fn assert_lives(&mut self) {
        if let Some(status) = self
            .child
            .try_wait()
            .expect("the process is a child of the test")
        {
            let (package, output) = (self.package, self.output());
            panic!("{package}, which scripts/install-deps.sh test installs: {status}\n{output}");
        }
    }

    /// Whether the program has ended without printing `words`, even at its end.
    fn is_ended_without(&mut self, words: &str) -> bool {
        let has_ended = self
            .child
            .try_wait()
            .expect("the process is a child of the test")
            .is_some();
        if has_ended && !self.output().contains(words) {
            self.assert_lives();
        }
        has_ended
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const OUTPUT: &str = "output";
