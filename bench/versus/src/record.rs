//! The record of a run: one row a figure, as written by `--json`.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{engine::Contract, params::Params, scenario::Better};

/// What became of an engine at one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Missing,
    Failed,
}

/// One figure of one engine at one size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub scenario: String,
    pub engine: String,
    pub params: Params,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    pub median: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub runs: usize,
    pub cpu_s: Option<f64>,
    pub peak_kib: Option<u64>,
    pub contract: Contract,
    pub status: Status,
    /// Why it is missing or failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The figure of every round, in order: pairwise ratios are computed from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
}

impl Row {
    /// How far the rounds lie apart, as a part of the median.
    pub fn spread(&self) -> Option<f64> {
        Some((self.max? - self.min?) / self.median?.max(f64::MIN_POSITIVE))
    }
}

/// This engine's figure as a multiple of the other's, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Ratio {
    /// `row` over `base`, pairing the rounds that ran next to each other.
    pub fn of(row: &Row, base: &Row) -> Option<Self> {
        let pairs = row
            .rounds
            .iter()
            .zip(&base.rounds)
            .filter(|(_, base)| **base > 0.0);
        let ratios: Vec<f64> = pairs.map(|(value, base)| value / base).collect();
        Some(Self {
            median: median(&ratios)?,
            min: ratios.iter().copied().reduce(f64::min)?,
            max: ratios.iter().copied().reduce(f64::max)?,
        })
    }

    /// Whether the spread leaves open which of the two is ahead.
    pub fn is_open(&self) -> bool {
        self.min < 1.0 && self.max > 1.0
    }
}

/// The middle value; of an even count the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

pub fn load(path: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text)
        .with_context(|| format!("{}: not a record of versus", path.display()))
}

pub fn save(path: &Path, rows: &[Row]) -> Result<()> {
    let text = serde_json::to_string_pretty(rows)?;
    fs::write(path, text + "\n").with_context(|| path.display().to_string())
}

/// A figure with three digits that matter and a unit's prefix for large ones.
pub fn shown(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.2} G", value / 1e9),
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_few_is_a_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn a_ratio_that_crosses_one_is_open() {
        assert!(
            Ratio {
                median: 1.1,
                min: 0.9,
                max: 1.3
            }
            .is_open()
        );
        assert!(
            !Ratio {
                median: 1.2,
                min: 1.1,
                max: 1.3
            }
            .is_open()
        );
    }
}
