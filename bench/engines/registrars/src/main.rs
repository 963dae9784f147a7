//! Registrars and proxies as processes on loopback, all under the same load: `busyhour
//! storm`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use kit::{Args, Output, args::refuse};
use serde_json::Value;

mod calls;
mod cores;
mod registrar;
mod usage;

use cores::Cores;
use registrar::{Duty, Registrar};
use usage::Usage;

fn main() {
    let args = Args::from_command_line();
    let (variant, scenario) = args.variant_and_scenario();
    let auth = args.optional("auth") == Some(1);
    match scenario {
        "storm-overload" => return overload(&args, variant, auth).print(),
        "calls" | "calls-ceiling" | "calls-overload" | "calls-live" => {
            return calls::run(&args, variant);
        }
        _ => {}
    }
    let duty = match scenario {
        "storm-watchers" => Duty::Watched,
        _ => Duty::Register,
    };
    let registrar = Registrar::start(variant, auth, duty, &Cores::all());
    let outcome = match scenario {
        "storm" | "storm-iax2" => offered(&args, &registrar),
        "storm-ceiling" => ceiling(&args, &registrar),
        "storm-contacts" => contacts(&args, &registrar),
        "storm-watchers" => watchers(&args, &registrar),
        other => refuse(&format!("no scenario {other}")),
    };
    drop(registrar);
    outcome.print();
}

/// Offers a rate of registrations, each of a new device.
fn offered(args: &Args, registrar: &Registrar) -> Outcome {
    let (offered, seconds) = (args.number("offered"), args.number("seconds"));
    let load = [("--devices", offered * seconds), ("--rate", offered)];
    Outcome::of(registrar, || {
        storm(args, registrar, &load, "insert", seconds)
    })
}

/// Measures how many registrations a second the registrar can process, with a
/// number of them in progress.
fn ceiling(args: &Args, registrar: &Registrar) -> Outcome {
    let (seconds, slots) = (args.number("seconds"), args.number("outstanding"));
    if args.word("kind") != Some("refresh") {
        let load = [("--devices", INSERTS_PER_S * seconds), ("--closed", slots)];
        return Outcome::of(registrar, || {
            storm(args, registrar, &load, "insert", seconds)
        });
    }
    // The load tool registers its devices before it refreshes; that cost is measured with
    // other devices and subtracted.
    let fleet = [("--devices", FLEET), ("--closed", SLOTS)];
    let inserted = Outcome::of(registrar, || {
        storm(args, registrar, &fleet, "insert", seconds)
    });
    let load = [
        ("--devices", FLEET),
        ("--first", FLEET + 1),
        ("--closed", slots),
    ];
    let both = Outcome::of(registrar, || {
        storm(args, registrar, &load, "refresh", seconds)
    });
    Outcome {
        cpu_s: both
            .cpu_s
            .zip(inserted.cpu_s)
            .map(|(both, inserted)| both - inserted),
        bytes: None,
        ..both
    }
}

/// Registers a number of devices, which then refresh in turn for a while.
fn contacts(args: &Args, registrar: &Registrar) -> Outcome {
    let count = args.number("contacts");
    let load = [("--devices", count), ("--closed", SLOTS)];
    let refreshed = Outcome::of(registrar, || {
        storm(args, registrar, &load, "refresh", args.number("seconds"))
    });
    Outcome {
        cpu_s: None,
        contacts: count,
        ..refreshed
    }
}

/// Devices register while others watch them.
fn watchers(args: &Args, registrar: &Registrar) -> Outcome {
    let load = [
        ("--devices", args.number("devices")),
        ("--watchers", args.number("watchers")),
        ("--closed", WATCHED_SLOTS),
        ("--pid", registrar.pid().into()),
    ];
    let told = Outcome::of(registrar, || storm(args, registrar, &load, "insert", 0));
    Outcome {
        cpu_s: None,
        contacts: args.number("watchers"),
        is_watched: true,
        ..told
    }
}

/// Finds the limit of a registrar that has a share of a processor, then offers
/// it so many hundredths of that limit, and measures how much succeeds.
fn overload(args: &Args, variant: &str, auth: bool) -> Overload {
    let [here, there] = Cores::apart(SERVER_PERCENT);
    let registrar = Registrar::start(variant, auth, Duty::Register, &here);
    let (seconds, kind) = (args.number("seconds"), args.word("kind").unwrap_or(""));
    let devices = match kind {
        "refresh" => FLEET,
        _ => INSERTS_PER_S * SERVER_PERCENT / 100 * seconds,
    };
    let ceiling = |first| {
        let load = [
            ("--devices", devices),
            ("--first", first),
            ("--closed", CEILING_SLOTS),
        ];
        let report = storm_on(&there, args, &registrar, &load, kind, seconds);
        report["register_per_s"].as_f64().unwrap_or(0.0)
    };
    let ceiling_per_s = ceiling(1);

    let offered = (ceiling_per_s * args.number("percent") as f64 / 100.0) as u64;
    let fleet = match kind {
        "refresh" => LARGE_FLEET,
        _ => offered * seconds,
    };
    let first = INSERTS_PER_S * seconds + 1;
    let load = [
        ("--devices", fleet),
        ("--first", first),
        ("--rate", offered),
        ("--patience", PATIENCE_S),
    ];
    let base = Usage::of_tree(registrar.pid());
    let report = storm_on(&there, args, &registrar, &load, kind, seconds);
    let used = Usage::of_tree(registrar.pid());
    let is_again = args.optional("again") == Some(1);
    Overload {
        report,
        ceiling_per_s,
        ceiling_again_per_s: is_again.then(|| ceiling(first + fleet)),
        cpu_s: used.cpu_s - base.cpu_s,
    }
}

fn storm(
    args: &Args,
    registrar: &Registrar,
    load: &[(&str, u64)],
    kind: &str,
    seconds: u64,
) -> Value {
    storm_on(&Cores::all(), args, registrar, load, kind, seconds)
}

fn storm_on(
    cores: &Cores,
    args: &Args,
    registrar: &Registrar,
    load: &[(&str, u64)],
    kind: &str,
    seconds: u64,
) -> Value {
    let protocol = args.word("protocol").unwrap_or("sip");
    let port = match protocol {
        "iax2" => registrar.iax2_port,
        _ => registrar.port,
    };
    let mut command = cores.command(busyhour());
    command.args(["storm", "--json", "--kind", kind, "--protocol", protocol]);
    command.args(["--target", &format!("127.0.0.1:{port}")]);
    for (name, value) in load {
        let unit = if *name == "--patience" { "s" } else { "" };
        command.args([name.to_string(), format!("{value}{unit}")]);
    }
    if kind == "refresh" {
        command.args(["--over", &format!("{seconds}s")]);
    }
    if args.number("auth") == 1 {
        command.args(["--auth", "device{n}:secret", "--algorithm", "MD5"]);
    }
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

/// The report of the load tool, and what the server has used meanwhile.
struct Outcome {
    report: Value,
    /// Processor time, if it is the cost of these registrations only.
    cpu_s: Option<f64>,
    /// How much memory the server has added, if only because of these contacts.
    bytes: Option<u64>,
    contacts: u64,
    is_watched: bool,
}

impl Outcome {
    fn of(registrar: &Registrar, load: impl FnOnce() -> Value) -> Self {
        let base = Usage::of_tree(registrar.pid());
        let report = load();
        let used = Usage::of_tree(registrar.pid());
        Self {
            contacts: count(&report, "acknowledged"),
            report,
            cpu_s: Some(used.cpu_s - base.cpu_s),
            bytes: Some(used.resident_bytes.saturating_sub(base.resident_bytes)),
            is_watched: false,
        }
    }

    fn print(&self) {
        let number = |name: &str| self.report[name].as_f64().unwrap_or(f64::NAN);
        let acknowledged = count(&self.report, "acknowledged");
        let mut output = Output::default();
        if let Some(cpu_s) = self.cpu_s {
            output.figure(
                "cpu_us_per_register",
                cpu_s * 1e6 / acknowledged.max(1) as f64,
            );
            output.figure("cpu_percent", cpu_s * 100.0 / number("seconds"));
        }
        if self.is_watched {
            output.figure("notify_per_s", number("notify_per_s"));
            output.figure("cpu_us_per_notify", number("cpu_us_per_notify"));
            output.figure("told_after_ms", number("told_after_ms"));
            let mib = self.bytes.unwrap_or(0) as f64 / f64::from(1 << 20);
            output.figure("memory_mib", mib);
            output.check("watchers", count(&self.report, "watchers"));
            output.check("notified", count(&self.report, "notified"));
            output.check("wrong", count(&self.report, "watchers_wrong"));
        }
        output.figure("register_per_s", number("register_per_s"));
        output.figure("p50_us", number("p50_us"));
        output.figure("p99_us", number("p99_us"));
        output.figure("p99_9_us", number("p99_9_us"));
        output.figure("retransmissions", number("retransmitted"));
        if let Some(bytes) = self.bytes.filter(|_| !self.is_watched) {
            output.figure(
                "bytes_per_contact",
                bytes as f64 / self.contacts.max(1) as f64,
            );
        }
        output.check("sent", count(&self.report, "sent"));
        output.check("acknowledged", acknowledged);
        output.check("failed", count(&self.report, "failed"));
        output.finish();
    }
}

/// How many registrations succeed when a registrar gets more than it can
/// process.
struct Overload {
    report: Value,
    /// How many it processed when it got no more than it could.
    ceiling_per_s: f64,
    /// The same afterwards, when it holds the devices of both loads.
    ceiling_again_per_s: Option<f64>,
    cpu_s: f64,
}

impl Overload {
    fn print(&self) {
        let number = |name: &str| self.report[name].as_f64().unwrap_or(0.0);
        let goodput_per_s = number("goodput_per_s");
        let mut output = Output::default();
        output.figure("goodput_share", goodput_per_s / self.ceiling_per_s);
        output.figure("goodput_per_s", goodput_per_s);
        output.figure("ceiling_per_s", self.ceiling_per_s);
        if let Some(again_per_s) = self.ceiling_again_per_s {
            output.figure("ceiling_again_per_s", again_per_s);
        }
        output.figure("begun_per_s", number("begun_per_s"));
        output.figure("p50_us", number("p50_us"));
        output.figure("p99_us", number("p99_us"));
        output.figure("cpu_percent", self.cpu_s * 100.0 / number("seconds"));
        output.check("acknowledged", count(&self.report, "acknowledged"));
        // If the load tool could not offer its rate, the row has no meaning.
        let is_held = number("begun_per_s") >= 0.95 * number("offered");
        output.check("held", u64::from(is_held));
        output.finish();
    }
}

fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or(0)
}

/// How many new devices register in a second when the limit is measured.
const INSERTS_PER_S: u64 = 20_000;

/// The number of devices that refresh in turn.
const FLEET: u64 = 20_000;

/// So many devices that almost none is still in progress when its turn comes again, at
/// 100,000 a second.
const LARGE_FLEET: u64 = 100_000;

/// How long a device of an overloaded registrar waits for its 200.
const PATIENCE_S: u64 = 1;

/// The share of a processor for an overloaded registrar. The load tool needs
/// about half a processor for as many registrations as a server processes with
/// a whole one, and must offer twice the server's limit, not counting
/// retransmissions.
const SERVER_PERCENT: u64 = 40;

/// Registrations in progress when the limit is measured of a server that has a
/// share of a processor, and so sometimes pauses for some milliseconds.
const CEILING_SLOTS: u64 = 256;

/// Registrations in progress if the scenario does not give a number.
const SLOTS: u64 = 64;

/// Registrations in progress while others watch: each is a change that causes many
/// NOTIFYs.
const WATCHED_SLOTS: u64 = 4;

/// The program of the server that is measured: `BUSYHOUR_SERVER`, or the one built from this tree. The load tool is
/// always this tree's, so that two servers get the same load.
fn server() -> PathBuf {
    std::env::var_os("BUSYHOUR_SERVER").map_or_else(|| busyhour().to_owned(), PathBuf::from)
}

/// The program that was built from this tree.
fn busyhour() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../target/release/busyhour"
    ))
}

/// The program that only copies messages, if it was built.
fn relay() -> PathBuf {
    busyhour().with_file_name("examples").join("relay")
}
