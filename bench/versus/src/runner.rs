//! Runs a scenario: every engine at every size, interleaved round by round, so
//! that a machine that drifts drifts for all of them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};

use crate::{
    engine::{Contract, Engine},
    params::Params,
    process::{Run, TooSlow},
    record::{Row, Status, median},
    scenario::{Metric, Scenario},
};

/// How much of it to do.
pub struct Plan {
    pub sizes: Vec<Params>,
    /// Rounds that count.
    pub rounds: usize,
    pub seed: u64,
    /// Rounds before those, thrown away unless time runs out before all have been run.
    pub warm_up: usize,
    /// No new round of a size starts after its share of this is used up.
    pub budget: Option<Duration>,
    /// No process starts after this.
    pub end: Option<Instant>,
    /// No process runs longer.
    pub run_limit: Duration,
}

/// Measures `engines` (with the reason, for those that are missing) by `plan`; `note` gets the rows of each size as
/// soon as they are there.
pub fn run(
    scenario: &Scenario,
    engines: &[(Engine, Option<String>)],
    plan: &Plan,
    note: &mut dyn FnMut(Vec<Row>),
) {
    let bar = progress(plan, engines.len());
    let end = plan.budget.map(|budget| Instant::now() + budget);
    let mut given_up = GivenUp::default();
    for (index, params) in plan.sizes.iter().enumerate() {
        bar.set_prefix(format!("{} {params}", scenario.name));
        let left = (plan.sizes.len() - index) as u32;
        let deadline = end.map(|end| Instant::now() + (end - Instant::now()) / left);
        let mut size = Size::new(scenario, params.with("seed", plan.seed), engines);
        size.refuse(&given_up);
        size.all_rounds(plan, deadline, &bar);
        given_up.note(&size);
        bar.set_position(((index + 1) * (plan.warm_up + plan.rounds) * engines.len()) as u64);
        note(size.finish(params));
    }
    bar.finish_and_clear();
}

/// Engines that were ended for being too slow, and the size at which they were: no larger one is tried.
#[derive(Default)]
struct GivenUp(BTreeMap<String, u64>);

impl GivenUp {
    fn note(&mut self, size: &Size) {
        for entry in size.entries.iter().filter(|entry| entry.is_too_slow) {
            let at = self.0.entry(entry.engine.name.clone()).or_insert(u64::MAX);
            *at = size.at().min(*at);
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
        for entry in &mut self.entries {
            let slow_at = given_up.0.get(&entry.engine.name);
            if let Some(slow_at) =
                slow_at.filter(|slow_at| self.params.number(self.scenario.axis) >= **slow_at)
            {
                entry.fail(format!(
                    "not tried: too slow at {} = {slow_at}",
                    self.scenario.axis
                ));
            }
        }
    }

    /// Rounds until all have been run or the deadline has come; at least one.
    fn all_rounds(&mut self, plan: &Plan, deadline: Option<Instant>, bar: &ProgressBar) {
        let wanted = plan.warm_up + plan.rounds;
        let mut count = 0;
        while count < wanted && !(count > 0 && is_over(deadline)) {
            self.round(plan, bar);
            count += 1;
        }
        let surplus = count.saturating_sub(plan.rounds);
        self.entries
            .iter_mut()
            .for_each(|entry| entry.forget_first(surplus));
    }

    fn round(&mut self, plan: &Plan, bar: &ProgressBar) {
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.status == Status::Ok)
        {
            bar.set_message(entry.engine.name.clone());
            if !is_over(plan.end) {
                entry.measure(self.scenario, &self.params, plan.run_limit);
            } else if entry.cpu_s.is_empty() {
                entry.fail("not run: no time was left".to_owned());
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

    /// Engines with the full contract must agree on the scenario's results.
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

    fn measure(&mut self, scenario: &Scenario, params: &Params, limit: Duration) {
        let command = self.engine.command(scenario.work, params);
        match command.and_then(|command| Run::measure(command, limit)) {
            Ok(run) => self.accept(scenario, params, run),
            Err(error) => {
                self.is_too_slow = error.is::<TooSlow>();
                self.fail(format!("{error:#}"));
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

    /// Drops the first rounds: they warmed the machine up.
    fn forget_first(&mut self, count: usize) {
        for figures in self.figures.values_mut().chain([&mut self.cpu_s]) {
            figures.drain(..count.min(figures.len()));
        }
    }

    fn fail(&mut self, reason: String) {
        self.status = Status::Failed;
        self.reason = reason;
    }

    /// A row a figure; without any, a row for each figure that the scenario has, so that nobody is left out in silence.
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

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn progress(plan: &Plan, engine_count: usize) -> ProgressBar {
    let total = plan.sizes.len() * (plan.warm_up + plan.rounds) * engine_count;
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {prefix} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total as u64).with_style(style)
}
