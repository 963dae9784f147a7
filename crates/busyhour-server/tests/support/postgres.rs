//! A real PostgreSQL for one test, from Debian's package.

use super::{Place, ports::free_port};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Held while a test looks for the empty cluster, or makes it.
static MAKING: Mutex<()> = Mutex::new(());

/// A cluster in a temporary folder, reached by a socket in it. A cluster is a thousand files.
pub struct Postgres {
    folder: Place,
    programs: PathBuf,
    server: Option<Child>,
    /// Its TCP address, if it has one.
    tcp: Option<SocketAddr>,
    /// Whether it has a certificate.
    has_tls: bool,
}

impl Postgres {
    /// Makes a cluster and starts it.
    pub fn start() -> Self {
        Self::start_at(None, None)
    }

    /// As [`start_on_tcp`](Self::start_on_tcp), with this certificate and key,
    /// both in PEM.
    pub fn start_on_tls(certificate: &str, key: &str) -> Self {
        Self::start_at(Some(free_address()), Some((certificate, key)))
    }

    /// As [`start`](Self::start), and reachable by TCP, too.
    pub fn start_on_tcp() -> Self {
        Self::start_at(Some(free_address()), None)
    }

    fn start_at(tcp: Option<SocketAddr>, identity: Option<(&str, &str)>) -> Self {
        let mut postgres = Self {
            folder: Place::in_memory(),
            programs: programs(),
            server: None,
            tcp,
            has_tls: identity.is_some(),
        };
        postgres.make_cluster();
        if let Some((certificate, key)) = identity {
            postgres.file("server.crt", certificate);
            postgres.file("server.key", key);
        }
        postgres.run();
        postgres
    }

    /// Makes a database and returns its URL.
    pub fn database(&self, name: &str) -> String {
        let mut command = self.command("createdb");
        command
            .args(["-p", &self.port().to_string()])
            .args(["-U", "busyhour", "-h"])
            .arg(self.folder.path(""))
            .arg(name);
        // Files are copied at once, where writing a template page by page into the log takes ten times as long.
        if self.version() >= 15 {
            command.arg("--strategy=file_copy");
        }
        assert!(command.status().unwrap().success(), "createdb {name}");
        self.url(name)
    }

    pub fn url(&self, name: &str) -> String {
        let folder = self.folder.path("");
        let port = self.port();
        format!(
            "postgres://busyhour@/{name}?host={}&port={port}",
            folder.display()
        )
    }

    /// The number of its major version.
    fn version(&self) -> u32 {
        let folder = self.programs.parent().and_then(Path::file_name);
        let name = folder.and_then(|name| name.to_str());
        name.and_then(|name| name.parse().ok()).unwrap_or(0)
    }

    fn port(&self) -> u16 {
        self.tcp.map_or(5432, |address| address.port())
    }

    /// The URL of a database over TCP.
    pub fn tcp_url(&self, name: &str) -> String {
        let address = self.tcp.expect("it was started on TCP");
        format!("postgres://busyhour@{address}/{name}")
    }

    /// From now on clients over TCP must give this password.
    pub fn require_password(&self, password: &str) {
        self.file(
            "data/pg_hba.conf",
            "local all all trust\nhost all all all scram-sha-256\n",
        );
        self.sql(
            "postgres",
            &format!("ALTER USER busyhour PASSWORD '{password}'"),
        );
        self.sql("postgres", "SELECT pg_reload_conf()");
    }

    /// Writes a file that only the user of PostgreSQL can read.
    fn file(&self, name: &str, text: &str) {
        let path = self.folder.file(name, text);
        if let Some((user, group)) = other_user() {
            chown(&path, Some(user), Some(group)).expect("root may change the owner");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path(".s.PGSQL.5432")
    }

    /// Runs SQL in a database.
    pub fn sql(&self, name: &str, sql: &str) {
        let mut command = self.command("psql");
        command
            .args(["-q", "-v", "ON_ERROR_STOP=1", "-c", sql])
            .arg(self.url(name));
        assert!(command.status().unwrap().success(), "{sql}");
    }

    /// Kills its processes as a power failure would: nothing is cleaned up.
    pub fn crash(&mut self) {
        self.end(Signal::SIGQUIT);
    }

    /// Starts it again and waits until it accepts connections.
    pub fn run(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.path("log"))
            .unwrap();
        let mut command = self.command("postgres");
        if let Some(address) = self.tcp {
            let (host, port) = (address.ip(), address.port());
            command.args(["-c", &format!("listen_addresses={host}")]);
            command.args(["-c", &format!("port={port}")]);
        } else {
            command.args(["-c", "listen_addresses="]);
        }
        if self.has_tls {
            for (setting, file) in [
                ("ssl_cert_file", "server.crt"),
                ("ssl_key_file", "server.key"),
            ] {
                let path = self.folder.path(file);
                command.args(["-c", &format!("{setting}={}", path.display())]);
            }
            command.args(["-c", "ssl=on"]);
        }
        command
            .arg("-D")
            .arg(self.folder.path("data"))
            .arg("-k")
            .arg(self.folder.path(""))
            .args(["-c", "max_connections=30"])
            // The tests end processes and not the machine, so what the system has been given is kept.
            .args(["-c", "fsync=off", "-c", "autovacuum=off"])
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut server = command.spawn().expect("postgres starts");
        while !self.is_ready(server.id()) {
            let ended = server.try_wait().unwrap();
            assert_eq!(ended, None, "{}", self.log());
            thread::sleep(PACE);
        }
        self.server = Some(server);
    }

    /// The server writes into the last line of its file whether it takes connections; to ask `pg_isready` is a process each time.
    fn is_ready(&self, process: u32) -> bool {
        let file = fs::read_to_string(self.folder.path("data/postmaster.pid"));
        file.is_ok_and(|text| {
            text.starts_with(&format!("{process}\n")) && text.trim_end().ends_with("\nready")
        })
    }

    /// Copies the folder of an empty cluster, which takes a tenth of the processor time of `initdb`.
    fn make_cluster(&self) {
        let folder = self.folder.path("");
        // PostgreSQL refuses to run as root.
        if let Some((user, group)) = other_user() {
            chown(&folder, Some(user), Some(group)).expect("root may change the owner");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let empty = self.empty_cluster();
        copy(&empty, &self.folder.path("data"));
    }

    /// An empty cluster of this version, which the first test that needs it makes and all later ones share.
    fn empty_cluster(&self) -> PathBuf {
        let version = self.programs.parent().unwrap().file_name().unwrap();
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("postgresql")
            .join(version);
        let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.exists() {
            let data = self.folder.path("new");
            self.init(&data);
            let unfinished = kept.with_extension(std::process::id().to_string());
            fs::create_dir_all(kept.parent().unwrap()).unwrap();
            copy(&data, &unfinished);
            // Another program may have been sooner: its cluster is as good.
            let renamed = fs::rename(&unfinished, &kept);
            assert!(renamed.is_ok() || kept.exists(), "{renamed:?}");
        }
        kept
    }

    fn init(&self, data: &Path) {
        let mut command = self.command("initdb");
        command.arg("-D").arg(data).args([
            "-A",
            "trust",
            "-U",
            "busyhour",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            // The log of 16 MB would be half of what each test copies.
            "--wal-segsize=1",
        ]);
        let output = command.output().expect("initdb runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path(""));
        if let Some((user, group)) = other_user() {
            command.uid(user).gid(group);
        }
        command
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut server) = self.server.take() {
            // It may have ended already.
            let _ = kill(Pid::from_raw(server.id() as i32), signal);
            server.wait().unwrap();
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end(Signal::SIGQUIT);
        if thread::panicking() {
            let log = self.log();
            let begin = log.len().saturating_sub(LOG_TOLD);
            let end = log.get(begin..).unwrap_or(&log);
            eprintln!("the end of what PostgreSQL said:\n{end}");
        }
    }
}

/// Copies a folder with its owners and permissions.
fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command
        .args(["--archive", "--reflink=auto"])
        .arg(from)
        .arg(to);
    assert!(
        command.status().expect("cp runs").success(),
        "{from:?} to {to:?}"
    );
}

fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// The program folder of the newest installed PostgreSQL.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.retain(|folder| folder.join("initdb").exists());
    folders.sort();
    let newest = folders.pop();
    newest.expect("PostgreSQL is missing: run scripts/install-deps.sh test")
}

/// The user and group to use instead of root: those of `nobody`.
fn other_user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").expect("Linux").uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("a list of users");
    let mut nobody = users
        .lines()
        .find(|line| line.starts_with("nobody:"))?
        .split(':');
    let user = nobody.nth(2)?.parse().ok()?;
    Some((user, nobody.next()?.parse().ok()?))
}

/// The time between two checks of a condition; no test depends on its length.
const PACE: Duration = Duration::from_millis(10);
/// Bytes of a server's log that a failed test shows.
const LOG_TOLD: usize = 4096;
