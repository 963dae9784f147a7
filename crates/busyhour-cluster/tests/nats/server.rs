//! A real NATS server for one test, from Debian's package.

use crate::ports::free_port;
use busyhour_cluster::{Broker, NatsBroker, NatsOptions};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command},
};
use tempfile::TempDir;

/// A server in a temporary folder, on a port of its own.
pub struct NatsServer {
    folder: TempDir,
    address: SocketAddr,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts one to which everybody may connect.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// The same with more lines of configuration.
    pub fn start_with(more: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let folder = TempDir::new().expect("a temporary folder");
        let mut server = Self {
            folder,
            address,
            child: None,
        };
        server.file("nats.conf", &format!("listen: {address}\n{more}\n"));
        server.run();
        server
    }

    /// Writes a file beside its configuration.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a writable folder");
        path
    }

    pub fn run(&mut self) {
        let started = Command::new(program())
            .arg("--config")
            .arg(self.folder.path().join("nats.conf"))
            .arg("--log")
            .arg(self.folder.path().join("log"))
            .spawn();
        self.child = Some(started.expect("nats-server starts"));
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            child.wait().expect("it has ended");
        }
    }

    pub fn options(&self) -> NatsOptions {
        NatsOptions {
            servers: vec![format!("nats://{}", self.address)],
            name: "test".into(),
            ..NatsOptions::default()
        }
    }

    /// A client that is connected.
    pub fn broker(&self) -> NatsBroker {
        let broker = NatsBroker::connect(self.options()).expect("right options");
        self.wait_for(&broker);
        broker
    }

    pub fn wait_for(&self, broker: &NatsBroker) {
        crate::wait_until(|| broker.is_connected(), || self.log());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Debian has it where only the administrator's PATH leads.
fn program() -> &'static Path {
    let places = [
        "/usr/sbin/nats-server",
        "/usr/bin/nats-server",
        "/usr/local/bin/nats-server",
    ];
    let found = places.into_iter().map(Path::new).find(|path| path.exists());
    found.expect("nats-server is missing: run scripts/install-deps.sh test")
}
