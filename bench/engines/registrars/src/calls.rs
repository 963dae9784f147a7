//! Calls between registered telephones, in the flows of the workload.

use std::process::Stdio;

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
    let start = |cores: &Cores| Registrar::start(variant, flow == Flow::Authenticated, duty, cores);
    match args.variant_and_scenario().1 {
        "calls-overload" => overload(args, flow, &start).print(),
        "calls-live" => live(args, flow, &start(&Cores::all())),
        _ => {
            let server = start(&Cores::all());
            let load = Load::of(args);
            let report = storm(&Cores::all(), flow, DEVICES, &load, &server);
            drop(server);
            print(&report, flow);
        }
    }
}

/// How many calls are offered, and for how long.
struct Load {
    pace: [String; 2],
    seconds: u64,
    more: Vec<String>,
}

impl Load {
    fn of(args: &Args) -> Self {
        let seconds = args.number("seconds");
        match args.optional("offered") {
            Some(offered) => Self::offered(offered, seconds),
            None => Self::closed(args.number("outstanding"), seconds),
        }
    }

    fn offered(per_s: u64, seconds: u64) -> Self {
        Self {
            pace: ["--rate".into(), per_s.to_string()],
            seconds,
            more: Vec::new(),
        }
    }

    fn closed(outstanding: u64, seconds: u64) -> Self {
        Self {
            pace: ["--closed".into(), outstanding.to_string()],
            seconds,
            more: Vec::new(),
        }
    }

    fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|one| (*one).to_owned()));
        self
    }
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
            Self::Watched => &["--watchers", "1000"],
            Self::Authenticated => &["--auth", "device{n}:secret", "--algorithm", "MD5"],
        }
    }
}

fn storm(cores: &Cores, flow: Flow, devices: u64, load: &Load, server: &Registrar) -> Value {
    let mut command = cores.command(busyhour());
    command.args(["storm", "--calls", "--json"]);
    command.args(["--devices", &devices.to_string()]);
    command.args(["--target", &format!("127.0.0.1:{}", server.port)]);
    command.args(["--over", &format!("{}s", load.seconds)]);
    command.args(["--pid", &server.pid().to_string()]);
    command
        .args(&load.pace)
        .args(&load.more)
        .args(flow.options());
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

/// Finds the limit of a proxy that has a share of a processor, then offers it so many
/// hundredths of that limit, and measures how much succeeds.
fn overload(args: &Args, flow: Flow, start: &dyn Fn(&Cores) -> Registrar) -> Overload {
    let [here, there] = Cores::apart(SERVER_PERCENT);
    let server = start(&here);
    let seconds = args.number("seconds");
    let slots = match flow {
        Flow::Forked => FORKED_SLOTS,
        _ => SLOTS,
    };
    let load = Load::closed(slots, seconds).with(&["--settle", "500ms"]);
    let ceiling = storm(&there, flow, LARGE_FLEET, &load, &server);
    let ceiling_per_s = ceiling["goodput_per_s"].as_f64().unwrap_or(0.0);
    let offered = (ceiling_per_s * args.number("percent") as f64 / 100.0) as u64;
    let load = Load::offered(offered, seconds).with(&["--patience", "8s", "--settle", "500ms"]);
    let report = storm(&there, flow, LARGE_FLEET, &load, &server);
    Overload {
        report,
        ceiling_per_s,
    }
}

/// How many calls go as planned when a proxy gets more than it can carry.
struct Overload {
    report: Value,
    /// How many did when it got no more than it could carry.
    ceiling_per_s: f64,
}

impl Overload {
    fn print(&self) {
        let number = |name: &str| self.report[name].as_f64().unwrap_or(f64::NAN);
        let goodput_per_s = number("goodput_per_s");
        let mut output = Output::default();
        output.figure("goodput_share", goodput_per_s / self.ceiling_per_s);
        output.figure("goodput_per_s", goodput_per_s);
        output.figure("ceiling_per_s", self.ceiling_per_s);
        output.figure("begun_per_s", number("begun_per_s"));
        output.figure("answer_p50_us", number("answer_p50_us"));
        output.figure("answer_p99_us", number("answer_p99_us"));
        output.figure("retransmissions", number("retransmitted"));
        let refused = &self.report["failures"]["INVITE 503"];
        output.figure("refused", refused.as_f64().unwrap_or(0.0));
        output.check("answered", count(&self.report, "answered"));
        output.check("dropped", count(&self.report, "dropped"));
        // If the load tool could not offer its rate, the row has no meaning.
        let is_held = number("begun_per_s") >= 0.95 * number("offered");
        output.check("held", u64::from(is_held));
        output.finish();
    }
}

/// Measures the memory of calls that last until their INVITEs' transactions are freed.
fn live(args: &Args, flow: Flow, server: &Registrar) {
    let calls = args.number("calls");
    let load = Load::offered(calls / LIVE_SECONDS, LIVE_SECONDS).with(&["--talk", "40s"]);
    let report = storm(&Cores::all(), flow, calls, &load, server);
    let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    let mut output = Output::default();
    output.figure("bytes_per_live_call", number("bytes_per_live_call"));
    output.figure("bytes_per_live_call_max", number("bytes_per_live_call_max"));
    output.check("live", count(&report, "live_calls"));
    output.check("answered", count(&report, "answered"));
    output.check("failed", count(&report, "failed"));
    output.finish();
}

/// How many devices are registered.
const DEVICES: u64 = 1000;

/// So many that a call which takes long keeps no other from beginning.
const LARGE_FLEET: u64 = 20_000;

/// The share of a processor for an overloaded proxy. The load tool, which plays both sides of
/// each call, must offer twice the proxy's limit with the other processor.
const SERVER_PERCENT: u64 = 20;

/// Calls in progress when the limit is measured of a proxy that has a share of a processor,
/// and so sometimes pauses for some milliseconds.
const SLOTS: u64 = 128;

/// The same where each call rings for 50 ms.
const FORKED_SLOTS: u64 = 400;

/// How long calls begin until all of them last.
const LIVE_SECONDS: u64 = 5;
