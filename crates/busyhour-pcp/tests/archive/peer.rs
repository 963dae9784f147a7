//! PCP's own tools as readers of archives.

use super::maker::{PYTHON, run, script};
pub use super::maker::{dump, write};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Values by series, such as `t.u32.counter.many[3]`; missing ones are `None`.
pub type Fetched = BTreeMap<String, Vec<Option<f64>>>;

/// The values that libpcp's interpolation mode gives for every numeric metric.
/// With `wrap`, a counter that falls counts as one that has overflowed, and
/// [`SIGNED`] is left out.
pub fn fetch(base: &Path, from_ns: u64, step_ms: u64, count: usize, wrap: bool) -> Fetched {
    let arguments = [from_ns.to_string(), step_ms.to_string(), count.to_string()];
    let mut command = script("fetch");
    command.arg(base).args(arguments);
    if wrap {
        command.arg(SIGNED);
    }
    let output = run(wrapping(&mut command, wrap));
    output.lines().map(series).collect()
}

/// Splits, merges or thins an archive, as `pmlogextract` does.
pub fn extract(options: &[&str], from: &[&Path], to: &Path) {
    run(Command::new("pmlogextract")
        .args(options)
        .args(from)
        .arg(to));
}

/// What `pmrep` reports for `metrics` and those below them: the names of its
/// columns, and the values by column. With `wrap`, a counter that falls counts
/// as one that has overflowed.
pub fn report(base: &Path, step: Duration, count: usize, metrics: &[&str], wrap: bool) -> Fetched {
    let mut command = Command::new(PYTHON);
    command.args(["/usr/bin/pmrep", "-z", "-o", "csv", "-P", "9"]);
    command.args(["-t", &step.as_secs_f64().to_string()]);
    command
        .args(["-s", &count.to_string(), "-a"])
        .arg(base)
        .args(metrics);
    let output = run(wrapping(&mut command, wrap));
    let mut lines = output.lines();
    let header = lines.next().expect("the first line has names");
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

/// What `pmval` prints for a metric with one value, after its first line; for a
/// counter, rates.
pub fn values(base: &Path, metric: &str, step: Duration, wrap: bool) -> Vec<Option<f64>> {
    let mut command = Command::new("pmval");
    command.args(["-z", "-w", "30", "-f", "9", "-t"]);
    command.arg(step.as_secs_f64().to_string());
    command.arg("-a").arg(base).arg(metric);
    let output = run(wrapping(&mut command, wrap));
    let lines = output
        .lines()
        .skip_while(|line| !line.starts_with("interval:"));
    let values = lines.skip(1).map(|line| {
        let (_clock, value) = line
            .split_once(' ')
            .expect("the line has a time and a value");
        value.trim().parse().ok()
    });
    values.collect()
}

fn wrapping(command: &mut Command, wrap: bool) -> &mut Command {
    // Metrics that PCP's configuration derives from others are in no archive.
    command.env("PCP_DERIVED_CONFIG", "");
    match wrap {
        true => command.env(WRAP, ""),
        false => command.env_remove(WRAP),
    }
}

/// Writes an archive with `pmlogger`, which samples this machine.
pub fn log(base: &Path, version: u8, samples: usize, configuration: &str) {
    let file = base.with_added_extension("config");
    fs::write(&file, configuration).expect("a writable folder");
    let mut command = Command::new("pmlogger");
    // It needs no daemon, and accepts no control connections.
    command.arg("-o").env("PMLOGGER_LOCAL", "1");
    command.args(["-n", NAMES]).env("PMNS_DEFAULT", NAMES);
    command.args(["-V", &version.to_string(), "-v", "5"]);
    command.args(["-s", &samples.to_string(), "-l"]);
    command.arg(base.with_added_extension("log"));
    command.arg("-c").arg(file).arg(base);
    run(&mut command);
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

/// A line of the script's output: a name and the values, separated by tabs.
fn series(line: &str) -> (String, Vec<Option<f64>>) {
    let mut words = line.split('\t');
    let name = words.next().expect("a name").to_owned();
    (name, words.map(|word| word.parse().ok()).collect())
}

/// Signed counters of 32 bits. When they overflow, libpcp adds the earlier
/// value to the instance after the right one, which may be outside of the
/// result's memory, so there is nothing to compare with.
pub const SIGNED: &str = "t.i32.counter";

/// The names of Linux's metrics.
const NAMES: &str = "/var/lib/pcp/pmns/root_linux";

/// If this variable is set, whatever its value, PCP's tools take a counter that falls
/// for one that has overflowed.
const WRAP: &str = "PCP_COUNTER_WRAP";
