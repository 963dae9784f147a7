//! A scenario: what runs, at which sizes, what it measures, and what must have
//! been done for the figures to count. The table of all scenarios is in
//! `scenarios`.

use serde::{Deserialize, Serialize};

use crate::{check::Expect, params::Params, record::Row, scenarios::SCENARIOS};

/// Whether a smaller or a larger figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Lower,
    Higher,
}

/// One figure that an engine reports.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
}

/// A workload, or one part of it.
pub struct Scenario {
    /// The name of the workload in records.
    pub name: &'static str,
    /// The name of the part for engines; the same as the workload if it has only
    /// one part.
    pub work: &'static str,
    pub about: &'static str,
    /// The parameter on the x axis of the plots.
    pub axis: &'static str,
    pub metrics: &'static [Metric],
    /// Its share of the time if a whole record has a budget.
    pub weight: u32,
    /// The sizes of the workload's definition.
    pub full: fn() -> Vec<Params>,
    /// The same sizes, each for a shorter time.
    pub short: fn() -> Vec<Params>,
    /// A few sizes, for a first look.
    pub quick: fn() -> Vec<Params>,
    /// One size, for checking that the work is done.
    pub tiny: fn() -> Vec<Params>,
    pub expect: fn(&Params) -> Expect,
}

impl Scenario {
    /// Whether a figure belongs to this part.
    pub fn has(&self, row: &Row) -> bool {
        self.name == row.scenario
            && row.params.has(self.axis)
            && self.metrics.iter().any(|metric| metric.name == row.metric)
    }
}

pub fn all() -> &'static [Scenario] {
    SCENARIOS
}

/// All parts of a workload, or the one part with that name; empty if there is none.
pub fn parts(name: &str) -> Vec<&'static Scenario> {
    let by_name = SCENARIOS.iter().filter(|part| part.name == name);
    let by_work = SCENARIOS.iter().filter(|part| part.work == name);
    let parts: Vec<_> = by_name.collect();
    if parts.is_empty() {
        by_work.collect()
    } else {
        parts
    }
}

/// The part to which a figure of a record belongs.
pub fn of_row(row: &Row) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|part| part.has(row))
}
