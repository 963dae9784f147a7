//! Runs the real sipp, Debian's `sip-tester`.

use super::{
    Place, ServerProcess,
    ports::{free_port, is_free},
};
use std::{
    collections::HashMap,
    fs::File,
    io::ErrorKind,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

/// A running sipp.
pub struct Sipp {
    child: Child,
    name: String,
    folder: PathBuf,
}

/// The last line of sipp's statistics, by the names of the columns.
pub struct Statistics(HashMap<String, String>);

/// What sipp shall do.
pub struct Calls<'a> {
    /// The name of a scenario of tests/sipp, without its suffix.
    pub scenario: &'a str,
    /// The lines of the injection file, one for each call.
    pub lines: &'a [String],
    /// Calls a second.
    pub rate: u32,
    /// The transport of the calls.
    pub transport: Transport,
}

/// The transport of sipp's calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    /// One connection for all calls.
    Tcp,
}

impl Sipp {
    /// Starts sipp against the server; `name` distinguishes its files from
    /// those of others.
    pub fn start(calls: &Calls<'_>, name: &str, server: &ServerProcess, place: &Place) -> Self {
        let target = match calls.transport {
            Transport::Udp => server.sip,
            Transport::Tcp => server.tcp,
        };
        Self::start_at(calls, name, free_port(), target, place)
    }

    /// Starts sipp on a port of its own, against this address.
    pub fn start_at(
        calls: &Calls<'_>,
        name: &str,
        port: u16,
        target: SocketAddr,
        place: &Place,
    ) -> Self {
        let scenario = format!(
            "{}/tests/sipp/{}.xml",
            env!("CARGO_MANIFEST_DIR"),
            calls.scenario
        );
        let injected = place.file(
            &format!("{name}.csv"),
            &format!("SEQUENTIAL\n{}\n", calls.lines.join("\n")),
        );
        let count = calls.lines.len().to_string();
        let mut command = Command::new("sipp");
        command.args(["-sf", &scenario, "-m", &count, "-l", &count]);
        command
            .arg("-inf")
            .arg(injected)
            .args(["-r", &calls.rate.to_string()]);
        command.args(["-i", "127.0.0.1", "-p", &port.to_string(), "-nostdin"]);
        command.args(["-mp", &media_port().to_string()]);
        // While sipp pauses, a datagram may find no room in the socket's
        // buffer. sipp stops retransmitting after another answer, so it would
        // wait for ever.
        command.args(["-buff_size", "4194304"]);
        command.args(["-timeout", "300s", "-timeout_error"]);
        command
            .arg("-trace_stat")
            .arg("-stf")
            .arg(place.path(&format!("{name}.stat")));
        command
            .arg("-trace_err")
            .arg("-error_file")
            .arg(place.path(&format!("{name}.err")));
        if calls.transport == Transport::Tcp {
            command.args(["-t", "t1"]);
        }
        command.arg(target.to_string());
        // Else it proves itself for the target, which may be a relay.
        command.args(["-auth_uri", "busyhour.test"]);
        let screen = File::create(place.path(&format!("{name}.screen"))).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(screen.try_clone().expect("another handle"))
            .stderr(screen);
        Self {
            child: spawn(command),
            name: name.to_owned(),
            folder: place.path("."),
        }
    }

    /// Waits until sipp has ended; fails unless every call followed the
    /// scenario.
    pub fn finish(mut self) -> Statistics {
        let status = self
            .child
            .wait()
            .expect("the process is a child of the test");
        assert!(
            status.success(),
            "sipp {}: {status}\n{}",
            self.name,
            self.report()
        );
        Statistics::read(&self.read("stat"))
    }

    /// Fails with sipp's output if it has ended before its scenario was over.
    pub fn assert_not_failed(&mut self) {
        if let Some(status) = self
            .child
            .try_wait()
            .expect("the process is a child of the test")
            .filter(|status| !status.success())
        {
            panic!("sipp {} ended: {status}\n{}", self.name, self.report());
        }
    }

    /// Whether its scenario is not over yet; fails with sipp's output if it has ended before that.
    pub fn is_running(&mut self) -> bool {
        self.assert_not_failed();
        let ended = self.child.try_wait();
        ended.expect("the process is a child of the test").is_none()
    }

    fn report(&self) -> String {
        format!("{}\n{}", self.read("err"), self.read("screen"))
    }

    fn read(&self, suffix: &str) -> String {
        let path = self.folder.join(format!("{}.{suffix}", self.name));
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

impl Drop for Sipp {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Statistics {
    fn read(text: &str) -> Self {
        let names = text.lines().next().unwrap_or_default().split(';');
        let values = text.lines().last().unwrap_or_default().split(';');
        let pairs = names.zip(values);
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// The total of a counter, such as `SuccessfulCall`.
    pub fn total(&self, counter: &str) -> u64 {
        let value = self.0.get(&format!("{counter}(C)"));
        let number = value.and_then(|value| value.parse().ok());
        number.unwrap_or_else(|| panic!("sipp has no counter {counter}"))
    }
}

fn spawn(mut command: Command) -> Child {
    match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("sipp is missing; install it with: apt-get install -y sip-tester")
        }
        Err(error) => panic!("sipp cannot be started: {error}"),
    }
}

/// The first of the ports of sipp's media, which takes the third one as well. Without it, all that
/// run at once look for theirs among the same hundred.
fn media_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 40 * 25) as u16;
    let mut tries = (0..1_000).map(|_| {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed);
        28_000 + first.wrapping_add(offset) % 1_000 * 4
    });
    let is_room = |port: &u16| is_free(*port) && is_free(port + 2);
    tries.find(is_room).expect("two free ports")
}
