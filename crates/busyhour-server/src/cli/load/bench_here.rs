use crate::cli::{Failure, service::database};
use crate::{
    config::{Config, StoreOverrides},
    console,
};
use busyhour_storm::Storm;
use clap::{Args, Parser};
use std::{
    cell::RefCell,
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Measure how many registrations this machine takes, in about half a minute
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct BenchHere {
    /// The server's configuration file, which names the folder of the database
    #[arg(long, short, value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    config: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    overrides: StoreOverrides,
}

/// A server of its own, on ports that the system chooses and in a folder that goes.
struct TrialServer {
    child: Child,
    folder: PathBuf,
    sip: String,
}

#[derive(Parser)]
struct StormAlone {
    #[command(flatten)]
    storm: Storm,
}

impl BenchHere {
    /// Starts a server beside the others, registers devices at it at a growing rate, and
    /// says which rate it held.
    ///
    /// # Errors
    ///
    /// If the server cannot be started, or holds not even the first rate.
    pub fn run(self) -> Result<(), Failure> {
        let config = Config::load(self.config.as_deref(), &self.overrides.0)?.config;
        let place = database(&config.store);
        let place = place.parent().filter(|place| place.is_dir());
        let place = place.map_or_else(env::temp_dir, Path::to_owned);
        console_progress(&format!(
            "a trial server, with its database in {}",
            place.display()
        ));
        let server = TrialServer::start(&place)?;
        console_progress("registering new devices, at a rate that grows by half every 2 s");
        let steps = ramp(&server.sip, server.child.id())?;
        drop(server);
        self.tell(&steps, &place)
    }

    fn tell(&self, steps: &[serde_json::Value], place: &Path) -> Result<(), Failure> {
        // The last step is the one that failed.
        let held = steps.iter().rev().nth(1).ok_or_else(|| {
            Failure::running("not even the first rate was held: is the machine busy?")
        })?;
        let per_second = held["offered"].as_f64().unwrap_or_default();
        let p99_ms = held["p99_us"].as_f64().unwrap_or_default() / 1000.0;
        let cpu = held["cpu_percent"].as_f64().unwrap_or_default();
        let telephones = per_second * REFRESH_SECONDS;
        if self.json {
            let object = serde_json::json!({
                "registrations_per_second": per_second, "p99_ms": p99_ms, "cpu_percent": cpu,
                "telephones": telephones, "folder": place, "steps": steps,
            });
            return console::print(object).map_err(Failure::running);
        }
        console::print(format_args!(
            "This machine takes {per_second:.0} new registrations a second, each on the disk before it is\n\
             acknowledged; 99 of 100 within {p99_ms:.1} ms, with {cpu:.0} % of one processor.\n\
             After a power cut, 12,000 telephones are back in {:.0} s.\n\
             If each refreshes every half hour, that is enough for {telephones:.0} telephones. The load tool\n\
             ran on the same processors, so a machine of its own takes more. Plan with half of it.",
            (12_000.0 / per_second).ceil()
        ))
        .map_err(Failure::running)
    }
}

impl TrialServer {
    fn start(place: &Path) -> Result<Self, Failure> {
        let folder = place.join(format!(".busyhour-bench-{}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(|error| Failure::running(format!("{}: {error}", folder.display())))?;
        let program = env::current_exe().map_err(Failure::running)?;
        let mut command = Command::new(program);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("BUSYHOUR_") {
                command.env_remove(name);
            }
        }
        command.args([
            "serve",
            "--quiet",
            "--log-level",
            "error",
            "--sip-auth",
            "open",
        ]);
        command.args([
            "--sip-listen",
            "127.0.0.1:0",
            "--sip-tcp",
            "off",
            "--iax2-listen",
            "off",
        ]);
        command.args(["--http-listen", "off", "--http-socket", "off"]);
        command.args(["--limits-source-percent", "100", "--store-path"]);
        command.arg(folder.join("busyhour.db"));
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| {
            let _ = fs::remove_dir_all(&folder);
            Failure::running(format!("the trial server cannot be started: {error}"))
        })?;
        let mut line = String::new();
        let output = child.stdout.take();
        let _ = output.map(|output| BufReader::new(output).read_line(&mut line));
        let mut words = line.split_whitespace();
        let sip = words
            .find_map(|word| word.strip_prefix("sip-udp="))
            .map(str::to_owned);
        let server = Self {
            child,
            folder,
            sip: sip.unwrap_or_default(),
        };
        match server.sip.is_empty() {
            true => Err(Failure::running("the trial server did not become ready")),
            false => Ok(server),
        }
    }
}

impl Drop for TrialServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The reports of all steps, the last of which was too much.
fn ramp(target: &str, pid: u32) -> Result<Vec<serde_json::Value>, Failure> {
    let pid = pid.to_string();
    let words = [
        "storm", "--ramp", "--step", "2s", "--json", "--target", target, "--pid", &pid,
    ];
    let storm = StormAlone::try_parse_from(words)
        .map_err(Failure::running)?
        .storm;
    let report = RefCell::new(String::new());
    let keep = |text: &dyn std::fmt::Display| -> Result<(), String> {
        *report.borrow_mut() = text.to_string();
        Ok(())
    };
    storm.run(&|text| keep(&text)).map_err(Failure::running)?;
    serde_json::from_str(&report.into_inner()).map_err(Failure::running)
}

/// Who waits half a minute wants to know for what.
fn console_progress(text: &str) {
    if !console::is_quiet() {
        console::print_error(text);
    }
}

/// Half of the default lifetime of a binding: when telephones refresh.
const REFRESH_SECONDS: f64 = 1800.0;

const AFTER_HELP: &str = "\
It starts a server of its own on free ports of the loopback, with a database in the folder where
yours is, since the disk decides. A server that runs is not touched, but shares the machine.

Exit codes: 0 measured, 1 it cannot be started or the machine is too busy, 2 wrong usage.";
