//! Registrars as processes on loopback, under the same load: `busyhour storm`.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use kit::{Args, Output, args::refuse};
use serde_json::Value;

mod registrar;
mod usage;

use registrar::Registrar;
use usage::Usage;

fn main() {
    let args = Args::from_command_line();
    let (variant, scenario) = args.variant_and_scenario();
    if scenario != "storm" {
        refuse(&format!("no scenario {scenario}"));
    }
    let registrar = Registrar::start(variant, args.number("auth") == 1);
    let (offered, count) = (
        args.number("offered"),
        args.number("offered") * args.number("seconds"),
    );
    let base = Usage::of_tree(registrar.pid());
    let report = storm(&registrar, offered, count, args.number("auth") == 1);
    let used = Usage::of_tree(registrar.pid());
    drop(registrar);
    print(&report, &base, &used, args.number("seconds") as f64);
}

fn storm(registrar: &Registrar, offered: u64, count: u64, auth: bool) -> Value {
    let mut command = Command::new(busyhour());
    command
        .args(["storm", "--json", "--target"])
        .arg(format!("127.0.0.1:{}", registrar.port));
    command.args([
        "--devices",
        &count.to_string(),
        "--rate",
        &offered.to_string(),
    ]);
    if auth {
        command.args(["--auth", "device{n}:secret", "--algorithm", "MD5"]);
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("busyhour storm runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        refuse(&format!(
            "busyhour storm printed no report: {error}: {}",
            String::from_utf8_lossy(&output.stdout)
        ))
    })
}

fn print(report: &Value, base: &Usage, used: &Usage, seconds: f64) {
    let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    let count = |name: &str| report[name].as_u64().unwrap_or(0);
    let acknowledged = count("acknowledged");
    let mut output = Output::default();
    output.figure(
        "cpu_us_per_register",
        (used.cpu_s - base.cpu_s) * 1e6 / acknowledged.max(1) as f64,
    );
    output.figure(
        "cpu_percent",
        (used.cpu_s - base.cpu_s) * 100.0 / seconds.max(number("seconds")),
    );
    output.figure("register_per_s", number("register_per_s"));
    output.figure("p50_us", number("p50_us"));
    output.figure("p99_us", number("p99_us"));
    let grown = used.resident_bytes.saturating_sub(base.resident_bytes);
    output.figure(
        "bytes_per_contact",
        grown as f64 / acknowledged.max(1) as f64,
    );
    output.check("sent", count("sent"));
    output.check("acknowledged", acknowledged);
    output.check("failed", count("failed"));
    output.finish();
}

/// The binary that this tree has built.
fn busyhour() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../target/release/busyhour"
    ))
}
