//! If the reader of the output closes it, as in `| head`, no command panics or
//! fails.

use crate::support::{Place, ServerProcess, busyhour};
use std::{
    fs::File,
    io::Write,
    process::{Command, Stdio},
};

/// The write end of a pipe whose read end is closed.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Runs the command with standard output closed, and then full; returns its messages
/// and exit codes.
fn closed_and_full(make: impl Fn() -> Command, input: &str) -> [(Option<i32>, String); 2] {
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    [unread as fn() -> Stdio, full].map(|stdout| {
        let mut command = make();
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.stdout(stdout()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    })
}

#[test]
fn commands_succeed_without_a_reader_and_report_a_full_disk() {
    let place = Place::new();
    let file = place.file("devices.csv", "user,password\nalice,x\nbob,y\n");
    let file = file.to_str().unwrap();
    let server = place.server("[sip]\nauth = \"open\"\n");
    let target = server.sip.to_string();
    for words in [
        &["serve", "--print-config"][..],
        &["check-config"],
        &["check-config", "--json"],
        &["completions", "bash"],
        &["reference", "settings"],
        &["token", "shop"],
        &["token", "shop", "--json"],
        &["device", "import", file],
        &["device", "import", file, "--json"],
        &["device", "add", "carol", "--replace"],
        &["device", "list"],
        &["device", "list", "--json"],
        &["device", "show", "alice"],
        &["device", "show", "alice", "--json"],
        &["device", "remove", "alice"],
        &[
            "storm",
            "--devices",
            "1",
            "--over",
            "1ms",
            "--target",
            &target,
        ],
    ] {
        let make = || {
            let mut command = busyhour();
            command.args(words);
            if words[0] == "device" {
                command.arg("--store-path").arg(place.path("busyhour.db"));
            }
            command
        };
        let [closed, full] = closed_and_full(make, "x\n");
        assert_eq!(closed.0, Some(0), "{words:?}: {}", closed.1);
        assert!(!full.1.contains("panicked"), "{words:?}: {}", full.1);
        // The second run finds nothing more to remove.
        if !words.contains(&"remove") {
            assert!(
                full.1.contains("standard output: No space left"),
                "{words:?}: {}",
                full.1
            );
            assert_eq!(full.0, Some(1), "{words:?}");
        }
    }
}

#[test]
fn a_server_continues_without_a_reader_of_its_log_and_a_failure_keeps_its_exit_code() {
    let place = Place::new();
    let mut command = place.serve();
    command.args(["--sip-auth", "open", "--log-level", "trace"]);
    let server = ServerProcess::start_with_errors(&mut command, &place, unread());
    assert_eq!(server.get("/healthz"), "ok\n");
    assert!(server.stop().success());
    let mut command = busyhour();
    command.args(["serve", "--log-level", "loud"]);
    command.stderr(unread()).stdout(unread());
    assert_eq!(command.status().unwrap().code(), Some(2));
}
