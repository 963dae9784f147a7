//! `versus`: Busyhour and its peers, side by side, in one run.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

use crate::{
    engine::Engine,
    record::{Row, Status},
    runner::Plan,
    scenario::Scenario,
};

mod check;
mod compare;
mod engine;
mod input;
mod machine;
mod params;
mod plot;
mod process;
mod record;
mod report;
mod runner;
mod scenario;
mod seeds;

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
  versus run timers --engine busyhour,tokio-sleep --json timers.json
  versus compare timers.json --metric cancelled_life_ns
  versus report timers.json                     a page with plots below record/
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
    /// Measure one scenario (or `all`)
    Run {
        scenario: String,
        /// Only these engines, by name
        #[arg(long, value_delimiter = ',')]
        engine: Vec<String>,
        /// Few sizes and short rounds: an answer within 30 s
        #[arg(long)]
        quick: bool,
        /// Counted rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seed of all inputs
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Seconds after which one process is ended and counted as failed
        #[arg(long, default_value_t = 180)]
        limit: u64,
        /// Write the record here
        #[arg(long)]
        json: Option<PathBuf>,
    },
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
        #[arg(long, value_delimiter = ',')]
        engine: Vec<String>,
    },
    /// The five tables of the seeds: their figures, today's, and ours
    Seeds {
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
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
        Command::List => list(),
        Command::Build { engine } => build(&engine),
        Command::Run {
            scenario,
            engine,
            quick,
            rounds,
            seed,
            limit,
            json,
        } => {
            let pace = Pace {
                quick,
                rounds,
                seed,
                limit: Duration::from_secs(limit),
            };
            run(&scenario, &engine, &pace, json.as_deref())
        }
        Command::Compare {
            files,
            metric,
            engine,
        } => compare_files(&files, &metric, &engine),
        Command::Report { files, out } => report_files(&files, out),
        Command::Check { engine } => check_engines(&engine),
        Command::Seeds { rounds } => show_seeds(rounds),
    }
}

fn list() -> Result<ExitCode> {
    let engines = Engine::load_all(&engines_folder())?;
    for scenario in scenario::all() {
        println!("{}: {}", scenario.name, scenario.about);
        let metrics: Vec<_> = scenario
            .metrics
            .iter()
            .map(|metric| format!("{} [{}]", metric.name, metric.unit))
            .collect();
        println!("  metrics: {}", metrics.join(", "));
        for engine in engines
            .iter()
            .filter(|engine| engine.support(scenario.name).is_some())
        {
            let lacks = engine
                .support(scenario.name)
                .map_or("", |support| support.lacks.as_str());
            let partial = if lacks.is_empty() {
                String::new()
            } else {
                format!(" (partial: lacks {lacks})")
            };
            println!("  {:<24} {}{partial}", engine.name, engine.about());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn build(names: &[String]) -> Result<ExitCode> {
    let ready = ready(|engine| names.is_empty() || names.contains(&engine.name))?;
    for (engine, missing) in &ready {
        println!(
            "{:<24} {}",
            engine.name,
            missing
                .as_deref()
                .map_or("built".to_owned(), |why| format!("missing: {why}"))
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// How long a run may take.
struct Pace {
    quick: bool,
    rounds: usize,
    seed: u64,
    limit: Duration,
}

impl Pace {
    fn plan(&self, scenario: &Scenario) -> Plan {
        Plan {
            sizes: if self.quick {
                (scenario.quick)()
            } else {
                (scenario.full)()
            },
            rounds: if self.quick { 3 } else { self.rounds },
            seed: self.seed,
            warm_up: usize::from(!self.quick),
            budget: self.quick.then_some(QUICK_BUDGET),
            run_limit: self.limit,
        }
    }
}

fn run(name: &str, engines: &[String], pace: &Pace, json: Option<&Path>) -> Result<ExitCode> {
    let mut rows = Vec::new();
    for scenario in chosen(name)? {
        let ready = ready_for(scenario, engines)?;
        rows.extend(runner::run(scenario, &ready, &pace.plan(scenario)));
        for metric in scenario.metrics {
            if rows
                .iter()
                .any(|row| row.metric == metric.name && row.scenario == scenario.name)
            {
                println!("{}", overview(&rows, scenario, metric.name));
            }
        }
    }
    if let Some(path) = json {
        record::save(path, &rows)?;
        println!("record: {}", path.display());
    }
    Ok(code_of(&rows))
}

fn overview(rows: &[Row], scenario: &Scenario, metric: &str) -> comfy_table::Table {
    let mut table = compare::empty(&[
        "engine",
        "parameters",
        metric,
        "spread",
        "CPU s",
        "peak KiB",
        "busyhour is ahead by",
    ]);
    let of_metric = |row: &&Row| row.metric == metric && row.scenario == scenario.name;
    for row in rows.iter().filter(of_metric) {
        let ours = rows
            .iter()
            .filter(of_metric)
            .find(|ours| ours.engine == "busyhour" && ours.params == row.params);
        let ratio = ours
            .filter(|_| row.engine != "busyhour")
            .and_then(|ours| compare::ahead_by(ours, row));
        table.add_row([
            row.engine.clone(),
            row.params.to_string(),
            compare::figure(row),
            row.spread()
                .map_or(String::new(), |spread| format!("±{:.0} %", spread * 50.0)),
            row.cpu_s.map_or(String::new(), |cpu| format!("{cpu:.2}")),
            row.peak_kib.map_or(String::new(), |kib| kib.to_string()),
            ratio.map_or(String::new(), compare::ratio_text),
        ]);
    }
    table
}

fn compare_files(files: &[PathBuf], metric: &str, engine: &str) -> Result<ExitCode> {
    let rows = load_all(files)?;
    if !rows.iter().any(|row| row.metric == metric) {
        bail!("no figure `{metric}` in these records; `versus list` names the figures");
    }
    println!("{}", compare::table(&rows, metric, engine));
    Ok(ExitCode::SUCCESS)
}

fn report_files(files: &[PathBuf], out: Option<PathBuf>) -> Result<ExitCode> {
    let rows = load_all(files)?;
    let folder = out.unwrap_or_else(|| bench_folder().join("record").join(machine::folder_name()));
    report::write(&rows, &folder)?;
    record::save(&folder.join("record.json"), &rows)?;
    println!("{}", folder.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

fn load_all(files: &[PathBuf]) -> Result<Vec<Row>> {
    let records = files.iter().map(|file| record::load(file));
    Ok(records
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect())
}

fn check_engines(names: &[String]) -> Result<ExitCode> {
    let mut rows = Vec::new();
    for scenario in scenario::all() {
        let ready = ready_for(scenario, names)?;
        let plan = Plan {
            sizes: (scenario.tiny)(),
            rounds: 1,
            seed: 7,
            warm_up: 0,
            budget: None,
            run_limit: Duration::from_secs(60),
        };
        rows.extend(runner::run(scenario, &ready, &plan));
    }
    for row in rows.iter().filter(|row| row.status != Status::Ok) {
        println!(
            "{} / {}: {:?}: {}",
            row.scenario, row.engine, row.status, row.reason
        );
    }
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    println!(
        "{} figures checked, {} engines failed, {} missing",
        count(Status::Ok),
        count(Status::Failed),
        count(Status::Missing)
    );
    Ok(code_of(&rows))
}

fn show_seeds(rounds: usize) -> Result<ExitCode> {
    let engines = ["busyhour", "seed-before", "seed-after"].map(str::to_owned);
    let mut losing_count = 0;
    for seed in seeds::SEEDS {
        let scenario = scenario::find(seed.scenario).context("a seed names an unknown scenario")?;
        let ready = ready_for(scenario, &engines)?;
        let plan = Plan {
            sizes: seed.sizes(),
            rounds,
            seed: 1,
            warm_up: 1,
            budget: None,
            run_limit: Duration::from_secs(180),
        };
        let rows = runner::run(scenario, &ready, &plan);
        println!("{}", seed.table(&rows));
        losing_count += seed.losing_count(&rows);
    }
    println!("losing rows: {losing_count}");
    Ok(ExitCode::SUCCESS)
}

fn chosen(name: &str) -> Result<Vec<&'static Scenario>> {
    if name == "all" {
        return Ok(scenario::all().iter().collect());
    }
    let names: Vec<_> = scenario::all()
        .iter()
        .map(|scenario| scenario.name)
        .collect();
    let scenario = scenario::find(name)
        .with_context(|| format!("no scenario `{name}`; there are: all, {}", names.join(", ")))?;
    Ok(vec![scenario])
}

fn ready_for(scenario: &Scenario, names: &[String]) -> Result<Vec<(Engine, Option<String>)>> {
    let known = Engine::load_all(&engines_folder())?;
    if let Some(unknown) = names
        .iter()
        .find(|name| known.iter().all(|engine| engine.name != **name))
    {
        bail!("no engine `{unknown}`; `versus list` names them");
    }
    ready(|engine| {
        engine.support(scenario.name).is_some()
            && (names.is_empty() || names.contains(&engine.name))
    })
}

/// The wanted engines, built; with the reason for those that are missing.
fn ready(wanted: impl Fn(&Engine) -> bool) -> Result<Vec<(Engine, Option<String>)>> {
    let mut built: HashMap<PathBuf, Option<String>> = HashMap::new();
    let engines = Engine::load_all(&engines_folder())?
        .into_iter()
        .filter(wanted);
    let ready = engines.map(|engine| {
        let missing = built.entry(engine.folder.clone()).or_insert_with(|| {
            eprintln!("building {}", engine.name);
            engine.build().err().map(|error| format!("{error:#}"))
        });
        let missing = missing.clone();
        (engine, missing)
    });
    Ok(ready.collect())
}

fn code_of(rows: &[Row]) -> ExitCode {
    let failed = rows.iter().any(|row| row.status == Status::Failed);
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn bench_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

fn engines_folder() -> PathBuf {
    bench_folder().join("engines")
}

/// Leaves room below the 30 s for building and for the last processes.
const QUICK_BUDGET: Duration = Duration::from_secs(22);
