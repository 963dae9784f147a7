//! The facts of the machine that a record was made on.

use std::{fs, process::Command};

/// Names and values, for the head of a report.
pub fn facts() -> Vec<(&'static str, String)> {
    vec![
        (
            "date",
            jiff::Zoned::now().strftime("%Y-%m-%d %H:%M %Z").to_string(),
        ),
        ("processor", field("/proc/cpuinfo", "model name")),
        (
            "cores",
            std::thread::available_parallelism().map_or_else(|_| "?".to_owned(), |n| n.to_string()),
        ),
        ("memory", field("/proc/meminfo", "MemTotal")),
        (
            "system",
            first_line("/proc/version")
                .split(" (")
                .next()
                .unwrap_or_default()
                .to_owned(),
        ),
        (
            "huge pages",
            first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        ),
        (
            "commit",
            output("git", &["describe", "--always", "--dirty"]),
        ),
        ("rustc", output("rustc", &["--version"])),
        ("cc", output("cc", &["--version"])),
        ("versus", env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// The name of a record's folder: date and number of processors.
pub fn folder_name() -> String {
    let date = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
    format!("{date}-{cores}-cores")
}

fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':')).map_or_else(
        || "unknown".to_owned(),
        |(_, value)| value.trim().to_owned(),
    )
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok()
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| "not found".to_owned())
}
