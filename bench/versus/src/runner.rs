//! Runs a scenario: every engine at every size, in turn within each round, so
//! that changes of the machine's speed affect all of them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};

use crate::{
    data_files,
    engine::{Contract, Engine},
    params::Params,
    process::{Run, TooSlow},
    record::{Row, Status, median},
    scenario::{Metric, Scenario},
};

/// What to run, and for how long.
pub struct Plan {
    pub sizes: Vec<Params>,
    /// The number of rounds that count.
    pub rounds: usize,
    pub seed: u64,
    /// The number of rounds before those. They are discarded, unless the time runs out
    /// before all rounds have been run.
    pub warm_up: usize,
    /// No new round of a size starts after its share of this time is used up.
    pub budget: Option<Duration>,
    /// No process starts after this.
    pub end: Option<Instant>,
    /// Processes that run at this time are ended, so that the budget is kept.
    pub cut: Option<Instant>,
    /// The longest time for a process.
    pub run_limit: Duration,
    /// In a quick run, an engine that runs too long is left out; this is no failure.
    pub is_quick: bool,
}

/// How long a process may run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// A process that runs longer is too slow.
    Slow(Duration),
    /// The budget has no more time for it.
    Budget(Duration),
}

impl Plan {
    /// The limit for the next process: half of the remaining time, unless it is the last
    /// one, so that a slow engine leaves some time to those after it.
    fn limit(&self, is_last: bool) -> Limit {
        let left = self
            .cut
            .map(|cut| cut.saturating_duration_since(Instant::now()));
        let share = left.map(|left| if is_last { left } else { left / 2 });
        match share.filter(|share| *share < self.run_limit) {
            Some(share) => Limit::Budget(share),
            None if self.is_quick => Limit::Budget(self.run_limit),
            None => Limit::Slow(self.run_limit),
        }
    }
}

/// Measures `engines` by `plan`; those that are missing have the reason, and those that were given
/// up are not tried again. `note` gets the rows of each size when they are complete.
pub fn run(
    scenario: &Scenario,
    engines: &[(Engine, Option<String>)],
    plan: &Plan,
    given_up: &mut GivenUp,
    note: &mut dyn FnMut(Vec<Row>),
) {
    let bar = progress(plan, engines.len());
    let end = plan.budget.map(|budget| Instant::now() + budget);
    for (index, params) in plan.sizes.iter().enumerate() {
        bar.set_prefix(format!("{} {params}", scenario.name));
        let left = (plan.sizes.len() - index) as u32;
        let deadline = end.map(|end| Instant::now() + (end - Instant::now()) / left);
        let mut size = Size::new(scenario, params.with("seed", plan.seed), engines);
        size.refuse(given_up);
        size.all_rounds(plan, deadline, left == 1, &bar);
        given_up.note(&size);
        bar.set_position(((index + 1) * (plan.warm_up + plan.rounds) * engines.len()) as u64);
        note(size.finish(params));
    }
    bar.finish_and_clear();
}

/// The engines that were ended for being too slow, with the size and the limit; larger
/// sizes are not tried.
#[derive(Default)]
pub struct GivenUp(BTreeMap<String, (u64, Status)>);

impl GivenUp {
    fn note(&mut self, size: &Size) {
        let ended = |entry: &&Entry| entry.is_too_slow && entry.status != Status::Ok;
        for entry in size.entries.iter().filter(ended) {
            let slow = (size.at(), entry.status);
            let first = self.0.entry(entry.engine.name.clone()).or_insert(slow);
            *first = if slow.0 < first.0 { slow } else { *first };
        }
    }
}

/// All engines at one size.
struct Size<'a> {
    scenario: &'a Scenario,
    params: Params,
    entries: Vec<Entry<'a>>,
}

/// One engine at one size.
struct Entry<'a> {
    engine: &'a Engine,
    contract: Contract,
    figures: BTreeMap<String, Vec<f64>>,
    checks: Map<String, Value>,
    cpu_s: Vec<f64>,
    peak_kib: u64,
    status: Status,
    reason: String,
    is_too_slow: bool,
}

impl<'a> Size<'a> {
    fn new(
        scenario: &'a Scenario,
        params: Params,
        engines: &'a [(Engine, Option<String>)],
    ) -> Self {
        let wanted = engines
            .iter()
            .filter(|(engine, _)| engine.takes(scenario.work, &params));
        let entries =
            wanted.map(|(engine, missing)| Entry::new(scenario, engine, missing.as_deref()));
        let entries = entries.collect();
        Self {
            scenario,
            params,
            entries,
        }
    }

    /// The value on the scenario's axis.
    fn at(&self) -> u64 {
        self.params.number(self.scenario.axis)
    }

    fn refuse(&mut self, given_up: &GivenUp) {
        let (at, axis) = (self.at(), self.scenario.axis);
        for entry in &mut self.entries {
            let slow = given_up.0.get(&entry.engine.name);
            match slow.filter(|(slow_at, _)| at >= *slow_at) {
                Some((slow_at, Status::Cut)) => {
                    entry.cut(format!("not run: budget ({CUT} at {axis} = {slow_at})"));
                }
                Some((slow_at, _)) => {
                    entry.fail(format!("not tried: too slow at {axis} = {slow_at}"))
                }
                None => {}
            }
        }
    }

    /// Runs rounds until all have been run or the deadline has come; at least
    /// one.
    fn all_rounds(
        &mut self,
        plan: &Plan,
        deadline: Option<Instant>,
        is_last: bool,
        bar: &ProgressBar,
    ) {
        let wanted = plan.warm_up + plan.rounds;
        let mut count = 0;
        while count < wanted && !(count > 0 && is_over(deadline)) {
            self.round(plan, is_last, bar);
            count += 1;
        }
        let surplus = count.saturating_sub(plan.rounds);
        self.entries
            .iter_mut()
            .for_each(|entry| entry.forget_first(surplus));
    }

    fn round(&mut self, plan: &Plan, is_last: bool, bar: &ProgressBar) {
        data_files::read_ahead(self.scenario.work);
        let entries = self.entries.iter_mut();
        let mut running = entries.filter(|entry| entry.is_running()).peekable();
        while let Some(entry) = running.next() {
            bar.set_message(entry.engine.name.clone());
            if is_over(plan.end) || is_over(plan.cut) {
                entry.cut(NOT_RUN.to_owned());
            } else {
                let limit = plan.limit(is_last && running.peek().is_none());
                entry.measure(self.scenario, &self.params, limit);
            }
            bar.inc(1);
        }
    }

    fn finish(mut self, params: &Params) -> Vec<Row> {
        self.fail_those_that_disagree();
        let scenario = self.scenario;
        self.entries
            .into_iter()
            .flat_map(|entry| entry.rows(scenario, params))
            .collect()
    }

    /// Fails engines with the full contract whose results differ.
    fn fail_those_that_disagree(&mut self) {
        let expect = (self.scenario.expect)(&self.params);
        for name in expect.agree {
            let full =
                |entry: &&mut Entry| entry.contract == Contract::Full && entry.status == Status::Ok;
            let mut reference: Option<f64> = None;
            for entry in self.entries.iter_mut().filter(full) {
                let value = entry.checks.get(name).and_then(Value::as_f64);
                let wanted = *reference.get_or_insert(value.unwrap_or(f64::NAN));
                let differs =
                    value.is_none_or(|value| (value - wanted).abs() > 1e-9 * wanted.abs());
                if differs {
                    entry.fail(format!(
                        "{name} is {value:?}, the first engine's is {wanted}"
                    ));
                }
            }
        }
    }
}

impl<'a> Entry<'a> {
    fn new(scenario: &Scenario, engine: &'a Engine, missing: Option<&str>) -> Self {
        let contract = engine
            .support(scenario.work)
            .map_or(Contract::Partial, |support| support.contract);
        Self {
            engine,
            contract,
            figures: BTreeMap::new(),
            checks: Map::new(),
            cpu_s: Vec::new(),
            peak_kib: 0,
            status: if missing.is_some() {
                Status::Missing
            } else {
                Status::Ok
            },
            reason: missing.unwrap_or_default().to_owned(),
            is_too_slow: false,
        }
    }

    /// Whether it takes part in the next round.
    fn is_running(&self) -> bool {
        self.status == Status::Ok && !self.is_too_slow
    }

    fn measure(&mut self, scenario: &Scenario, params: &Params, limit: Limit) {
        let (Limit::Slow(longest) | Limit::Budget(longest)) = limit;
        let command = self.engine.command(scenario.work, params);
        match command.and_then(|command| Run::measure(command, longest)) {
            Ok(run) => self.accept(scenario, params, run),
            Err(error) => {
                self.is_too_slow = error.is::<TooSlow>();
                match (error.downcast(), limit) {
                    (Ok(TooSlow(after)), Limit::Budget(_)) => {
                        self.cut(format!("{CUT} after {:.1} s", after.as_secs_f64()));
                    }
                    (Ok(slow), _) => self.fail(slow.to_string()),
                    (Err(error), _) => self.fail(format!("{error:#}")),
                }
            }
        }
    }

    fn accept(&mut self, scenario: &Scenario, params: &Params, run: Run) {
        let expect = (scenario.expect)(params);
        if let Some(violation) = expect.violation(&run.checks, self.contract == Contract::Full) {
            return self.fail(violation);
        }
        self.checks = run.checks;
        self.cpu_s.push(run.cpu_s);
        self.peak_kib = self.peak_kib.max(run.peak_kib);
        for measurement in run.measurements {
            let figures = self.figures.entry(measurement.metric).or_default();
            figures.push(measurement.value);
        }
    }

    /// Drops the first rounds, which warmed the machine up. An engine that was cut may
    /// have no other rounds; then they are kept.
    fn forget_first(&mut self, count: usize) {
        for figures in self.figures.values_mut().chain([&mut self.cpu_s]) {
            figures.drain(..count.min(figures.len().saturating_sub(1)));
        }
    }

    /// The budget is used up: the engine keeps the figures of earlier rounds, if there
    /// are any.
    fn cut(&mut self, reason: String) {
        if self.cpu_s.is_empty() {
            self.status = Status::Cut;
            self.reason = reason;
        }
    }

    fn fail(&mut self, reason: String) {
        self.status = Status::Failed;
        self.reason = reason;
    }

    /// A row for each figure. Without figures, a row for each figure of the scenario, so
    /// that no engine is missing from the tables.
    fn rows(self, scenario: &Scenario, params: &Params) -> Vec<Row> {
        let is_there =
            |metric: &&Metric| self.status != Status::Ok || self.figures.contains_key(metric.name);
        let metrics = scenario.metrics.iter().filter(is_there);
        metrics
            .map(|metric| self.row(scenario, params, metric))
            .collect()
    }

    fn row(&self, scenario: &Scenario, params: &Params, metric: &Metric) -> Row {
        let is_ok = self.status == Status::Ok;
        let rounds = self
            .figures
            .get(metric.name)
            .filter(|_| is_ok)
            .cloned()
            .unwrap_or_default();
        Row {
            scenario: scenario.name.to_owned(),
            engine: self.engine.name.clone(),
            params: params.clone(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            better: metric.better,
            median: median(&rounds),
            min: rounds.iter().copied().reduce(f64::min),
            max: rounds.iter().copied().reduce(f64::max),
            runs: rounds.len(),
            cpu_s: median(&self.cpu_s).filter(|_| is_ok),
            peak_kib: Some(self.peak_kib).filter(|_| is_ok),
            contract: self.contract,
            status: self.status,
            reason: self.reason.clone(),
            rounds,
        }
    }
}

/// The status of an engine that was being measured when the time was over.
const CUT: &str = "cut at the budget";

/// The status of an engine that was not started before that.
const NOT_RUN: &str = "not run: budget";

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn progress(plan: &Plan, engine_count: usize) -> ProgressBar {
    let total = plan.sizes.len() * (plan.warm_up + plan.rounds) * engine_count;
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {prefix} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total as u64).with_style(style)
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::PathBuf};

    use super::*;

    /// An engine that never ends at 1,000 metrics or more, and ends at once below; it has
    /// a folder of its own.
    struct Sleeper {
        folder: PathBuf,
        engines: Vec<(Engine, Option<String>)>,
    }

    impl Sleeper {
        fn new(name: &str) -> Self {
            let folder = env::temp_dir().join(format!("versus-{name}-{}", std::process::id()));
            fs::create_dir_all(folder.join(name)).unwrap();
            fs::write(folder.join(name).join("run.sh"), SCRIPT).unwrap();
            let about = "about = 'sleeps'\nbuild = []\nrun = ['sh', 'run.sh']";
            let engine = "[[engine]]\nname = 'sleeper'\nscenarios.digest.contract = 'full'";
            let manifest = folder.join(name).join("engine.toml");
            fs::write(manifest, format!("{about}\n{engine}\n")).unwrap();
            let engines = Engine::load_all(&folder).unwrap();
            Self {
                folder,
                engines: engines.into_iter().map(|engine| (engine, None)).collect(),
            }
        }

        /// The statuses that are recorded for it at these sizes, with the
        /// reasons.
        fn run(&self, sizes: &[u64], budget: Duration) -> Vec<(Status, String)> {
            self.outcomes(&plan(sizes, budget))
        }

        fn outcomes(&self, plan: &Plan) -> Vec<(Status, String)> {
            let digest = crate::scenario::parts("digest")[0];
            let mut rows = Vec::new();
            run(
                digest,
                &self.engines,
                plan,
                &mut GivenUp::default(),
                &mut |more| rows.extend(more),
            );
            let outcome = |row: Row| (row.status, row.reason);
            rows.into_iter().map(outcome).collect()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    const SCRIPT: &str = r#"
for word in "$@"; do case $word in metrics=*) metrics=${word#metrics=};; esac; done
[ "$metrics" -lt 1000 ] || exec sleep 600
echo '{"metric":"digest_ms","value":1}'
echo "{\"checks\":{\"metrics\":$metrics,\"values\":1,\"sum\":1}}"
"#;

    fn plan(sizes: &[u64], budget: Duration) -> Plan {
        let end = Some(Instant::now() + budget);
        let size = |metrics: &u64| Params::default().with("metrics", *metrics);
        Plan {
            sizes: sizes.iter().map(size).collect(),
            rounds: 3,
            seed: 1,
            warm_up: 1,
            budget: Some(budget),
            end,
            cut: end,
            run_limit: Duration::from_secs(600),
            is_quick: false,
        }
    }

    #[test]
    fn an_engine_that_runs_when_the_budget_ends_is_ended_and_recorded_as_cut() {
        let sleeper = Sleeper::new("ended");
        let outcomes = sleeper.run(&[1_000], Duration::from_millis(300));
        let (status, reason) = &outcomes[0];
        assert_eq!(*status, Status::Cut);
        assert!(reason.starts_with("cut at the budget after "), "{reason}");
    }

    #[test]
    fn a_slow_engine_has_failed_but_not_in_a_quick_run() {
        for (is_quick, status) in [(false, Status::Failed), (true, Status::Cut)] {
            let sleeper = Sleeper::new(&format!("slow-{is_quick}"));
            let slow = Plan {
                run_limit: Duration::from_millis(300),
                is_quick,
                cut: None,
                ..plan(&[1_000], Duration::from_secs(600))
            };
            assert_eq!(sleeper.outcomes(&slow)[0].0, status);
        }
    }

    #[test]
    fn an_engine_that_was_cut_is_not_tried_at_a_larger_size() {
        let sleeper = Sleeper::new("larger");
        let outcomes = sleeper.run(&[1_000, 2_000], Duration::from_millis(300));
        let reason = "not run: budget (cut at the budget at metrics = 1000)";
        assert_eq!(outcomes[1], (Status::Cut, reason.to_owned()));
    }

    #[test]
    fn sizes_that_were_not_begun_are_rows_too() {
        let sleeper = Sleeper::new("not-begun");
        let outcomes = sleeper.run(&[1, 2, 1_000], Duration::ZERO);
        assert_eq!(outcomes, vec![(Status::Cut, NOT_RUN.to_owned()); 3]);
    }

    #[test]
    fn an_engine_that_ends_in_time_has_figures() {
        let sleeper = Sleeper::new("in-time");
        let outcomes = sleeper.run(&[1, 2], Duration::from_secs(600));
        assert_eq!(outcomes, vec![(Status::Ok, String::new()); 2]);
    }

    #[test]
    fn figures_of_earlier_rounds_are_kept() {
        let sleeper = Sleeper::new("kept");
        let digest = crate::scenario::parts("digest")[0];
        let mut entry = Entry::new(digest, &sleeper.engines[0].0, None);
        entry.cpu_s.push(1.0);
        entry.figures.insert("digest_ms".to_owned(), vec![5.0]);
        entry.cut(CUT.to_owned());
        entry.forget_first(1);
        let rows = entry.rows(digest, &Params::default());
        assert_eq!((rows[0].status, rows[0].median), (Status::Ok, Some(5.0)));
    }

    #[test]
    fn a_slow_engine_leaves_half_of_the_time_to_the_others() {
        let limit = |seconds, is_last| plan(&[], Duration::from_secs(seconds)).limit(is_last);
        assert_eq!(limit(2_000, false), Limit::Slow(Duration::from_secs(600)));
        let Limit::Budget(half) = limit(1_000, false) else {
            panic!("half of 1,000 s is less than 600 s");
        };
        assert!(half <= Duration::from_secs(500));
        let Limit::Budget(all) = limit(599, true) else {
            panic!("there are 599 s");
        };
        assert!(all > half && all <= Duration::from_secs(599));
    }
}
