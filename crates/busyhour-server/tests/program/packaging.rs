//! The files of `packaging/`, as root installs them and as the server's user reads
//! them.

use crate::support::{Place, ServerProcess, busyhour};
use std::{
    env,
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

const UNIT: &str = include_str!("../../../../packaging/busyhour.service");
const TMPFILES: &str = include_str!("../../../../packaging/busyhour.tmpfiles.conf");
const CONFIGURATION: &str = include_str!("../../../../packaging/busyhour.toml");
/// The user `nobody`, as the server's user.
const SERVER: u32 = 65534;

/// The mode that the file for systemd-tmpfiles gives a path.
fn mode_of(path: &str) -> u32 {
    let mut lines = TMPFILES.lines().filter(|line| !line.starts_with('#'));
    let line = lines.find(|line| line.split(' ').nth(1) == Some(path));
    let fields: Vec<&str> = line.expect(path).split(' ').collect();
    assert_eq!(fields[3..], ["root", "busyhour"], "{path}");
    u32::from_str_radix(fields[2], 8).unwrap()
}

fn own(path: &Path, user: u32, group: u32, mode: u32) {
    chown(path, Some(user), Some(group)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// `/etc/busyhour`, `/var/lib/busyhour` and the program, below a folder of the test.
struct Machine {
    place: Place,
    configuration: PathBuf,
    program: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let place = Place::new();
        own(&place.path("."), 0, 0, 0o755);
        let (etc, state) = (place.path("etc"), place.path("state"));
        fs::create_dir(&etc).unwrap();
        fs::create_dir(&state).unwrap();
        let text = CONFIGURATION.replace("/var/lib/busyhour", &state.display().to_string());
        let text = ["5060", "4569", "8080"].iter().fold(text, |text, port| {
            text.replace(&format!("\"127.0.0.1:{port}\""), "\"127.0.0.1:0\"")
        });
        let configuration = place.file("etc/busyhour.toml", &text);
        let configuration_mode = mode_of("/etc/busyhour/busyhour.toml");
        own(&configuration, 0, SERVER, configuration_mode);
        own(&etc, 0, SERVER, mode_of("/etc/busyhour"));
        own(&state, SERVER, SERVER, 0o700);
        // Other users may not be able to open the folder in which it was built.
        let program = place.path("busyhour");
        fs::copy(env!("CARGO_BIN_EXE_busyhour"), &program).unwrap();
        Self {
            place,
            configuration,
            program,
        }
    }

    /// Runs the program as this user, with the installed configuration.
    fn run_as(&self, user: u32, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).uid(user).gid(user);
        for variable in ["HOME", "XDG_STATE_HOME", "STATE_DIRECTORY"] {
            command.env_remove(variable);
        }
        // Variables for this test run are no settings of the server.
        let steering = env::vars_os().map(|(name, _)| name);
        for variable in steering.filter(|name| name.as_bytes().starts_with(b"BUSYHOUR_")) {
            command.env_remove(variable);
        }
        command.env("BUSYHOUR_CONFIG", &self.configuration);
        command
    }
}

fn words(output: &Output) -> String {
    let (said, errors) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(said).into_owned() + &String::from_utf8_lossy(errors)
}

/// The user must exist before the service starts; otherwise no group could get
/// the file.
#[test]
fn the_unit_runs_as_the_user_of_the_other_files() {
    let has = |line: &str| UNIT.lines().any(|one| one == line);
    assert!(has("User=busyhour") && has("Group=busyhour"), "{UNIT}");
    // A database that comes late is waited for, and a wrong configuration is not tried again.
    assert!(has("StartLimitIntervalSec=0") && has("Restart=on-failure"));
    assert!(has("RestartPreventExitStatus=2") && !UNIT.contains("ExecStartPre="));
    assert!(!UNIT.contains("DynamicUser") && !UNIT.contains("ConfigurationDirectory"));
    let users = include_str!("../../../../packaging/busyhour.sysusers.conf");
    assert!(users.lines().any(|line| line.starts_with("u busyhour ")));
    for path in ["/etc/busyhour", "/etc/busyhour/busyhour.toml"] {
        assert_eq!(mode_of(path) & 0o007, 0, "{path}");
    }
}

/// Root runs the command with a home directory, and the server has none. Only
/// root can run as both users; as another user, the test checks only the files.
#[test]
fn an_account_that_root_adds_is_served_by_the_servers_user() {
    let path = "/var/lib/busyhour/busyhour.db";
    assert!(CONFIGURATION.contains(&format!("path = \"{path}\"")));
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        return;
    }
    let machine = Machine::new();
    let output = machine.run_as(SERVER, &["check-config"]).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let mut serve = machine.run_as(SERVER, &["serve"]);
    let server = ServerProcess::start(&mut serve, &machine.place);
    let mut add = machine.run_as(0, &["device", "add", "carol"]);
    add.env("HOME", machine.place.path("roots-home"));
    let mut add = add.args(["--md5", &"0".repeat(32)]);
    let output = add.output().unwrap();
    let database = machine.place.path("state/busyhour.db");
    let database = database.display().to_string();
    assert!(words(&output).contains(&database), "{}", words(&output));
    server.wait_for("/registrar/account_count", |count| count == 1);
    add = add.arg("--replace");
    assert!(add.status().unwrap().success());
    assert!(server.stop().success());
    let server = ServerProcess::start(&mut serve, &machine.place);
    assert_eq!(server.stat("/registrar/account_count"), 1);
}

#[test]
fn a_configuration_with_passwords_that_all_can_read_is_reported() {
    let place = Place::new();
    let text = "[[account]]\nuser = \"alice\"\npassword = \"secret\"\n";
    let file = place.file("busyhour.toml", text);
    let check = |mode: u32| {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let output = busyhour().arg("check-config").arg(&file).output().unwrap();
        assert!(output.status.success());
        words(&output)
    };
    let warning = "every user of this machine can read the secrets in it; run chmod 640 on it";
    assert!(check(0o644).contains(warning));
    assert!(!check(0o640).contains(warning));
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let mut serve = place.serve();
    serve.arg("--config").arg(&file);
    let server = ServerProcess::start(&mut serve, &place);
    server.wait_for_log(warning);
    assert!(server.stop().success());
    fs::write(&file, "[store]\nurl = \"postgres://u:p@127.0.0.1/d\"\n").unwrap();
    assert!(check(0o644).contains(warning));
    fs::write(&file, "[sip]\nrealm = \"x\"\n").unwrap();
    assert!(!check(0o644).contains(warning));
}
