//! The record of a run: one row for each figure, as `--json` writes it.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};

use crate::{engine::Contract, params::Params, scenario::Better};

/// The result of an engine at one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Missing,
    Failed,
    /// The budget was used up before there was a figure.
    Cut,
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
    /// Why the figure is missing, failed or cut.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The figure of every round, in order; ratios of pairs are computed from
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
}

impl Row {
    /// The range of the rounds, as a fraction of the median.
    pub fn spread(&self) -> Option<f64> {
        Some((self.max? - self.min?) / self.median?.max(f64::MIN_POSITIVE))
    }

    fn add(&mut self, later: Self) {
        if self.status != Status::Ok || later.status == Status::Cut {
            return;
        }
        if later.status != Status::Ok {
            *self = later;
            return;
        }
        self.rounds.extend(later.rounds);
        self.median = median(&self.rounds);
        self.min = self.rounds.iter().copied().reduce(f64::min);
        self.max = self.rounds.iter().copied().reduce(f64::max);
        self.runs = self.rounds.len();
        self.cpu_s = self.cpu_s.into_iter().chain(later.cpu_s).reduce(f64::max);
        self.peak_kib = self.peak_kib.max(later.peak_kib);
    }

    /// Half of the range with a ±; empty if there was only one round.
    pub fn spread_text(&self) -> String {
        let spread = self.spread().filter(|_| self.runs > 1);
        spread.map_or(String::new(), |spread| format!("±{:.0} %", spread * 50.0))
    }
}

/// This engine's figure as a multiple of the other's, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// The number of pairs of rounds.
    pub count: usize,
}

impl Ratio {
    /// `row` divided by `base`, for pairs of rounds that ran next to each
    /// other.
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
            count: ratios.len(),
        })
    }

    /// Whether the range does not show which of the two is ahead.
    pub fn is_open(&self) -> bool {
        self.min < 1.0 && self.max > 1.0
    }

    /// Whether the rounds differ so much that the ratio means nothing.
    pub fn is_meaningless(&self) -> bool {
        self.max > self.min * SPREAD_MOST
    }

    /// Whether the other engine is ahead in every round.
    pub fn is_lost(&self) -> bool {
        self.max < 1.0 && !self.is_meaningless()
    }
}

/// The middle value; for an even count, the mean of the two middle ones.
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

/// Adds the rounds of `later` to the rows of earlier ones, so that a row has all of them; a
/// row without figures stays without, for the rounds of the others would no longer be those
/// that ran next to each other.
pub fn add_rounds(rows: &mut Vec<Row>, later: Vec<Row>) {
    for new in later {
        let is_same = |row: &&mut Row| {
            (&row.scenario, &row.engine, &row.metric) == (&new.scenario, &new.engine, &new.metric)
                && row.params == new.params
        };
        match rows.iter_mut().find(is_same) {
            Some(row) => row.add(new),
            None => rows.push(new),
        }
    }
}

/// Reads a record; one whose name ends in `.gz` is compressed.
pub fn load(path: &Path) -> Result<Vec<Row>> {
    let text = text_of(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text)
        .with_context(|| format!("{}: not a record of versus", path.display()))
}

fn text_of(path: &Path) -> std::io::Result<String> {
    if !is_compressed(path) {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    GzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// The rows of several records, in their order.
pub fn load_all(files: &[PathBuf]) -> Result<Vec<Row>> {
    let records = files.iter().map(|file| load(file));
    Ok(records
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// Writes the whole record at once: a reader sees the old one or the new one. Compresses one
/// whose name ends in `.gz`.
pub fn save(path: &Path, rows: &[Row]) -> Result<()> {
    let text = serde_json::to_string_pretty(rows)? + "\n";
    let draft = path.with_extension("draft");
    write(&draft, text.as_bytes(), is_compressed(path))
        .with_context(|| draft.display().to_string())?;
    fs::rename(&draft, path).with_context(|| path.display().to_string())
}

fn write(path: &Path, text: &[u8], is_compressed: bool) -> std::io::Result<()> {
    if !is_compressed {
        return fs::write(path, text);
    }
    let mut file = GzEncoder::new(File::create(path)?, Compression::best());
    file.write_all(text)?;
    file.finish().map(drop)
}

/// If the largest ratio of two rounds is more than this multiple of the smallest, the
/// ratio is called meaningless.
const SPREAD_MOST: f64 = 3.0;

/// A figure with three significant digits, and a unit of suitable size.
pub fn with_unit(value: f64, unit: &str) -> String {
    let place = TIME_UNITS.iter().position(|time| *time == unit);
    let Some(mut place) = place else {
        return format!("{} {unit}", short(value)).trim().to_owned();
    };
    let mut value = value;
    while value.abs() >= 9_999.5 && place + 1 < TIME_UNITS.len() {
        value /= 1e3;
        place += 1;
    }
    format!("{} {}", short(value), TIME_UNITS[place])
}

/// A number with three significant digits: `12.5k`, `3M`.
pub fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, "G"),
        v if v >= 999.5e3 => (value / 1e6, "M"),
        v if v >= 9_999.5 || (v >= 1e3 && v % 100.0 == 0.0) => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{prefix}")
}

const TIME_UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_in_suitable_units() {
        assert_eq!(with_unit(31.46, "ns"), "31.5 ns");
        assert_eq!(with_unit(15_983.0, "ns"), "16 µs");
        assert_eq!(with_unit(53.8e9, "ns"), "53.8 s");
        assert_eq!(with_unit(2_041_833.0, "tasks/s"), "2.04M tasks/s");
        assert_eq!(
            [100.0, 1_000.0, 12_000.0, 1_688.0, 1e7].map(short),
            ["100", "1k", "12k", "1688", "10M"]
        );
    }

    #[test]
    fn a_median_of_few_values_is_right() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    fn ratio(min: f64, median: f64, max: f64) -> Ratio {
        Ratio {
            median,
            min,
            max,
            count: 3,
        }
    }

    #[test]
    fn a_ratio_that_crosses_one_is_open() {
        assert!(ratio(0.9, 1.1, 1.3).is_open());
        assert!(!ratio(1.1, 1.2, 1.3).is_open());
    }

    #[test]
    fn a_ratio_with_a_wide_range_is_meaningless_and_not_lost() {
        assert!(ratio(0.2, 0.5, 0.9).is_meaningless());
        assert!(!ratio(0.2, 0.5, 0.9).is_lost());
        assert!(ratio(0.7, 0.8, 0.9).is_lost());
    }

    #[test]
    fn a_round_for_which_there_was_no_time_takes_no_figure_away() {
        let row = |status, figure: Option<f64>| Row {
            scenario: "timers".to_owned(),
            engine: "busyhour".to_owned(),
            params: Params::default(),
            metric: "add_ns".to_owned(),
            unit: "ns".to_owned(),
            better: Better::Lower,
            median: figure,
            min: figure,
            max: figure,
            runs: usize::from(figure.is_some()),
            cpu_s: None,
            peak_kib: None,
            contract: Contract::Full,
            status,
            reason: String::new(),
            rounds: figure.into_iter().collect(),
        };
        let mut rows = vec![row(Status::Ok, Some(3.0))];
        add_rounds(&mut rows, vec![row(Status::Cut, None)]);
        assert_eq!((rows[0].status, rows[0].runs), (Status::Ok, 1));
        add_rounds(&mut rows, vec![row(Status::Ok, Some(5.0))]);
        assert_eq!((rows[0].median, rows[0].runs), (Some(4.0), 2));
        add_rounds(&mut rows, vec![row(Status::Failed, None)]);
        assert_eq!((rows.len(), rows[0].status), (1, Status::Failed));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for name in ["json", "json.gz"] {
            let file = format!("versus-record-{}.{name}", std::process::id());
            let path = std::env::temp_dir().join(file);
            save(&path, &[]).unwrap();
            let is_gzip = fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]);
            assert_eq!(is_gzip, name == "json.gz");
            assert!(load(&path).unwrap().is_empty());
            fs::remove_file(path).unwrap();
        }
    }
}
