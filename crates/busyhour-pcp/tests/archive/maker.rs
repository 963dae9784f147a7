//! PCP's own tools, which write the archives and print their content.

use std::{
    path::Path,
    process::{Command, Output},
};

/// Writes an archive with all types and semantics; each seed gives other
/// values.
pub fn write(base: &Path, version: u8, seed: u64, records: usize) {
    let arguments = [version.to_string(), seed.to_string(), records.to_string()];
    run(script("write").arg(base).args(arguments));
}

/// As [`write`], with a start time in seconds since 1970.
#[allow(
    dead_code,
    reason = "not every test program that has this file needs it"
)]
pub fn write_from(base: &Path, version: u8, seed: u64, records: usize, start: u64) {
    let numbers = [u64::from(version), seed, records as u64, start];
    let arguments = numbers.map(|number| number.to_string());
    run(script("write").arg(base).args(arguments));
}

/// The output of `pmdumplog`, with times in UTC.
pub fn dump(base: &Path, options: &[&str]) -> String {
    run(Command::new("pmdumplog")
        .args(["-Z", "UTC"])
        .args(options)
        .arg(base))
}

/// The script beside this file.
pub fn script(subcommand: &str) -> Command {
    let mut command = Command::new(PYTHON);
    command.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../busyhour-pcp/tests/archive/peer.py"
    ));
    command.arg(subcommand);
    command
}

/// The standard output of a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; `scripts/install-deps.sh test` installs what is missing")
    });
    let errors = String::from_utf8_lossy(&stderr);
    assert!(
        status.success(),
        "{command:?}: {errors}\n`scripts/install-deps.sh test` installs what is missing"
    );
    String::from_utf8(stdout).expect("PCP's tools print UTF-8")
}

/// Debian's Python, which finds Debian's modules.
pub const PYTHON: &str = "/usr/bin/python3";
