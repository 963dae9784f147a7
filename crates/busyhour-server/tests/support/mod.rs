//! Starts the real program, waits until it is ready, and ends it in any case.
#![allow(dead_code)] // each test file uses its own part

pub mod console;
pub mod phone;
pub mod ports;
pub mod postgres;
pub mod random;
pub mod relay;
pub mod rtpengine;
pub mod sipp;
pub mod tls_client;
mod waiting;

pub use waiting::wait_until;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs::{DirEntry, File},
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};
use tempfile::TempDir;

/// A running `busyhour serve` on ports of its own.
pub struct ServerProcess {
    child: Child,
    /// The lines that it printed, up to the one that says it is ready.
    pub said: Vec<String>,
    pub sip: SocketAddr,
    pub tcp: SocketAddr,
    pub iax2: SocketAddr,
    pub http: SocketAddr,
    log: PathBuf,
}

/// A temporary folder with database, configuration and logs.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    /// A folder in memory, if there is room: for many small files, which are most of what a disk's file system costs a test.
    pub fn in_memory() -> Self {
        let mut command = Command::new("df");
        let told = command.args(["--output=avail", "--block-size=1", MEMORY]);
        let told = told
            .output()
            .map(|output| output.stdout)
            .unwrap_or_default();
        let told = String::from_utf8_lossy(&told);
        let free: Option<u64> = told
            .split_whitespace()
            .last()
            .and_then(|it| it.parse().ok());
        match free.is_some_and(|free| free >= MEMORY_BYTES_MIN) {
            true => TempDir::new_in(MEMORY).map_or_else(|_| Self::new(), Self),
            false => Self::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a writable temporary folder");
        path
    }

    /// A command `busyhour serve` on free ports, with the database of this
    /// place.
    pub fn serve(&self) -> Command {
        self.serve_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The same with this address for SIP.
    fn serve_at(&self, sip: SocketAddr) -> Command {
        let mut command = busyhour();
        command.arg("serve");
        command.args(["--sip-listen", &sip.to_string()]);
        command.args(["--iax2-listen", "127.0.0.1:0"]);
        command.args(["--http-listen", "127.0.0.1:0"]);
        command.arg("--store-path").arg(self.path("busyhour.db"));
        self.keep_sockets_here(&mut command);
        command
    }

    /// Lets a server put its local socket into this place, and a command look for it here.
    pub fn keep_sockets_here(&self, command: &mut Command) {
        command.env("RUNTIME_DIRECTORY", self.path("run"));
    }

    /// Starts [`serve`](Self::serve) with this configuration, and waits until
    /// it is ready.
    pub fn server(&self, configuration: &str) -> ServerProcess {
        self.server_at(SocketAddr::from(([127, 0, 0, 1], 0)), configuration)
    }

    /// The same at an address of its own for SIP over UDP, which a restart keeps. For TCP it is
    /// another one, since meanwhile a connection of another program may have that port.
    pub fn server_at(&self, sip: SocketAddr, configuration: &str) -> ServerProcess {
        let mut command = self.serve_at(sip);
        if sip.port() != 0 {
            command.args(["--sip-tcp", "127.0.0.1:0"]);
        }
        command
            .arg("--config")
            .arg(self.file("busyhour.toml", configuration));
        ServerProcess::start(&mut command, self)
    }
}

/// The program under test, without settings from the environment of the tests.
pub fn busyhour() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busyhour"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BUSYHOUR_") {
            command.env_remove(name);
        }
    }
    command
}

impl ServerProcess {
    /// Starts the command and waits for its `ready` line.
    pub fn start(command: &mut Command, place: &Place) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(place.path("server.log"))
            .unwrap();
        Self::start_with_errors(command, place, log.into())
    }

    /// As [`start`](Self::start), with standard error written to `errors` instead of the
    /// log.
    pub fn start_with_errors(command: &mut Command, place: &Place, errors: Stdio) -> Self {
        let log = place.path("server.log");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let said = read_until_ready(&mut output);
        let Some(ready) = said
            .last()
            .filter(|line| line.starts_with("ready "))
            .cloned()
        else {
            let status = child.wait();
            panic!("the server is not ready ({status:?}):\n{}", read(&log));
        };
        Self {
            child,
            sip: address(&ready, "sip-udp"),
            tcp: address(&ready, "sip-tcp"),
            iax2: address_or_none(&ready, "iax2-udp").unwrap_or(NO_ADDRESS),
            http: address(&ready, "http"),
            said,
            log,
        }
    }

    /// The address that it serves under this name in its `ready` line, such as `sip-ws`.
    pub fn address(&self, name: &str) -> SocketAddr {
        address(self.said.last().expect("a line"), name)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard error so far.
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// Waits until it has written `words` to standard error.
    pub fn wait_for_log(&self, words: &str) {
        let is_there = || self.log().contains(words);
        wait_until(is_there, || format!("no {words:?} in:\n{}", self.log()));
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).expect("the server runs");
    }

    /// Stops it with SIGSTOP, and waits until each of its threads stands still: the signal alone returns before.
    pub fn stand_still(&self) {
        self.signal(Signal::SIGSTOP);
        let folder = format!("/proc/{}/task", self.pid());
        let threads = || std::fs::read_dir(&folder).expect("the server runs");
        let is_still = |thread: std::io::Result<DirEntry>| {
            let stat = read(&thread.expect("an entry").path().join("stat"));
            // Behind the name, which may have any bytes.
            stat.rsplit(") ")
                .next()
                .is_some_and(|it| it.starts_with('T'))
        };
        wait_until(
            || threads().all(is_still),
            || format!("{folder}: some still run"),
        );
    }

    /// Goes on after it stood still.
    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.child
            .wait()
            .expect("the process is a child of the test")
    }

    /// Asks it to end, as a service manager does, and waits until it has ended.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Kills it with `kill -9`, and waits until it has ended.
    pub fn kill(mut self) {
        self.child.kill().expect("the server runs");
        self.wait();
    }

    /// A document from its HTTP port.
    pub fn get(&self, path: &str) -> String {
        let response = ureq::get(format!("http://{}{path}", self.http)).call();
        let body = response.expect("an answer").into_body();
        let body = body.into_with_config().limit(1 << 30);
        body.read_to_string().expect("text")
    }

    /// The statistics as one document.
    pub fn stats(&self) -> serde_json::Value {
        serde_json::from_str(&self.get("/api/stats")).expect("JSON")
    }

    /// A counter or gauge of the statistics, such as `/registrar/accepted`.
    pub fn stat(&self, pointer: &str) -> u64 {
        let stats = self.stats();
        let value = stats.pointer(pointer).and_then(|value| value.as_u64());
        value.unwrap_or_else(|| panic!("no {pointer} in {stats}"))
    }

    /// Waits until a counter or gauge satisfies `wanted`; fails if the server ends
    /// first.
    pub fn wait_for(&self, pointer: &str, mut wanted: impl FnMut(u64) -> bool) {
        let is_so = || wanted(self.stat(pointer));
        wait_until(is_so, || {
            format!("{pointer} in {}\n{}", self.stats(), self.log())
        });
    }

    /// No limit has been reached that all share, unless it is one of time: on a slow machine requests wait too
    /// long, whoever sent them.
    #[track_caller]
    pub fn has_room_for_all(&self) {
        let said = self.get("/healthz");
        let limits = said.trim_end().strip_prefix("degraded: limits reached: ");
        let is_time = |limits: &str| limits.split(", ").all(|it| it.starts_with("the time "));
        let is_well = said == "ok\n" || limits.is_some_and(is_time);
        assert!(is_well, "{said}{}", self.log());
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_until_ready(output: &mut impl BufRead) -> Vec<String> {
    let mut said = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        let ready = line.starts_with("ready ");
        said.push(line);
        if ready {
            break;
        }
    }
    said
}

fn address(ready: &str, name: &str) -> SocketAddr {
    address_or_none(ready, name).unwrap_or_else(|| panic!("no {name} in {ready}"))
}

fn address_or_none(ready: &str, name: &str) -> Option<SocketAddr> {
    let value = ready
        .split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.map(|value| value.parse().expect("an address"))
}

/// Where IAX2 is off.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Where Linux has files in memory. In a container it may be too small.
const MEMORY: &str = "/dev/shm";
const MEMORY_BYTES_MIN: u64 = 1 << 30;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
