//! PCP's own tools: they write the archives, and say what is in them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Values by series, such as `t.u32.counter.many[3]`; `None` where there is none.
pub type Fetched = BTreeMap<String, Vec<Option<f64>>>;

/// Writes an archive of all types and semantics, different for each seed.
pub fn write(base: &Path, version: u8, seed: u64, records: usize) {
    let arguments = [version.to_string(), seed.to_string(), records.to_string()];
    run(script("write").arg(base).args(arguments));
}

/// What libpcp's interpolation mode gives for every numeric metric.
pub fn fetch(base: &Path, from_ns: u64, step_ms: u64, count: usize) -> Fetched {
    let arguments = [from_ns.to_string(), step_ms.to_string(), count.to_string()];
    let output = run(script("fetch").arg(base).args(arguments));
    output.lines().map(series).collect()
}

/// What `pmdumplog` prints, times in UTC.
pub fn dump(base: &Path, options: &[&str]) -> String {
    run(Command::new("pmdumplog")
        .args(["-Z", "UTC"])
        .args(options)
        .arg(base))
}

/// Splits, merges or thins an archive, as `pmlogextract` does.
pub fn extract(options: &[&str], from: &[&Path], to: &Path) {
    run(Command::new("pmlogextract")
        .args(options)
        .args(from)
        .arg(to));
}

/// What `pmrep` reports, by column, with its columns' names.
pub fn report(base: &Path, step: &str, count: usize) -> Fetched {
    let mut command = Command::new(PYTHON);
    // Metrics whose names begin with `t.`, every instance a column.
    command.args(["/usr/bin/pmrep", "-z", "-o", "csv", "-P", "9", "-t", step]);
    command
        .args(["-s", &count.to_string(), "-a"])
        .arg(base)
        .arg("t");
    let output = run(&mut command);
    let mut lines = output.lines();
    let header = lines.next().expect("a line of names");
    let names: Vec<String> = header
        .split(',')
        .skip(1)
        .map(|name| name.replace('"', ""))
        .collect();
    let mut columns = vec![Vec::new(); names.len()];
    for line in lines {
        for (column, text) in columns.iter_mut().zip(line.split(',').skip(1)) {
            column.push(text.parse().ok());
        }
    }
    names.into_iter().zip(columns).collect()
}

/// Compresses a file in place with the tool of that name.
pub fn compress(tool: &str, file: &Path) -> PathBuf {
    let suffix = match tool {
        "gzip" => "gz",
        "bzip2" => "bz2",
        "zstd" => "zst",
        other => other,
    };
    let mut command = Command::new(tool);
    if tool == "zstd" {
        command.args(["--rm", "--quiet"]);
    }
    run(command.arg(file));
    PathBuf::from(format!("{}.{suffix}", file.display()))
}

/// A line of the script: a name, then the values, each after a tab.
fn series(line: &str) -> (String, Vec<Option<f64>>) {
    let mut words = line.split('\t');
    let name = words.next().expect("a name").to_owned();
    (name, words.map(|word| word.parse().ok()).collect())
}

fn script(subcommand: &str) -> Command {
    let mut command = Command::new(PYTHON);
    command.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/archive/peer.py"
    ));
    command.arg(subcommand);
    command
}

fn run(command: &mut Command) -> String {
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

/// Debian's own, which finds Debian's modules.
const PYTHON: &str = "/usr/bin/python3";
