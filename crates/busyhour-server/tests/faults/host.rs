//! The machine on which the server runs: the server can be killed, the disk can
//! fill up, the database can crash, and the clock can be set.

use crate::{
    call::{PASSWORD, REALM},
    disk::Disk,
    support::{Place, ServerProcess, busyhour, ports::free_port, postgres::Postgres},
};
use std::{collections::HashMap, net::SocketAddr, path::PathBuf, process::Command};

pub struct Host {
    pub place: Place,
    pub sip: SocketAddr,
    store: Store,
    disk: Option<Disk>,
    server: Option<ServerProcess>,
}

/// Where bindings are stored.
pub enum Store {
    /// In a file in the place of the test.
    Sqlite,
    /// In a file on a disk that can run full.
    SmallDisk,
    Postgres(Postgres),
}

impl Host {
    /// A server for devices with the numbers up to `device_count`, and its
    /// database.
    pub fn start(store: Store, device_count: u32) -> Self {
        Self::start_at(store, device_count, 0)
    }

    /// As [`start`](Self::start), with a clock that differs from that of all
    /// others by `offset_s` seconds.
    pub fn start_at(store: Store, device_count: u32, offset_s: i64) -> Self {
        let place = Place::new();
        place.file("busyhour.toml", &configuration(device_count));
        place.file("time", &format!("{offset_s:+}"));
        let disk = matches!(store, Store::SmallDisk).then(|| Disk::mount(&place));
        let mut host = Self {
            place,
            disk,
            sip: SocketAddr::from(([127, 0, 0, 1], free_port())),
            store,
            server: None,
        };
        host.begin();
        host
    }

    pub fn server(&self) -> &ServerProcess {
        self.server.as_ref().expect("the server was started")
    }

    /// Kills the server with `kill -9`. If the disk was full, there is room
    /// before the next start.
    pub fn kill(&mut self) {
        self.server.take().expect("the server was started").kill();
        if let Some(disk) = &self.disk {
            disk.clear();
        }
    }

    /// Starts the server on its earlier address.
    pub fn begin(&mut self) {
        self.server = Some(ServerProcess::start(&mut self.command(), &self.place));
    }

    /// From now on nothing more can be written to any file, or everything again.
    /// Without the small disk the kernel reports EFBIG instead of ENOSPC, and a
    /// write fails even if its file need not grow.
    pub fn fill_disk(&self, is_full: bool) {
        match (&self.disk, is_full) {
            (Some(disk), true) => return disk.fill(),
            (Some(disk), false) => return disk.clear(),
            (None, _) => {}
        }
        let soft = if is_full { "0" } else { "unlimited" };
        let mut command = Command::new("prlimit");
        command.args(["--pid", &self.server().pid().to_string()]);
        let status = command.arg(format!("--fsize={soft}:unlimited")).status();
        assert!(status.expect("prlimit, which util-linux has").success());
    }

    /// Sets the calendar to a time that differs from that of all others by
    /// `offset_s` seconds.
    pub fn set_clock(&self, offset_s: i64) {
        // The file is replaced as a whole, since it may be read at any time.
        let new = self.place.file("time.new", &format!("{offset_s:+}"));
        std::fs::rename(new, self.place.path("time")).expect("the same folder");
    }

    /// Ends the database as a power failure would, and starts it again after
    /// `meanwhile`.
    pub fn crash_database(&mut self, meanwhile: impl FnOnce(&ServerProcess)) {
        let Store::Postgres(postgres) = &mut self.store else {
            panic!("SQLite has no server");
        };
        postgres.crash();
        meanwhile(self.server.as_ref().expect("the server was started"));
        postgres.run();
    }

    /// The CSeq of each binding, by its address of record.
    pub fn bindings(&self) -> HashMap<String, u32> {
        let page = self.server().get("/api/bindings?limit=100000");
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        assert!(page["next"].is_null(), "one page holds all");
        let bindings = page["bindings"].as_array().expect("a list").iter();
        let binding = |binding: &serde_json::Value| {
            let aor = binding["aor"].as_str().expect("an address").to_owned();
            (aor, binding["cseq"].as_u64().expect("a number") as u32)
        };
        bindings.map(binding).collect()
    }

    /// Runs the server in a shell that ignores the signal for a file that must
    /// not grow, so that the server sees an error as with a full disk; and with
    /// a clock that can be set.
    fn command(&self) -> Command {
        let bare = busyhour();
        let shell = self.disk.as_ref().map(|disk| disk.command("sh"));
        let mut command = shell.unwrap_or_else(|| Command::new("sh"));
        for (name, value) in bare.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
        command.arg(bare.get_program()).arg("serve");
        command.args(["--sip-listen", &self.sip.to_string()]);
        command.args(["--sip-tcp", "127.0.0.1:0"]);
        command.args(["--iax2-listen", "127.0.0.1:0"]);
        command.args(["--http-listen", "127.0.0.1:0"]);
        command
            .arg("--config")
            .arg(self.place.path("busyhour.toml"));
        match &self.store {
            Store::SmallDisk => command
                .arg("--store-path")
                .arg(self.disk.as_ref().expect("mounted").path("bindings.db")),
            Store::Sqlite => command
                .arg("--store-path")
                .arg(self.place.path("bindings.db")),
            Store::Postgres(postgres) => command.args(["--store-url", &postgres.url("busyhour")]),
        };
        command.env("LD_PRELOAD", faketime());
        command.env("FAKETIME_TIMESTAMP_FILE", self.place.path("time"));
        command.env("FAKETIME_CACHE_DURATION", "1");
        // The clock for intervals is not affected by the calendar.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("DONT_FAKE_MONOTONIC", "1");
        command
    }
}

/// The devices answer no OPTIONS.
fn configuration(device_count: u32) -> String {
    format!(
        "[sip]\nalgorithms = [\"MD5\"]\ndomains = [\"{REALM}\"]\nmax_expires_seconds = 86400\n\
         nat_probe_seconds = 0\nverify_seconds = 0\n\
         [watch]\nmin_expires_seconds = 1\n\
         [[account_range]]\nprefix = \"device\"\ncount = {device_count}\npassword = \"{PASSWORD}\"\n"
    )
}

/// The library that changes a program's clock.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("Linux").flatten();
    let library = |folder: std::fs::DirEntry| folder.path().join("faketime/libfaketimeMT.so.1");
    let mut libraries = folders.map(library).filter(|library| library.exists());
    let library = libraries.next();
    library.expect("faketime is missing: run scripts/install-deps.sh test")
}
