//! The command line: each subcommand has one file, and an argument struct with `run`.

mod serve;
mod show;
mod listening_process;
mod running_server;
mod which_server;
mod service;
mod announce;
mod reload;
mod signals;
mod certificates;
mod cluster;
mod configuration;
mod device;
mod digest;
mod domain;
mod doctor;
mod failure;
mod load;
mod reference;
mod store;
mod token;
mod top;
mod trace;
mod trial_storm;
mod webhook;

pub use cluster::ClusterCommand;
pub use configuration::{CheckConfig, Init};
pub use device::DeviceCommand;
pub use digest::Digest;
pub use doctor::Doctor;
pub use domain::DomainCommand;
pub use failure::Failure;
pub use load::{BenchHere, StormCommand};
pub use reference::{Completions, Reference};
pub use serve::Serve;
pub use show::Show;
pub use store::{BackupCommand, RestoreCommand};
pub use token::MakeToken;
pub use top::Top;
pub use trace::TraceCommand;
pub use webhook::WebhookCommand;

use crate::console::{self, Style};
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::{env, process::ExitCode};

/// Parses the arguments, runs the subcommand and returns the program's exit code.
///
/// `commit` is that of the sources, which `--version` tells.
pub fn main(commit: Option<&'static str>) -> ExitCode {
    // For packages and the book. Completions show every command, so this one is none of them.
    let done = match env::args().nth(1).as_deref() {
        Some("reference") => Reference::parse_from(env::args().skip(1)).run(),
        _ => parse(commit).and_then(Cli::run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn parse(commit: Option<&'static str>) -> Result<Cli, Failure> {
    let commit = commit.filter(|commit| !commit.is_empty());
    let commit = commit.unwrap_or("unknown");
    let version = format!("{} (commit {commit})", env!("CARGO_PKG_VERSION"));
    // Help has colours, too, and is written while the arguments are read.
    let colour = match env::args().any(|word| word == "--color=never") {
        true => ColorChoice::Never,
        false => ColorChoice::Auto,
    };
    let command = Cli::command().version(version).color(colour);
    let matches = command.try_get_matches().map_err(refused)?;
    Cli::from_arg_matches(&matches).map_err(refused)
}

/// The program's commands, as `--help`, man pages and completions show them.
fn whole_command() -> clap::Command {
    Cli::command()
}

/// Reports a mistake in the arguments in one line, as every failure. Help and version
/// are printed, and end the program.
fn refused(error: clap::Error) -> Failure {
    use clap::error::ErrorKind;
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let about = text.split("\nUsage: ").next().unwrap_or_default();
    let about = about.split("\nFor more information").next();
    let lines = about.unwrap_or_default().lines().map(str::trim);
    let line = one_line(lines.filter(|line| !line.is_empty()));
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let line = (PLAIN.iter()).fold(line.to_owned(), |line, (said, plain)| {
        line.replace(&format!(": {said}"), &format!(": {plain}"))
    });
    Failure::usage(format!("{line}; see --help"))
}

/// Lines below a colon are a list. Brackets belong to the text before them.
fn one_line<'t>(lines: impl Iterator<Item = &'t str>) -> String {
    let (mut joined, mut is_list) = (String::new(), false);
    for line in lines {
        joined += match line {
            _ if joined.is_empty() || joined.ends_with(':') => "",
            _ if line.starts_with('[') => "",
            _ if is_list && !line.starts_with("tip: ") => ",",
            _ => ";",
        };
        if !joined.is_empty() {
            joined.push(' ');
        }
        is_list = joined.ends_with(": ") || (is_list && joined.ends_with(", "));
        joined += line;
    }
    joined
}

/// A registration, presence and device-state server that stays flat through the busy hour.
#[derive(Debug, Parser)]
#[command(name = "busyhour", version, after_help = AFTER_HELP, arg_required_else_help = true)]
#[command(propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    style: WritingStyle,

    #[command(subcommand)]
    command: Command,
}

/// How every command writes.
#[derive(Debug, Args)]
struct WritingStyle {
    /// Say only what was asked for, and what failed
    #[arg(long, short, global = true, help_heading = "Output")]
    quiet: bool,

    /// Colours: on a terminal and without NO_COLOR (auto), always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        help_heading = "Output",
        hide_possible_values = true
    )]
    color: Option<Colour>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

impl Cli {
    fn run(self) -> Result<(), Failure> {
        console::set_style(Style {
            is_quiet: self.style.quiet,
            is_coloured: match self.style.color {
                None | Some(Colour::Auto) => None,
                Some(Colour::Always) => Some(true),
                Some(Colour::Never) => Some(false),
            },
        });
        self.command.run()
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    Init(Init),
    CheckConfig(CheckConfig),
    Device(DeviceCommand),
    Domain(DomainCommand),
    Show(Show),
    Cluster(ClusterCommand),
    Top(Top),
    Trace(TraceCommand),
    Token(MakeToken),
    Webhook(WebhookCommand),
    Backup(BackupCommand),
    Restore(RestoreCommand),
    Doctor(Doctor),
    BenchHere(BenchHere),
    Storm(Box<StormCommand>),
    Digest(Box<Digest>),
    Completions(Completions),
}

impl Command {
    fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(command) => command.run(),
            Self::Init(command) => command.run(),
            Self::Top(command) => command.run(),
            Self::Doctor(command) => command.run(),
            Self::BenchHere(command) => command.run(),
            Self::Storm(command) => command.run(),
            Self::CheckConfig(command) => command.run(),
            Self::Device(command) => command.run(),
            Self::Domain(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Cluster(command) => command.run(),
            Self::Trace(command) => command.run(),
            Self::Token(command) => command.run(),
            Self::Webhook(command) => command.run(),
            Self::Backup(command) => command.run(),
            Self::Restore(command) => command.run(),
            Self::Digest(command) => command.run(),
            Self::Completions(command) => command.run(),
        }
    }
}

/// The standard library's message about a value, and ours, which says what to do.
const PLAIN: [(&str, &str); 6] = [
    ("invalid digit found in string", "give a whole number"),
    (
        "cannot parse integer from empty string",
        "give a whole number",
    ),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "number would be zero for non-zero type",
        "give a number from 1",
    ),
    (
        "invalid socket address syntax",
        "give an address and port such as 127.0.0.1:5060 or [::1]:5060",
    ),
    (
        "invalid IP address syntax",
        "give an address such as 127.0.0.1 or ::1",
    ),
];

const AFTER_HELP: &str = "\
Examples:
  busyhour serve                          serve SIP on 127.0.0.1:5060, the dashboard on :8080
  busyhour serve --config busyhour.toml   the same, configured by a file
  busyhour init                           ask five questions and write busyhour.toml
  busyhour check-config busyhour.toml     report every mistake in the file, with line and column
  busyhour device add alice               let alice register; asks for her password
  busyhour domain add a.example           a domain with accounts of its own
  busyhour show queues                    what waits in the server that runs
  busyhour top                            rates, latencies and queues, second by second
  busyhour doctor                         what is wrong with this machine, and what to do
  busyhour trace alice                    the SIP messages of alice's devices, live
  busyhour token add grafana              let a program use the HTTP interface
  busyhour storm                          register 12,000 devices over a minute, and measure
  busyhour digest ARCHIVE                 render every metric of a PCP archive

Exit codes:
  0  done, or stopped by SIGTERM or SIGINT after draining
  1  failed while starting or running: port in use, database unwritable or locked, …
  2  wrong usage or configuration
  3  doctor found warnings, and no problem";
