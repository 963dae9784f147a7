//! Runs of a scenario, of all scenarios, of the seeds' tables, and of the
//! checks.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    catalogue::{Ready, ready_for},
    overview,
    params::Params,
    record,
    record::Row,
    runner::{self, GivenUp, Plan},
    scenario::{self, Scenario},
    seeds::SEEDS,
    seeds_shares::{MACHINE as COMPUTE, SHARE_TABLES},
    turns::{Turn, Turns},
};

/// How long a run may take.
pub struct Pace {
    pub quick: bool,
    /// For all scenarios of the run together.
    pub budget: Option<Duration>,
    pub rounds: usize,
    pub seed: u64,
    pub limit: Duration,
    /// The numbers of workers or threads; empty for the scenarios' own.
    pub workers: Vec<u64>,
}

/// Measures the scenarios with these names, or all; writes the record after each size, and
/// prints tables.
pub fn run(
    names: &[String],
    engines: &[String],
    pace: &Pace,
    json: Option<&Path>,
) -> Result<Vec<Row>> {
    let parts = chosen(names)?;
    if !pace.workers.is_empty() && !parts.iter().any(|part| has_workers(part)) {
        bail!("no part of these scenarios has workers or threads");
    }
    // Everything is built before any time is measured.
    let ready: Vec<_> = parts
        .iter()
        .map(|part| ready_for(part.work, if is_machine(part) { &[] } else { engines }))
        .collect::<Result<_>>()?;
    let mut record = Record::new(json);
    let mut end = None;
    if let Some(budget) = pace.budget.filter(|_| !pace.quick) {
        in_turns(&parts, &ready, pace, Instant::now() + budget, &mut record)?;
        return Ok(record.rows);
    }
    for (index, part) in parts.iter().enumerate() {
        let is_next = index == 0 || parts[index - 1].name != part.name;
        // The time for the machine's own limit counts as the first scenario's.
        if pace.quick && is_next && !(index > 0 && is_machine(parts[index - 1])) {
            end = Some(Instant::now() + QUICK_END);
        }
        let plan = pace.plan(part, &parts[index..], end);
        let given_up = &mut GivenUp::default();
        runner::run(part, &ready[index], &plan, given_up, &mut |rows| {
            record.add(rows)
        });
        record.saved()?;
        overview::print(&record.rows, part);
    }
    record.name();
    Ok(record.rows)
}

/// Runs the parts round by round, as far as there is time; writes the record after each size, and
/// prints the tables at the end.
fn in_turns(
    parts: &[&Scenario],
    ready: &[Vec<Ready>],
    pace: &Pace,
    end: Instant,
    record: &mut Record,
) -> Result<()> {
    let mut turns = Turns::new(parts.iter().map(|part| part.weight), pace.rounds);
    let mut given_up: Vec<GivenUp> = parts.iter().map(|_| GivenUp::default()).collect();
    let left = || end.saturating_duration_since(Instant::now());
    while let Some(turn) = turns.next(left()) {
        let (part, begin) = (turn.part, Instant::now());
        let plan = pace.turn_plan(parts[part], turn, end);
        let given_up = &mut given_up[part];
        runner::run(parts[part], &ready[part], &plan, given_up, &mut |rows| {
            record.add_round(rows)
        });
        record.saved()?;
        turns.took(turn, begin.elapsed());
    }
    for part in parts {
        overview::print(&record.rows, part);
    }
    record.name();
    Ok(())
}

/// Runs every engine at a tiny size for its checks only: all engines, or only
/// those named.
pub fn check(engines: &[String], scenarios: &[String]) -> Result<Vec<Row>> {
    let parts = match scenarios {
        [] => scenario::all().iter().collect(),
        names => chosen(names)?,
    };
    let mut record = Record::new(None);
    for part in parts {
        let ready = ready_for(part.work, engines)?;
        let plan = Plan {
            sizes: (part.tiny)(),
            rounds: 1,
            seed: 7,
            warm_up: 0,
            budget: None,
            end: None,
            cut: None,
            run_limit: Duration::from_secs(60),
            is_quick: false,
        };
        let given_up = &mut GivenUp::default();
        runner::run(part, &ready, &plan, given_up, &mut |rows| record.add(rows));
    }
    Ok(record.rows)
}

/// Measures what the seeds' tables need; with `only`, those whose title contains it.
pub fn seeds(rounds: usize, only: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for seed in SEEDS.iter().filter(|seed| seed.title.contains(only)) {
        let plan = seed_plan(seed.sizes(), if seed.is_long { 1 } else { rounds });
        let plan = Plan {
            warm_up: usize::from(!seed.is_long),
            ..plan
        };
        rows.extend(measured(seed.work, &seed.engines(), &plan, 1)?);
    }
    Ok(rows)
}

/// Measures what the seeds' tables of an engine against itself need. A round goes over all
/// sizes, since their figures are compared with each other; the first warms up.
pub fn seed_shares(rounds: usize, only: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for table in SHARE_TABLES {
        if table.title.contains(only) {
            let plan = seed_plan(table.sizes(), 1);
            measured(table.work, &table.engines(), &plan, 1)?;
            let later = measured(table.work, &table.engines(), &plan, rounds)?;
            rows.extend(later);
            if table.has_machine() && !rows.iter().any(|row| row.scenario == COMPUTE) {
                let part = scenario::parts(COMPUTE)[0];
                let plan = seed_plan((part.full)(), 1);
                rows.extend(measured(COMPUTE, &[], &plan, rounds)?);
            }
        }
    }
    Ok(rows)
}

/// The rows of so many runs by this plan.
fn measured(work: &str, engines: &[String], plan: &Plan, runs: usize) -> Result<Vec<Row>> {
    let parts = scenario::parts(work);
    let part = parts.first().context("a seed names an unknown scenario")?;
    let ready = ready_for(part.work, engines)?;
    let mut rows = Vec::new();
    for _ in 0..runs {
        let mut record = Record::new(None);
        let given_up = &mut GivenUp::default();
        runner::run(part, &ready, plan, given_up, &mut |rows| record.add(rows));
        record::add_rounds(&mut rows, record.rows);
    }
    Ok(rows)
}

fn seed_plan(sizes: Vec<Params>, rounds: usize) -> Plan {
    Plan {
        sizes,
        rounds,
        seed: 1,
        warm_up: 0,
        budget: None,
        end: None,
        cut: None,
        run_limit: Duration::from_secs(180),
        is_quick: false,
    }
}

impl Pace {
    /// The plan for a part of a run without a budget for all. A quick run must be over at `end`, and
    /// `parts`, including this one, are still to run.
    fn plan(&self, part: &Scenario, parts: &[&Scenario], end: Option<Instant>) -> Plan {
        let sizes = if self.quick { part.quick } else { part.full };
        Plan {
            sizes: with_workers(sizes(), &self.workers),
            rounds: match self.quick {
                true if is_machine(part) => 1,
                true => QUICK_ROUNDS.min(self.rounds),
                false => self.rounds,
            },
            seed: self.seed,
            warm_up: usize::from(!self.quick),
            budget: end.map(|end| self.share(parts, end)),
            end,
            // In a quick run, slow engines are ended after a few seconds instead.
            cut: None,
            run_limit: if self.quick { QUICK_LIMIT } else { self.limit },
            is_quick: self.quick,
        }
    }

    /// The plan for one round of a part in a run that must be over at `end`.
    fn turn_plan(&self, part: &Scenario, turn: Turn, end: Instant) -> Plan {
        Plan {
            sizes: with_workers((part.short)(), &self.workers),
            rounds: 1,
            seed: self.seed,
            warm_up: 0,
            budget: Some(turn.most),
            end: Some(end),
            cut: Some((Instant::now() + turn.most).min(end)),
            run_limit: self.limit,
            is_quick: false,
        }
    }

    /// How much of the remaining time the first of these parts may take: a quick run has a time
    /// limit for each scenario.
    fn share(&self, parts: &[&Scenario], end: Instant) -> Duration {
        let left = end.saturating_duration_since(Instant::now());
        let same = parts.iter().take_while(|part| part.name == parts[0].name);
        let weight: u32 = same.map(|part| part.weight).sum();
        left.saturating_sub(QUICK_RESERVE) * parts[0].weight / weight
    }
}

/// The rows so far, and the file that contains them.
struct Record {
    rows: Vec<Row>,
    path: Option<PathBuf>,
    failure: Option<anyhow::Error>,
}

impl Record {
    fn new(path: Option<&Path>) -> Self {
        Self {
            rows: Vec::new(),
            path: path.map(Path::to_path_buf),
            failure: None,
        }
    }

    fn add(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
        if let Some(path) = &self.path {
            self.failure = record::save(path, &self.rows).err();
        }
    }

    /// Like [`Self::add`], if there may be rounds of the same already.
    fn add_round(&mut self, rows: Vec<Row>) {
        record::add_rounds(&mut self.rows, rows);
        self.add(Vec::new());
    }

    /// Prints where it is.
    fn name(&self) {
        if let Some(path) = &self.path {
            println!("record: {}", path.display());
        }
    }

    fn saved(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// The parts to run, each once. The machine's own limit is first in every run, since other
/// figures are read beside it.
fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.iter().any(|name| name == "all") {
        return Ok(scenario::all().iter().collect());
    }
    let mut parts = scenario::parts(MACHINE);
    for name in names {
        let more = scenario::parts(name);
        if more.is_empty() {
            let mut names: Vec<_> = scenario::all().iter().map(|part| part.name).collect();
            names.dedup();
            bail!("no scenario `{name}`; there are: all, {}", names.join(", "));
        }
        for part in more {
            if parts.iter().all(|other| other.work != part.work) {
                parts.push(part);
            }
        }
    }
    Ok(parts)
}

/// Whether it measures the machine, by whatever engines the others are.
fn is_machine(part: &Scenario) -> bool {
    [MACHINE, "hand-over"].contains(&part.name)
}

fn has_workers(part: &Scenario) -> bool {
    let size = (part.tiny)();
    WORKERS
        .iter()
        .any(|key| size.iter().any(|size| size.has(key)))
}

/// Each size once with each of these numbers of workers; a size without workers as it is.
fn with_workers(sizes: Vec<Params>, workers: &[u64]) -> Vec<Params> {
    if workers.is_empty() {
        return sizes;
    }
    let mut changed = Vec::new();
    for size in sizes {
        let key = WORKERS.into_iter().find(|key| size.has(key));
        let counts = if key.is_some() { workers } else { &[0][..] };
        for count in counts {
            let size = key.map_or_else(|| size.clone(), |key| size.with(key, *count));
            if !changed.contains(&size) {
                changed.push(size);
            }
        }
    }
    changed
}

/// The parameters that say how many threads take part.
const WORKERS: [&str; 2] = ["workers", "threads"];

const MACHINE: &str = "random-access";

/// No process of a quick scenario starts after this time.
const QUICK_END: Duration = Duration::from_secs(20);
/// No round of a quick scenario starts in this last part of that time.
const QUICK_RESERVE: Duration = Duration::from_secs(6);
const QUICK_LIMIT: Duration = Duration::from_secs(8);
const QUICK_ROUNDS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(quick: bool) -> Pace {
        Pace {
            quick,
            budget: None,
            rounds: 3,
            seed: 1,
            limit: Duration::from_secs(180),
            workers: Vec::new(),
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn several_scenarios_are_measured_each_once_after_the_machine() {
        let works = |asked: &[&str]| -> Vec<_> {
            let parts = chosen(&names(asked)).unwrap();
            parts.iter().map(|part| part.work).collect()
        };
        let wanted = ["random-access", "timers", "timers-shared", "pool-external"];
        assert_eq!(works(&["timers", "pool-external", "timers-shared"]), wanted);
        assert_eq!(works(&[MACHINE]), [MACHINE]);
        let unknown = chosen(&names(&["timers", "timer"])).err().unwrap();
        assert!(unknown.to_string().starts_with("no scenario `timer`"));
    }

    #[test]
    fn other_numbers_of_workers_replace_those_of_each_size_once() {
        let asked = Pace {
            workers: vec![2, 64],
            ..pace(true)
        };
        let sizes = |name: &str| {
            let parts = scenario::parts(name);
            asked.plan(parts[0], &parts, None).sizes
        };
        let workers: Vec<_> = sizes("pool-requeue")
            .iter()
            .map(|size| size.number("workers"))
            .collect();
        assert_eq!(workers, [2, 64]);
        assert_eq!(sizes("timers"), (scenario::parts("timers")[0].quick)());
        let threads: Vec<_> = sizes("buffers")
            .iter()
            .map(|size| (size.number("threads"), size.number("live")))
            .collect();
        assert_eq!(threads, [(2, 1), (64, 1), (2, 1_000), (64, 1_000)]);
        let none = run(&names(&["storm"]), &[], &asked, None).err().unwrap();
        assert!(none.to_string().contains("workers or threads"), "{none}");
    }

    #[test]
    fn no_turn_exceeds_the_budget_of_all() {
        let parts = chosen(&names(&["all"])).unwrap();
        let budget = Duration::from_secs(18 * 60);
        let end = Instant::now() + budget;
        let mut turns = Turns::new(parts.iter().map(|part| part.weight), 3);
        for part in &parts {
            let turn = turns.next(budget).unwrap();
            let plan = pace(false).turn_plan(part, turn, end);
            assert!(plan.cut.is_some_and(|cut| cut <= end), "{}", part.work);
            assert_eq!((plan.rounds, plan.sizes), (1, (part.short)()));
        }
    }

    #[test]
    fn without_a_budget_nothing_is_cut() {
        let parts = chosen(&names(&["timers"])).unwrap();
        assert_eq!(pace(false).plan(parts[0], &parts, None).cut, None);
        let end = Some(Instant::now() + QUICK_END);
        assert_eq!(pace(true).plan(parts[0], &parts, end).cut, None);
    }
}
