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
    process::Run,
    record::{Row, Status, median},
    scenario::{Metric, Scenario},
};

/// How much of it to do.
pub struct Plan {
    pub sizes: Vec<Params>,
    pub rounds: usize,
    pub seed: u64,
    /// Runs before the counted ones, thrown away.
    pub warm_up: usize,
    /// No new round of a size starts after its share of this is used up.
    pub budget: Option<Duration>,
    pub run_limit: Duration,
}

/// Measures `engines` (with the reason, for those that are missing) by `plan`.
pub fn run(scenario: &Scenario, engines: &[(Engine, Option<String>)], plan: &Plan) -> Vec<Row> {
    let bar = progress(plan, engines.len());
    let mut rows = Vec::new();
    for (index, params) in plan.sizes.iter().enumerate() {
        let deadline = plan
            .budget
            .map(|budget| Instant::now() + budget / plan.sizes.len() as u32);
        let mut size = Size::new(scenario, params.with("seed", plan.seed), engines);
        let mut round = 0;
        while round < plan.warm_up + plan.rounds && !(round > 0 && is_over(deadline)) {
            bar.set_message(format!("{} {params}", scenario.name));
            size.round(round >= plan.warm_up, plan.run_limit, &bar);
            round += 1;
        }
        bar.set_position(((index + 1) * (plan.warm_up + plan.rounds) * engines.len()) as u64);
        rows.extend(size.finish(params));
    }
    bar.finish_and_clear();
    rows
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
}

impl<'a> Size<'a> {
    fn new(
        scenario: &'a Scenario,
        params: Params,
        engines: &'a [(Engine, Option<String>)],
    ) -> Self {
        let wanted = engines
            .iter()
            .filter(|(engine, _)| engine.takes(scenario.name, &params));
        let entries =
            wanted.map(|(engine, missing)| Entry::new(scenario, engine, missing.as_deref()));
        let entries = entries.collect();
        Self {
            scenario,
            params,
            entries,
        }
    }

    fn round(&mut self, counted: bool, limit: Duration, bar: &ProgressBar) {
        for entry in &mut self.entries {
            if entry.status == Status::Ok {
                entry.measure(self.scenario, &self.params, counted, limit);
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
            .support(scenario.name)
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
        }
    }

    fn measure(&mut self, scenario: &Scenario, params: &Params, counted: bool, limit: Duration) {
        let command = self.engine.command(scenario.name, params);
        match command.and_then(|command| Run::measure(command, limit)) {
            Ok(run) => self.accept(scenario, params, run, counted),
            Err(error) => self.fail(format!("{error:#}")),
        }
    }

    fn accept(&mut self, scenario: &Scenario, params: &Params, run: Run, counted: bool) {
        let expect = (scenario.expect)(params);
        if let Some(violation) = expect.violation(&run.checks, self.contract == Contract::Full) {
            return self.fail(violation);
        }
        self.checks = run.checks;
        if counted {
            self.cpu_s.push(run.cpu_s);
            self.peak_kib = self.peak_kib.max(run.peak_kib);
            for measurement in run.measurements {
                self.figures
                    .entry(measurement.metric)
                    .or_default()
                    .push(measurement.value);
            }
        }
    }

    fn fail(&mut self, reason: String) {
        self.status = Status::Failed;
        self.reason = reason;
    }

    fn rows(self, scenario: &Scenario, params: &Params) -> Vec<Row> {
        let reported = scenario
            .metrics
            .iter()
            .filter(|metric| self.figures.contains_key(metric.name));
        match self.status {
            Status::Ok => reported
                .map(|metric| self.row(scenario, params, metric))
                .collect(),
            _ => scenario
                .metrics
                .iter()
                .take(1)
                .map(|metric| self.row(scenario, params, metric))
                .collect(),
        }
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
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total as u64).with_style(style)
}
