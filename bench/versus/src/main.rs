//! `versus` compares Busyhour with its peers in one run.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::{
    catalogue::bench_folder,
    record::{Row, Status},
    run::Pace,
    seeds::SEEDS,
    seeds_shares::SHARE_TABLES,
};

mod catalogue;
mod check;
mod compare;
mod data_files;
mod engine;
mod input;
mod machine;
mod markdown;
mod overview;
mod page;
mod params;
mod plot;
mod process;
mod record;
mod report;
mod run;
mod runner;
mod scenario;
mod scenarios;
mod seeds;
mod seeds_shares;
mod seeds_table;
mod turns;
mod version;

/// Side-by-side benchmarks of Busyhour and its peers.
///
/// Each engine is a process of its own; engines take turns round by round, and
/// what is quoted is the ratio of rounds that ran next to each other.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  versus list                                   what can be measured, and against whom
  versus run timers --quick                     a first answer within 30 s
  versus run timers --engine busyhour,std-btreemap --json timers.json
  versus run pool-requeue --workers 2,8,64      more workers than the machine has cores
  versus compare timers.json --metric cancelled_life_ns
  versus run all --budget 18 --json all.json    every scenario at every size, within 18 minutes
  versus report all.json                        a page with plots below record/
  versus seeds                                  the five tables of the seeds, then and now

Exit codes: 0 done, 1 an engine failed its checks or a file cannot be read, 2 wrong usage.";

#[derive(Subcommand)]
enum Command {
    /// Show scenarios, their metrics and the engines that take part
    List,
    /// Build the engines of every peer that is on this machine
    Build {
        /// Only these, by name
        #[arg(long, value_delimiter = ',')]
        engine: Vec<String>,
    },
    /// Measure one scenario, several, or `all`
    Run(RunArgs),
    /// Print ratios from records
    Compare {
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The figure to compare, as `versus list` names it
        #[arg(long)]
        metric: String,
        /// Whose lead is shown
        #[arg(long, default_value = "busyhour")]
        engine: String,
    },
    /// Write a page with plots and the same tables in Markdown
    Report {
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where to; by default record/DATE-MACHINE below bench/
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Run every engine at a tiny size and check that it did the work
    Check {
        /// Only these engines, by name
        #[arg(long, value_delimiter = ',')]
        engine: Vec<String>,
        /// Only these scenarios, by name
        #[arg(long, value_delimiter = ',')]
        scenario: Vec<String>,
    },
    /// The five tables of the seeds: their figures, today's, and ours
    Seeds {
        #[arg(long, default_value_t = 3, value_parser = rounds)]
        rounds: usize,
        /// Only the tables whose title contains this
        #[arg(long, default_value = "")]
        only: String,
        /// From these records instead of a run
        #[arg(long)]
        from: Vec<PathBuf>,
    },
}

#[derive(Args)]
struct RunArgs {
    /// Names of `versus list`, or `all`
    #[arg(required = true)]
    scenario: Vec<String>,
    /// Only these engines, by name
    #[arg(long, value_delimiter = ',')]
    engine: Vec<String>,
    /// Few sizes and short rounds: an answer within 30 s
    #[arg(long)]
    quick: bool,
    /// All sizes, each for a shorter time, and no more rounds than fit into so many minutes
    #[arg(long, value_name = "MINUTES", conflicts_with = "quick", value_parser = clap::value_parser!(u64).range(1..=600))]
    budget: Option<u64>,
    /// Counted rounds; with --quick at most 3
    #[arg(long, default_value_t = 5, value_parser = rounds)]
    rounds: usize,
    /// Seed of all inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds after which one process is ended and counted as failed
    #[arg(long, default_value_t = 180)]
    limit: u64,
    /// These numbers of workers (of threads, where a scenario has those) in place of its own
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1_000))]
    workers: Vec<u64>,
    /// Write the record here, anew after each size
    #[arg(long)]
    json: Option<PathBuf>,
}

fn rounds(text: &str) -> Result<usize, String> {
    let count = text
        .parse()
        .ok()
        .filter(|count| (1..=1_000).contains(count));
    count.ok_or_else(|| "from 1 to 1000".to_owned())
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("versus: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::List => catalogue::list().map(|()| ExitCode::SUCCESS),
        Command::Build { engine } => catalogue::build(&engine).map(|()| ExitCode::SUCCESS),
        Command::Run(args) => run_scenarios(&args),
        Command::Compare {
            files,
            metric,
            engine,
        } => compare_files(&files, &metric, &engine),
        Command::Report { files, out } => report_files(&files, out),
        Command::Check { engine, scenario } => check_engines(&engine, &scenario),
        Command::Seeds { rounds, only, from } => show_seeds(rounds, &only, &from),
    }
}

fn run_scenarios(args: &RunArgs) -> Result<ExitCode> {
    let pace = Pace {
        quick: args.quick,
        budget: args.budget.map(|minutes| Duration::from_secs(60 * minutes)),
        rounds: args.rounds,
        seed: args.seed,
        limit: Duration::from_secs(args.limit),
        workers: args.workers.clone(),
    };
    let rows = run::run(&args.scenario, &args.engine, &pace, args.json.as_deref())?;
    Ok(code_of(&rows))
}

fn compare_files(files: &[PathBuf], metric: &str, engine: &str) -> Result<ExitCode> {
    let rows = record::load_all(files)?;
    if !rows.iter().any(|row| row.metric == metric) {
        bail!("no figure `{metric}` in these records; `versus list` names the figures");
    }
    println!("{}", compare::table(&rows, metric, engine));
    Ok(ExitCode::SUCCESS)
}

fn report_files(files: &[PathBuf], out: Option<PathBuf>) -> Result<ExitCode> {
    let rows = record::load_all(files)?;
    let folder = out.unwrap_or_else(|| bench_folder().join("record").join(machine::folder_name()));
    report::write(&rows, &folder)?;
    record::save(&folder.join("record.json.gz"), &rows)?;
    println!("{}", folder.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

fn check_engines(engines: &[String], scenarios: &[String]) -> Result<ExitCode> {
    let rows = run::check(engines, scenarios)?;
    for line in overview::not_ok(&rows) {
        println!("{line}");
    }
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    println!(
        "{} figures checked, {} engines failed, {} missing",
        count(Status::Ok),
        overview::engine_count(&rows, Status::Failed),
        overview::engine_count(&rows, Status::Missing)
    );
    Ok(code_of(&rows))
}

fn show_seeds(rounds: usize, only: &str, from: &[PathBuf]) -> Result<ExitCode> {
    let grids: Vec<_> = if from.is_empty() {
        // Two records, for the rounds of the same sizes ran in another order.
        let times = run::seeds(rounds, only)?;
        let shares = run::seed_shares(rounds, only)?;
        let times = SEEDS.iter().filter_map(|seed| seed.grid(&times));
        let shares = SHARE_TABLES.iter().filter_map(|table| table.grid(&shares));
        times.chain(shares).collect()
    } else {
        seeds_table::grids(&record::load_all(from)?)
    };
    let wanted = grids.iter().filter(|grid| grid.title.contains(only));
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        bail!("no figure for a table with `{only}` in its title");
    }
    for grid in &wanted {
        println!("{}", grid.table());
    }
    let losing_count: usize = wanted.iter().map(|grid| grid.losing_count()).sum();
    println!("losing rows: {losing_count}");
    Ok(ExitCode::SUCCESS)
}

fn code_of(rows: &[Row]) -> ExitCode {
    let failed = rows.iter().any(|row| row.status == Status::Failed);
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
