//! How commands write: version, completions, man pages, colours, quiet, JSON.

use crate::{
    run,
    support::{Place, busyhour},
};
use std::{fs, process::Command};

#[test]
fn the_version_tells_the_commit() {
    for words in [&["--version"][..], &["device", "add", "--version"]] {
        let (code, said, _) = run(busyhour().args(words));
        assert_eq!(code, 0);
        let version = format!("{} (commit ", env!("CARGO_PKG_VERSION"));
        assert!(said.contains(&version), "{said}");
    }
}

/// Each shell reads its script.
#[test]
fn shells_take_the_completions() {
    let place = Place::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let (code, script, _) = run(busyhour().args(["completions", shell]));
        assert_eq!(code, 0);
        assert!(script.contains("check-config") && script.contains("unregister"));
        assert!(!script.contains("reference"), "hidden from users");
        let file = place.file(shell, &script);
        match Command::new(shell).arg(check).arg(&file).status() {
            Ok(status) => assert!(status.success(), "{shell}"),
            Err(error) => {
                panic!("{shell} ({error}); install it with: scripts/install-deps.sh test")
            }
        }
    }
    let script = format!(
        "source {}; COMP_WORDS=(busyhour device un); COMP_CWORD=2; _busyhour busyhour un device; \
         echo ${{COMPREPLY[*]}}",
        place.path("bash").display()
    );
    let (_, said, errors) = run(Command::new("bash").args(["-c", &script]));
    assert_eq!(said.trim(), "unregister", "{errors}");
}

#[test]
fn every_command_has_a_man_page_with_its_help() {
    let place = Place::new();
    let folder = place.path("man");
    let (code, ..) = run(busyhour().args(["reference", "man"]).arg(&folder));
    assert_eq!(code, 0);
    let page = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
    assert!(page("busyhour.1").contains("check\\-config"));
    assert!(page("busyhour-serve.1").contains("sip\\-listen"));
    assert!(page("busyhour-device-add.1").contains("Exit codes"));
    let settings = page("busyhour.toml.5");
    for key in busyhour_server::config::KEYS {
        assert!(settings.contains(&format!(".SH [{}]", key.section())));
        assert!(
            settings.contains(&format!("\n.B {}\n", key.name())),
            "{}",
            key.path
        );
    }
}

#[test]
fn quiet_commands_say_what_was_asked_for_and_failures() {
    let place = Place::new();
    let device = |words: &[&str]| {
        let mut command = busyhour();
        command.arg("device").args(words).arg("--quiet");
        command.arg("--store-path").arg(place.path("busyhour.db"));
        run(&mut command)
    };
    let zeros = "0".repeat(32);
    let added = device(&["add", "alice", "--create", "--md5", &zeros]);
    assert_eq!(added, (0, String::new(), String::new()));
    let (_, listed, _) = device(&["list"]);
    assert!(listed.contains("alice"), "{listed}");
    assert_eq!(
        device(&["remove", "alice"]),
        (0, String::new(), String::new())
    );
    let (code, _, errors) = device(&["remove", "alice"]);
    assert_eq!(code, 1);
    assert!(errors.contains("there is no device"), "{errors}");
    let mut serve = place.serve();
    serve.args(["--quiet", "--sip-auth", "open"]);
    let server = crate::support::ServerProcess::start(&mut serve, &place);
    assert_eq!(
        server.said.len(),
        1,
        "only the line for programs: {:?}",
        server.said
    );
}

#[test]
fn commands_that_change_something_tell_programs_what() {
    let place = Place::new();
    let json = |words: &[&str]| -> serde_json::Value {
        let mut command = busyhour();
        command.args(words).arg("--json");
        command.env("BUSYHOUR_STORE_PATH", place.path("busyhour.db"));
        let (_, said, errors) = run(&mut command);
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{words:?}: {said}{errors}"))
    };
    let zeros = "0".repeat(32);
    let added = json(&["device", "add", "alice", "--create", "--md5", &zeros]);
    assert_eq!(added["user"], "alice");
    let removed = json(&["device", "remove", "alice"]);
    assert_eq!(removed["removed"], "alice");
    let domain = json(&["domain", "add", "a.example", "--max-calls", "3"]);
    assert_eq!(domain["domain"]["name"], "a.example");
    assert_eq!(domain["domain"]["max_calls"], 3);
    assert_eq!(
        json(&["domain", "remove", "a.example"])["removed"],
        "a.example"
    );
    assert_eq!(json(&["check-config"])["good"], true);
    let file = place.file("bad.toml", "[sip]\nauth = \"none\"\nlisten = 5\n");
    let bad = json(&["check-config", file.to_str().unwrap()]);
    assert_eq!(bad["good"], false);
    assert_eq!(bad["mistakes"].as_array().unwrap().len(), 2, "{bad}");
}

/// Every command has `--json`, but for those that write for people, or something else, or serve.
#[test]
fn every_command_that_tells_something_tells_it_to_programs() {
    let commands = run(busyhour().args(["reference", "commands"])).1;
    let mut pages = commands.split("\n## `").skip(1);
    let mut without: Vec<&str> = pages
        .by_ref()
        .filter_map(|page| page.split_once('`'))
        .filter(|(_, help)| !help.contains("\nCommands:") && !help.contains("--json"))
        .map(|(name, _)| name)
        .collect();
    without.sort_unstable();
    assert_eq!(without, WITHOUT_JSON);
}

const WITHOUT_JSON: [&str; 3] = [
    "busyhour completions",
    // It has `--format json`.
    "busyhour device export",
    "busyhour serve",
];

/// A log that is no terminal has colours only if they are wanted.
#[test]
fn colours_are_as_wanted() {
    for (flag, variable, has_colours) in [
        ("--color=auto", "", false),
        ("--color=never", "", false),
        ("--color=always", "", true),
        ("--color=always", "1", true),
    ] {
        let place = Place::new();
        let mut serve = place.serve();
        serve
            .args([flag, "--sip-auth", "open"])
            .env("NO_COLOR", variable);
        let server = crate::support::ServerProcess::start(&mut serve, &place);
        server.signal(nix::sys::signal::Signal::SIGHUP);
        server.wait_for_log("accounts read again");
        assert_eq!(
            server.log().contains('\u{1b}'),
            has_colours,
            "{flag} {variable}"
        );
        assert!(server.stop().success());
    }
}
