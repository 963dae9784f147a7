//! What an operator does beside serving: backups, and the way commands write.

#[path = "../support/mod.rs"]
mod support;

mod backup;
mod init;
mod machine;
mod operator;
mod output;
mod reload;

use std::process::{Command, Output};

/// Runs a command to its end: exit code, standard output, standard error.
fn run(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        status.code().expect("it was not killed"),
        text(stdout),
        text(stderr),
    )
}
