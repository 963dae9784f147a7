//! The real `pmcd`, with a folder and a socket of its own (scripts/pmcd.sh).

use crate::ports::free_port;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Runs until it is dropped.
pub struct Pmcd {
    child: Child,
    pub folder: TempDir,
    /// At 127.0.0.1.
    #[allow(
        dead_code,
        reason = "not every test program that has this file needs it"
    )]
    pub port: u16,
}

impl Pmcd {
    /// Starts it; `urls` are what pmdaopenmetrics reads, each with its name.
    pub fn start(urls: &[(&str, String)]) -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("openmetrics")).expect("a folder");
        for (name, url) in urls {
            let file = folder.path().join(format!("openmetrics/{name}.url"));
            fs::write(file, url).expect("a file");
        }
        let port = free_port();
        let mut pmcd = Self {
            child: run(folder.path(), port),
            folder,
            port,
        };
        pmcd.wait();
        pmcd
    }

    /// Where clients find it.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("pmcd.socket")
    }

    /// The same, as PCP's tools want it.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A command of PCP's that asks it; what it printed if it succeeded.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(program);
        command.args(["-h", &self.host()]).args(arguments);
        let output = command.output().expect("PCP's tools are installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    /// Ends it; its folder stays.
    #[allow(
        dead_code,
        reason = "not every test program that has this file needs it"
    )]
    pub fn stop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // It does not remove its socket, and another one would not take it.
        let _ = fs::remove_file(self.socket());
    }

    /// In the same folder.
    #[allow(
        dead_code,
        reason = "not every test program that has this file needs it"
    )]
    pub fn start_again(&mut self) {
        self.child = run(self.folder.path(), self.port);
        self.wait();
    }

    /// Until the agents answer, which start one after the other.
    fn wait(&mut self) {
        let begin = Instant::now();
        while self.ask("pminfo", &["-f", "sample.string.hullo"]).is_none()
            || self
                .ask("pminfo", &["-f", "openmetrics.control.calls"])
                .is_none()
        {
            let ended = self.child.try_wait().expect("a child");
            let log = fs::read_to_string(self.folder.path().join("pmcd.log")).unwrap_or_default();
            assert_eq!(ended, None, "pmcd ended:\n{log}");
            assert!(begin.elapsed() < PATIENCE, "pmcd does not answer:\n{log}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Pmcd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(folder: &Path, port: u16) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/pmcd.sh");
    let mut command = Command::new(script);
    command.arg(folder).arg(port.to_string());
    command.stdin(Stdio::null());
    command.spawn().expect("scripts/pmcd.sh starts")
}

/// Its agents are programs in Python.
const PATIENCE: Duration = Duration::from_secs(120);
