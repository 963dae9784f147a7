//! Calls between registered telephones, in the flows of the workload.

use std::process::{Command, Stdio};

use kit::{Args, Output, args::refuse};
use serde_json::Value;

use crate::{
    busyhour,
    cores::Cores,
    count,
    registrar::{Duty, Registrar},
};

/// Starts a server, lets its telephones call each other, and prints the figures.
pub fn run(args: &Args, variant: &str) {
    let flow = Flow::named(args.word("flow").unwrap_or(""));
    let duty = match flow {
        Flow::Watched => Duty::WatchedCall,
        _ => Duty::Call,
    };
    let server = Registrar::start(variant, flow == Flow::Authenticated, duty, &Cores::all());
    let report = storm(args, flow, &server);
    drop(server);
    print(&report, flow);
}

/// What becomes of each call. All have Record-Route, and end as soon as they are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// One contact answers at once.
    Plain,
    /// Two contacts ring, one answers, and the other is cancelled.
    Forked,
    /// As plain, with a watcher for each called device.
    Watched,
    /// As plain, and the server asks the caller for a password.
    Authenticated,
}

impl Flow {
    fn named(name: &str) -> Self {
        match name {
            "plain" => Self::Plain,
            "forked" => Self::Forked,
            "watched" => Self::Watched,
            "authenticated" => Self::Authenticated,
            other => refuse(&format!("no flow {other}")),
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Forked => &["--forks", "2", "--ring", "50ms"],
            Self::Watched => &["--watchers", DEVICES],
            Self::Authenticated => &["--auth", "device{n}:secret", "--algorithm", "MD5"],
        }
    }
}

fn storm(args: &Args, flow: Flow, server: &Registrar) -> Value {
    let mut command = Command::new(busyhour());
    command.args(["storm", "--calls", "--json", "--devices", DEVICES]);
    command.args(["--target", &format!("127.0.0.1:{}", server.port)]);
    command.args(["--over", &format!("{}s", args.number("seconds"))]);
    command.args(["--pid", &server.pid().to_string()]);
    match args.optional("offered") {
        Some(offered) => command.args(["--rate", &offered.to_string()]),
        None => command.args(["--closed", &args.number("outstanding").to_string()]),
    };
    command.args(flow.options());
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("busyhour storm runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(&output.stdout);
        refuse(&format!(
            "busyhour storm printed no report: {error}: {text}"
        ))
    })
}

fn print(report: &Value, flow: Flow) {
    let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    let mut output = Output::default();
    output.figure("cpu_us_per_call", number("cpu_us_per_call"));
    output.figure("calls_per_s", number("calls_per_s"));
    output.figure("answer_p50_us", number("answer_p50_us"));
    output.figure("answer_p99_us", number("answer_p99_us"));
    output.figure("ringing_p99_us", number("ringing_p99_us"));
    output.figure("retransmissions", number("retransmitted"));
    if flow == Flow::Watched {
        output.figure("notify_p50_us", number("notify_p50_us"));
        output.figure("notify_p99_us", number("notify_p99_us"));
        output.figure("states_skipped", number("lamps_skipped"));
        output.figure("states_stale", number("lamps_stale"));
        output.figure("lamps_wrong", number("lamps_wrong"));
    }
    output.check("calls", count(report, "calls"));
    output.check("answered", count(report, "answered"));
    output.check("failed", count(report, "failed"));
    output.check("unexpected", count(report, "unexpected"));
    output.check("cancelled_contacts", count(report, "cancelled_contacts"));
    output.check("lamps_stale", count(report, "lamps_stale"));
    output.check("lamps_wrong", count(report, "lamps_wrong"));
    output.finish();
}

/// How many devices are registered.
const DEVICES: &str = "1000";
