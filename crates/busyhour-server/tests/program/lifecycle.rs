//! How the program starts, fails and stops.

use crate::support::{Place, ServerProcess, busyhour};
use nix::sys::signal::Signal;
use std::{
    net::{TcpListener, UdpSocket},
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::Path,
    process::{Command, Output},
};

const OPEN: &str = "[sip]\nauth = \"open\"\n";

/// Runs a command that must fail; returns its error line and its exit code.
fn failure(command: &mut Command) -> (String, i32) {
    let output: Output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "it is one line:\n{errors}");
    assert!(errors.starts_with("busyhour: "), "{errors}");
    (errors, output.status.code().expect("it was not killed"))
}

#[test]
fn without_configuration_it_serves_and_says_where_and_what_to_do_next() {
    let place = Place::new();
    let mut command = busyhour();
    command.args([
        "serve",
        "--iax2-listen",
        "127.0.0.1:0",
        "--sip-listen",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
    ]);
    command
        .env("XDG_STATE_HOME", place.path("state"))
        .env_remove("STATE_DIRECTORY");
    let server = ServerProcess::start(&mut command, &place);
    let said = server.said.join("\n");
    assert!(said.contains(&format!("http://{}/", server.http)), "{said}");
    assert!(
        said.contains("[[account]]"),
        "how to add an account:\n{said}"
    );
    assert!(said.contains(&format!("pid={}", server.pid())), "{said}");
    let folder = place.path("state/busyhour");
    assert!(folder.join("busyhour.db").exists());
    let mode = folder.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "no other user can read the state");
    assert_eq!(server.get("/healthz"), "ok\n");
    assert!(server.stop().success());
}

#[test]
fn sigterm_and_sigint_end_it_with_success() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let place = Place::new();
        let mut server = place.server(OPEN);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal}: {}", server.log());
    }
}

#[test]
fn bad_configuration_is_reported_with_file_line_and_column() {
    let place = Place::new();
    let file = place.file("bad.toml", "[sip]\nauth = \"none\"\n");
    let (line, code) = failure(place.serve().arg("--config").arg(&file));
    let expected = format!(
        "busyhour: {}:2:8: sip.auth: `none` is not allowed; give one of: digest, open\n",
        file.display()
    );
    assert_eq!(line, expected);
    assert_eq!(code, 2);
}

#[test]
fn a_missing_configuration_file_is_reported() {
    let place = Place::new();
    let file = place.path("missing.toml");
    let (line, code) = failure(place.serve().arg("--config").arg(&file));
    assert!(line.contains("missing.toml: cannot be read"), "{line}");
    assert_eq!(code, 2);
}

#[test]
fn a_bad_environment_variable_is_reported() {
    let place = Place::new();
    let (line, code) = failure(place.serve().env("BUSYHOUR_LOG_LEVEL", "loud"));
    assert!(
        line.starts_with("busyhour: BUSYHOUR_LOG_LEVEL: log.level: `loud`"),
        "{line}"
    );
    assert_eq!(code, 2);
}

#[test]
fn a_sip_port_in_use_is_one_clear_line() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let place = Place::new();
    let mut command = busyhour();
    command.args([
        "serve",
        "--sip-listen",
        &address,
        "--iax2-listen",
        "off",
        "--http-listen",
        "off",
    ]);
    command.arg("--store-path").arg(place.path("busyhour.db"));
    let (line, code) = failure(&mut command);
    assert!(
        line.contains(&address) && line.contains("the port is in use"),
        "{line}"
    );
    assert_eq!(code, 1);
}

#[test]
fn an_http_port_in_use_is_one_clear_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let place = Place::new();
    let mut command = busyhour();
    command.args([
        "serve",
        "--iax2-listen",
        "127.0.0.1:0",
        "--sip-listen",
        "127.0.0.1:0",
        "--http-listen",
        &address,
    ]);
    command.arg("--store-path").arg(place.path("busyhour.db"));
    let (line, code) = failure(&mut command);
    assert!(
        line.contains(&address) && line.contains("the port is in use"),
        "{line}"
    );
    assert_eq!(code, 1);
}

#[test]
fn a_database_that_cannot_be_written_is_one_clear_line() {
    let place = Place::new();
    let file = place.file("file", "no folder");
    place.file(
        "text.db",
        "this is no database, but long enough to be read as one; "
            .repeat(20)
            .as_str(),
    );
    let unwritable = [
        // A folder that even root cannot create.
        file.join("busyhour.db"),
        // A folder where the file should be.
        place.path("."),
        // A file that is no database.
        place.path("text.db"),
    ];
    for path in unwritable {
        let mut command = busyhour();
        command.args([
            "serve",
            "--iax2-listen",
            "127.0.0.1:0",
            "--sip-listen",
            "127.0.0.1:0",
            "--http-listen",
            "off",
        ]);
        let (line, code) = failure(command.arg("--store-path").arg(&path));
        let named = path.parent().unwrap().display().to_string();
        assert!(line.contains(&named), "{}: {line}", path.display());
        assert_eq!(code, 1);
    }
}

/// A configuration with TLS and these two files.
fn with_tls(certificate: &Path, key: &Path) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    format!(
        "{OPEN}tls = \"127.0.0.1:0\"\ntls_certificate = \"{certificate}\"\ntls_key = \"{key}\"\n"
    )
}

#[test]
fn a_certificate_that_cannot_be_read_is_one_clear_line() {
    let place = Place::new();
    let missing = place.path("none.pem");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = place.file("key.pem", &made.signing_key.serialize_pem());
    let file = place.file("tls.toml", &with_tls(&missing, &key));
    let expected = format!(
        "sip.tls_certificate: {}: cannot be read: ",
        missing.display()
    );
    let expected = format!("busyhour: {}:4:19: {expected}", file.display());
    let (line, code) = failure(place.serve().arg("--config").arg(&file));
    assert!(line.starts_with(&expected), "{line}");
    assert_eq!(code, 2);
    let (line, code) = failure(busyhour().arg("check-config").arg(&file));
    assert!(line.starts_with(&expected), "{line}");
    assert_eq!(code, 2);
}

#[test]
fn a_certificate_is_read_again_and_a_bad_one_changes_nothing() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = place.file("certificate.pem", &made.cert.pem());
    let key = place.file("key.pem", &made.signing_key.serialize_pem());
    let server = place.server(&with_tls(&certificate, &key));
    assert!(server.said.join("\n").contains(" sip-tls=127.0.0.1:"));
    server.signal(Signal::SIGHUP);
    server.wait_for_log("certificate read again");
    place.file("key.pem", "no key");
    server.signal(Signal::SIGHUP);
    server.wait_for_log("the certificate was not reloaded; the old one stays");
    assert!(
        server.log().contains("contains no private key"),
        "{}",
        server.log()
    );
    assert!(server.stop().success());
}

#[test]
fn a_second_server_on_the_same_database_refuses_and_says_why() {
    let place = Place::new();
    let first = place.server(OPEN);
    let (line, code) = failure(&mut place.serve());
    assert!(line.contains("in use by process"), "{line}");
    assert!(line.contains(&first.pid().to_string()), "{line}");
    assert_eq!(code, 1);
    assert_eq!(first.get("/healthz"), "ok\n", "the first server continues");
}

#[test]
fn a_database_is_free_again_after_a_kill() {
    let place = Place::new();
    place.server(OPEN).kill();
    assert!(place.server(OPEN).stop().success());
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let usage = busyhour()
        .args(["serve", "--no-such-flag"])
        .output()
        .unwrap();
    assert_eq!(usage.status.code(), Some(2));
    for arguments in [
        vec!["--help"],
        vec!["serve", "--help"],
        vec!["check-config", "-h"],
        vec!["--version"],
    ] {
        let help = busyhour().args(&arguments).output().unwrap();
        assert_eq!(help.status.code(), Some(0), "{arguments:?}");
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(!text.contains('\x1b'), "a pipe gets no colours");
    }
    let help = busyhour().arg("--help").output().unwrap();
    assert!(
        String::from_utf8(help.stdout)
            .unwrap()
            .contains("Examples:")
    );
}

#[test]
fn check_config_reports_every_mistake_and_starts_nothing() {
    let place = Place::new();
    let text = "[sip]\nlisten = \"localhost\"\n[store]\nqueue = 1\n[extra]\n";
    let file = place.file("bad.toml", text);
    let output = busyhour().arg("check-config").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    let places: Vec<&str> = errors
        .lines()
        .map(|line| {
            line.split("bad.toml:")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(places, ["2:10:", "4:9:", "5:2:"], "{errors}");

    let good = place.file("good.toml", OPEN);
    let output = busyhour().arg("check-config").arg(&good).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("good"));
}

/// An operator whose devices are in the store must not read that there are none.
#[test]
fn check_config_says_which_accounts_it_does_not_count() {
    let place = Place::new();
    let file = place.file("one.toml", "[[account]]\nuser = \"a\"\npassword = \"x\"\n");
    let said = |store: &[&str]| {
        let mut check = busyhour();
        let output = check.arg("check-config").arg(&file).args(store).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = said(&["--store-path", "/nowhere/b.db"]);
    assert!(text.contains(" settings given; 1 account\n"), "{text}");
    let stored = "(not counted; `busyhour device list` lists them): database /nowhere/b.db";
    assert!(text.contains(stored), "{text}");
    let text = said(&["--store-durability", "memory"]);
    assert!(
        text.contains("HTTP (not counted): only in memory"),
        "{text}"
    );
}

#[test]
fn the_printed_configuration_is_valid() {
    let place = Place::new();
    let print = busyhour()
        .args(["serve", "--print-config", "--sip-realm", "example"])
        .output()
        .unwrap();
    assert!(print.status.success());
    let text = String::from_utf8(print.stdout).unwrap();
    assert!(
        text.contains("realm = \"example\"") && text.contains("# --sip-realm"),
        "{text}"
    );
    let file = place.file("printed.toml", &text);
    let check = busyhour().arg("check-config").arg(&file).output().unwrap();
    assert!(check.status.success(), "{check:?}");
}

#[test]
fn the_service_manager_is_told_when_the_server_is_ready_and_when_it_stops() {
    let place = Place::new();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    let mut command = place.serve();
    command.env("NOTIFY_SOCKET", place.path("notify"));
    let server = ServerProcess::start(&mut command, &place);
    assert_eq!(told(&socket), "READY=1");
    assert!(server.stop().success());
    assert_eq!(told(&socket), "STOPPING=1");
}

fn told(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let len = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..len]).trim().to_owned()
}

/// Whether `user` can register, tried with the program's own client.
fn can_register(server: &ServerProcess, user: &str) -> bool {
    let mut storm = busyhour();
    storm.args(["storm", "--devices", "1", "--over", "1ms", "--json"]);
    storm.args([
        "--target",
        &server.sip.to_string(),
        "--auth",
        &format!("{user}:secret"),
    ]);
    storm.output().unwrap().status.success()
}

#[test]
fn accounts_are_read_again_without_a_restart() {
    let place = Place::new();
    let account = |user: &str| format!("[[account]]\nuser = \"{user}\"\npassword = \"secret\"\n");
    let server = place.server(&account("alice"));
    assert!(can_register(&server, "alice"));
    assert!(!can_register(&server, "bob"));

    place.file("busyhour.toml", "[sip\n");
    server.signal(Signal::SIGHUP);
    server.wait_for_log("the configuration was not reloaded");
    assert!(
        can_register(&server, "alice"),
        "a broken file changes nothing"
    );

    let changed = "[sip]\nrealm = \"other\"\n[[domain]]\nname = \"a.example\"\n";
    let changed = format!("{changed}{}", account("bob"));
    place.file("busyhour.toml", &changed);
    server.signal(Signal::SIGHUP);
    server.wait_for_log("sip.realm");
    server.wait_for_log("[[domain]]");
    assert!(can_register(&server, "bob"));
    assert!(!can_register(&server, "alice"));
    assert!(server.stop().success());
}

#[test]
fn a_storm_over_tcp_registers_and_refreshes_every_device() {
    let place = Place::new();
    let accounts = "[[account_range]]\nprefix = \"device\"\ncount = 500\npassword = \"busyhour\"\n";
    let server = place.server(accounts);
    for load in [["--closed", "16"], ["--rate", "500"]] {
        let mut storm = busyhour();
        storm.args(["storm", "--transport", "tcp", "--devices", "500"]);
        storm.args(["--auth", "device{n}:busyhour", "--threads", "2", "--json"]);
        storm.args(load).args(["--target", &server.tcp.to_string()]);
        let output = storm.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
    // Each storm uses its own ports, and so its own contacts, which end with its connections.
    assert_eq!(server.stat("/registrar/added"), 1000);
    assert_eq!(server.stat("/network/streams/accepted"), 4);
    assert!(server.stat("/network/streams/received") >= 2000);
    assert_eq!(server.stat("/registrar/rejected"), 0);
    assert!(server.stop().success());
    let (line, code) =
        failure(busyhour().args(["storm", "--protocol", "iax2", "--transport", "tcp"]));
    assert_eq!(
        line,
        "busyhour: IAX2 does not run over TCP: leave out --transport tcp or --protocol iax2\n"
    );
    assert_eq!(code, 1);
}

/// The command of the README for a storm, shortened and sent to this server.
fn storm_of(line: &str, server: &ServerProcess) -> Command {
    let words = line.split('#').next().unwrap_or_default();
    let mut command = busyhour();
    let mut words = words.split_whitespace().skip(1);
    let is_iax2 = line.contains("iax2");
    while let Some(word) = words.next() {
        match word {
            "--devices" | "--over" | "--target" => drop(words.next()),
            word => drop(command.arg(word)),
        }
    }
    let target = if is_iax2 { server.iax2 } else { server.sip };
    command.args(["--devices", "20", "--over", "20ms"]);
    command.arg("--target").arg(target.to_string());
    command
}

#[test]
fn the_load_tests_of_the_readme_work_with_the_server_of_the_readme() {
    let readme = include_str!("../../../../README.md");
    let lines = |start: &str| -> Vec<&str> {
        readme
            .lines()
            .filter(|line| line.starts_with(start))
            .collect()
    };
    let serve = lines("busyhour serve ");
    let serve = serve
        .iter()
        .rfind(|line| line.contains("load tests"))
        .expect("a server");
    let place = Place::new();
    let mut command = place.serve();
    let words = serve.split('#').next().unwrap_or_default();
    command.args(words.split_whitespace().skip(2));
    let server = ServerProcess::start(&mut command, &place);
    let storms = lines("busyhour storm ");
    assert_eq!(storms.len(), 2);
    for line in storms {
        let output = storm_of(line, &server).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

#[test]
fn a_storm_that_is_refused_says_what_to_do_and_measures_nothing() {
    let place = Place::new();
    let server = place.server("");
    let storm = |words: &[&str]| {
        let mut command = busyhour();
        command.args(["storm", "--devices", "2", "--over", "1ms"]);
        let output = command.args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (sip, iax2) = (server.sip.to_string(), server.iax2.to_string());
    let to_iax2 = ["--protocol", "iax2", "--target", &iax2];
    // A database that is not the server's: its accounts cannot be made.
    let elsewhere = place.path("elsewhere.db");
    let to_sip = ["--target", &*sip];
    let apart = ["--store-path", elsewhere.to_str().unwrap()];
    let (table, advice) = storm(&[to_sip, apart].concat());
    assert_eq!(table, "");
    assert!(advice.contains("give --auth USER:PASSWORD"), "{advice}");
    assert!(!advice.contains("still there"), "{advice}");
    let (table, advice) = storm(&to_iax2);
    assert!(!table.contains("0 µs"), "{table}");
    assert!(advice.contains("2 of 2 registrations failed"), "{advice}");
    assert!(
        advice.contains("--sip-auth open") && advice.contains("--auth"),
        "{advice}"
    );
    for words in [&to_sip[..], &to_iax2] {
        let with = [words, &["--auth", "nobody:x", "--json"]].concat();
        let (json, advice) = storm(&with);
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(report["p50_us"].is_null(), "{json}");
        assert!(advice.contains("[[account_range]]"), "{advice}");
    }
}

#[test]
fn mistakes_in_the_arguments_are_one_line_too() {
    for (words, expected) in [
        (&["serve", "--no-such-flag"][..], "--no-such-flag"),
        (&["serve", "--sip-relm", "x"], "--sip-realm"),
        (&["device", "add"], "<USER>"),
        (&["token", "x", "--scope", "all"], "read, write"),
        (&["storm", "--over", "soon"], "--over"),
        (&["nonsense"], "nonsense"),
    ] {
        let (line, code) = failure(busyhour().args(words));
        assert_eq!(code, 2, "{line}");
        assert!(line.contains(expected) && line.contains("--help"), "{line}");
        assert!(!line.contains("error:"), "{line}");
    }
}

/// The description of an argument contains what it is or may be, on the same line.
#[test]
fn a_mistake_in_the_arguments_reads_as_a_sentence() {
    let missing = "the following required arguments were not provided: ";
    let values = "[possible values: read, write]; see --help";
    for (words, expected) in [
        (&["device", "add"][..], format!("{missing}<USER>; ")),
        (&["device", "show"], format!("{missing}<USER>; ")),
        (&["device", "remove"], format!("{missing}<USER>...; ")),
        (&["device", "import"], format!("{missing}<FILE>...; ")),
        (&["token"], format!("{missing}<NAME>; ")),
        (&["token", "remove"], format!("{missing}<NAME>; ")),
        (&["digest"], format!("{missing}<ARCHIVE>; ")),
        (
            &["token", "x", "--scope", "all"],
            format!("--scope <SCOPE>' {values}"),
        ),
        (&["token", "x", "--scope"], format!("supplied {values}")),
        (
            &["device", "addd"],
            "'addd'; tip: a similar subcommand".into(),
        ),
        (
            &["device", "add", "a", "--max-contacts", "x"],
            "<N>': give a whole number; ".into(),
        ),
        (
            &["storm", "--devices", ""],
            "': give a whole number; ".into(),
        ),
        (
            &["storm", "--target", "x"],
            "': give an address and port such as 127.0.0.1:5060".into(),
        ),
        (
            &["storm", "--over", "x"],
            "<TIME>': give a time such as ".into(),
        ),
        (
            &["digest", "x", "--threads", "0"],
            "<N>': give a number from 1; ".into(),
        ),
        (&["storm", "--rate", "x"], "': give a number; ".into()),
        (
            &["digest", "x", "--step", "x"],
            "<TIME>': give a time such as ".into(),
        ),
    ] {
        let (line, _) = failure(busyhour().args(words));
        assert!(line.contains(&expected), "{line}instead of\n{expected}");
        assert!(!line.contains(":;"), "{line}");
    }
}

#[test]
fn the_short_help_is_short_and_the_long_one_has_every_default() {
    let help = |flag: &str| {
        let output = busyhour().args(["serve", flag]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (short, long) = (help("-h"), help("--help"));
    assert!(
        short.lines().count() < 60 && short.contains("--help"),
        "{short}"
    );
    for key in busyhour_server::config::KEYS {
        let flag = format!("--{} <", key.flag());
        assert!(!short.contains(&flag), "{flag}");
        assert!(long.contains(&flag), "{flag}");
    }
    let defaults = long.matches("[default:").count();
    assert_eq!(defaults, busyhour_server::config::KEYS.len());
    assert!(long.contains("Settings of [sip]:"));
}

#[test]
fn a_log_in_json_or_for_errors_alone_has_no_banner() {
    for arguments in [
        ["--log-format", "json"],
        ["--log-level", "error"],
        ["--log-level", "warn"],
    ] {
        let place = Place::new();
        let server = ServerProcess::start(place.serve().args(arguments), &place);
        assert_eq!(server.said.len(), 1, "{:?}", server.said);
        assert!(server.said[0].starts_with("ready pid="));
        let log = server.log();
        match arguments[1] {
            "error" => assert_eq!(log, ""),
            "json" => assert!(log.lines().all(|line| line.starts_with('{')), "{log}"),
            _ => assert!(log.contains("there are no accounts"), "{log}"),
        }
        assert!(server.stop().success());
    }
}

#[test]
fn a_server_in_memory_says_which_accounts_it_does_not_read() {
    let place = Place::new();
    place.file("devices.csv", "user,password\nalice,x\n");
    let mut import = busyhour();
    import
        .args(["device", "import", "--create"])
        .arg(place.path("devices.csv"));
    import.arg("--store-path").arg(place.path("busyhour.db"));
    assert!(import.output().unwrap().status.success());
    let warning = "are not read; give accounts in the configuration or over HTTP";
    let mut serve = place.serve();
    let server = ServerProcess::start(serve.args(["--store-durability", "memory"]), &place);
    server.wait_for_log(warning);
    assert!(
        server
            .log()
            .contains(&place.path("busyhour.db").display().to_string())
    );
    let mut check = busyhour();
    check.args([
        "check-config",
        "--store-durability",
        "memory",
        "--store-path",
    ]);
    let output = check.arg(place.path("busyhour.db")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains(warning), "{said}");
}

#[test]
fn a_reload_counts_the_accounts_of_the_store_too() {
    let place = Place::new();
    let server = place.server("[[account]]\nuser = \"alice\"\npassword = \"x\"\n");
    let file = place.file("devices.csv", "user,password\nbob,x\ncarol,x\n");
    let mut import = busyhour();
    import.args(["device", "import"]).arg(file);
    import.arg("--store-path").arg(place.path("busyhour.db"));
    assert!(import.output().unwrap().status.success());
    server.wait_for("/registrar/account_count", |count| count == 2);
    server.signal(Signal::SIGHUP);
    server.wait_for_log("configured_accounts=1 stored_accounts=2");
    assert!(server.stop().success());
}

#[test]
fn an_unknown_token_has_another_message_than_a_missing_one() {
    let place = Place::new();
    let server = place.server("");
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let url = format!("http://{}/api/accounts/alice", server.http);
    let mut without = agent.put(&url).send("{}").unwrap();
    let mut wrong = agent
        .put(&url)
        .header("authorization", "Bearer bh_x")
        .send("{}")
        .unwrap();
    assert_eq!(
        (without.status().as_u16(), wrong.status().as_u16()),
        (401, 401)
    );
    let said = without.body_mut().read_to_string().unwrap();
    assert!(said.contains("needs a token of scope write"), "{said}");
    let said = wrong.body_mut().read_to_string().unwrap();
    assert!(
        said.contains("the server does not know this token") && said.contains("SIGHUP"),
        "{said}"
    );
}
