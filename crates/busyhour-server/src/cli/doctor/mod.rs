//! `busyhour doctor`: looks at the machine and the configuration, and says what to do.

mod calls;
mod checks;
mod collector;
mod credentials;
mod disk;
mod network;
mod outside;

use super::Failure;
use crate::{
    config::{Config, Overrides},
    console,
};
use clap::Args;
use serde::Serialize;
use std::{io::stdout, path::PathBuf};

/// Look for what will go wrong: sockets, limits, disk, clock, certificates, names, database, credentials
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Doctor {
    /// The server's configuration file
    #[arg(long, short, value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    config: Option<PathBuf>,

    /// Ask this STUN server how the server is seen from outside; given twice, whether both see the same
    #[arg(long, value_name = "HOST[:PORT]")]
    stun: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    overrides: Overrides,
}

/// What was looked at, and what was found.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Severity,
    found: String,
    /// What to do; empty if all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    advice: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Good,
    Warning,
    Problem,
}

impl Doctor {
    /// Checks everything, prints what was found, and fails if something is wrong.
    ///
    /// # Errors
    ///
    /// A problem (exit code 1), or only warnings (exit code 3).
    pub fn run(self) -> Result<(), Failure> {
        let mut findings = Vec::new();
        match Config::load_to_serve(self.config.as_deref(), &self.overrides) {
            Ok(loaded) => {
                findings.push(checks::configuration(&loaded));
                findings.extend(network::findings(&loaded.config));
                findings.extend(outside::finding(&loaded.config, &self.stun));
                findings.extend(credentials::finding(&loaded.config));
                findings.extend(calls::findings(&loaded.config));
                findings.extend(collector::finding(&loaded.config));
                findings.extend(disk::findings(&loaded.config));
                findings.extend(checks::findings(&loaded.config));
            }
            Err(problems) => findings.push(Finding::problem(
                "configuration",
                problems.to_string(),
                "mend it: nothing else can be checked before",
            )),
        }
        self.tell(&findings)?;
        judge(&findings)
    }

    fn tell(&self, findings: &[Finding]) -> Result<(), Failure> {
        if self.json {
            let worst = findings.iter().map(|finding| finding.verdict).max();
            let object = serde_json::json!({"verdict": worst, "findings": findings});
            return console::print(object).map_err(Failure::running);
        }
        let has_colours = console::is_coloured(&stdout());
        for finding in findings {
            if finding.verdict == Severity::Good && console::is_quiet() {
                continue;
            }
            console::print(finding.text(has_colours)).map_err(Failure::running)?;
        }
        Ok(())
    }
}

impl Finding {
    fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Good, found, "")
    }

    fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, found, advice)
    }

    fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, Severity::Problem, found, advice)
    }

    fn new(
        check: &'static str,
        verdict: Severity,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            verdict,
            found: found.into(),
            advice: advice.into(),
        }
    }

    fn text(&self, has_colours: bool) -> String {
        let (word, colour) = match self.verdict {
            Severity::Good => ("good", 32),
            Severity::Warning => ("warning", 33),
            Severity::Problem => ("problem", 31),
        };
        let word = match has_colours {
            true => format!("\u{1b}[{colour}m{word:<8}\u{1b}[0m"),
            false => format!("{word:<8}"),
        };
        let found = self.found.replace('\n', "\n                        ");
        let advice = match self.advice.is_empty() {
            true => String::new(),
            false => format!("\n                        → {}", self.advice),
        };
        format!("{word} {:<14} {found}{advice}", self.check)
    }
}

fn judge(findings: &[Finding]) -> Result<(), Failure> {
    let count = |verdict| findings.iter().filter(|one| one.verdict == verdict).count();
    match (count(Severity::Problem), count(Severity::Warning)) {
        (0, 0) => Ok(()),
        (0, warnings) => Err(Failure::warned(counted(warnings, "warning"))),
        (problems, _) => Err(Failure::running(counted(problems, "problem"))),
    }
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

const AFTER_HELP: &str = "\
It changes nothing, and may run beside the server. Beside the database it writes one file of
4 KiB some hundred times, and removes it. Run it as the user that the server runs as:
its limits are checked, and what it may read. With --stun it sends a datagram to that server and
nothing else; whether a firewall lets telephones in, only a telephone outside can tell.

Examples:
  busyhour doctor --config /etc/busyhour/busyhour.toml
  busyhour doctor --stun stun.example.net
  busyhour doctor --json | jq '.findings[] | select(.verdict != \"good\")'

Exit codes: 0 all is well, 1 a problem, 2 wrong usage, 3 only warnings.";
