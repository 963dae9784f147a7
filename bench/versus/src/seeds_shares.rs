//! The seeds' tables of one engine against itself: what ordering costs, how much of each
//! thread a job uses, and what threads cost a small job.

use std::thread::available_parallelism;

use crate::{
    compare::figure,
    params::Params,
    record::{Row, median, short},
    scenario,
    seeds::US,
    seeds_table::{Grid, SeedCell},
};

/// What two figures of one engine are made into, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// Rates with and without order: the part of the rate that order takes.
    OrderingPenalty,
    /// Rates with and without order: the time that order adds to a task.
    OrderingNs,
    /// Times with so many threads and with one: the part of each thread's time that the
    /// job uses.
    Efficiency { threads: u64 },
    /// Times with more threads and with one: how many times as long the job takes.
    Slowdown,
    /// Times of a part and of the whole: the part of the whole.
    Part,
}

/// A line: its two figures, and what would be good.
pub struct ShareLine {
    pub what: &'static str,
    /// The seed's own figures, worked out from its tables.
    before: &'static str,
    after: &'static str,
    share: Share,
    /// The figure's value on the axis, and that of its base.
    at: u64,
    base_at: u64,
    /// A parameter by which the line is found, beside the axis.
    size: Option<(&'static str, u64)>,
    /// Busyhour is behind if it is worse than this, whatever the others do.
    wanted: Option<f64>,
    /// Why Busyhour is behind here; empty while nobody has found out.
    why: &'static str,
}

/// One table.
pub struct ShareTable {
    pub title: &'static str,
    pub work: &'static str,
    metric: &'static str,
    /// That of the base.
    base_metric: &'static str,
    axis: &'static str,
    /// The old structure, the new one and Busyhour; an empty name if there is none.
    engines: [&'static str; 3],
    /// The engine that does the least that can be done; an empty name if there is none.
    floor: &'static str,
    /// What the name of the engine with the base ends with.
    base_suffix: &'static str,
    fixed: &'static [(&'static str, u64)],
    pub lines: &'static [ShareLine],
}

/// The median and the range over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    median: f64,
    min: f64,
    max: f64,
    count: usize,
}

/// The titles of the columns after the first.
const COLUMNS: [&str; 9] = [
    "seed: before",
    "seed: after",
    "today: before",
    "today: after",
    "busyhour",
    "wanted",
    "perfect",
    "only compute",
    "why it is behind",
];

impl Share {
    /// Of one round of the figure, and the round of its base next to it.
    fn of(self, value: f64, base: f64) -> f64 {
        match self {
            Self::OrderingPenalty => 1.0 - value / base,
            Self::OrderingNs => 1e9 / value - 1e9 / base,
            Self::Efficiency { threads } => base / (value * threads as f64),
            Self::Slowdown | Self::Part => value / base,
        }
    }

    fn is_worse(self, ours: f64, theirs: f64) -> bool {
        match self {
            Self::Efficiency { .. } => ours < theirs,
            Self::OrderingPenalty | Self::OrderingNs | Self::Slowdown | Self::Part => ours > theirs,
        }
    }

    /// What nothing can surpass on so many cores, if that can be computed. More threads may
    /// make a job quicker, so a slowdown has the same limit as an efficiency.
    fn perfect(self, threads: u64, cores: u64) -> Option<f64> {
        let used = threads.min(cores).max(1) as f64;
        match self {
            Self::OrderingPenalty | Self::OrderingNs | Self::Part => None,
            Self::Efficiency { threads } => Some(used / threads as f64),
            Self::Slowdown => Some(1.0 / used),
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            // Adding zero makes a negative zero a plain one.
            Self::OrderingPenalty | Self::Efficiency { .. } => {
                format!("{} %", (100.0 * value).round() + 0.0)
            }
            Self::OrderingNs => format!("{} ns", short(value)),
            Self::Slowdown => format!("{value:.2}×"),
            Self::Part => format!("{:.2} %", 100.0 * value),
        }
    }
}

impl Measured {
    fn of(share: Share, row: &Row, base: &Row) -> Option<Self> {
        let pairs = row.rounds.iter().zip(&base.rounds);
        let pairs = pairs.filter(|(value, base)| **value > 0.0 && **base > 0.0);
        let values: Vec<f64> = pairs.map(|(value, base)| share.of(*value, *base)).collect();
        Some(Self {
            median: median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
            count: values.len(),
        })
    }

    /// A figure that was not measured.
    fn point(value: f64) -> Self {
        Self {
            median: value,
            min: value,
            max: value,
            count: 0,
        }
    }

    /// Whether the rounds do not show which of the two is ahead.
    fn overlaps(self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    fn text(self, share: Share) -> String {
        let median = share.text(self.median);
        if self.count == 1 {
            return format!("{median} (one round)");
        }
        format!(
            "{median} ({}–{})",
            share.text(self.min),
            share.text(self.max)
        )
    }
}

impl ShareTable {
    pub fn engines(&self) -> Vec<String> {
        let named = self.engines.iter().filter(|name| !name.is_empty());
        let mut engines: Vec<String> = named.clone().map(|name| (*name).to_owned()).collect();
        if !self.floor.is_empty() {
            engines.push(self.floor.to_owned());
        }
        if !self.base_suffix.is_empty() {
            engines.extend(named.map(|name| format!("{name}{}", self.base_suffix)));
        }
        engines
    }

    /// The parameters to run.
    pub fn sizes(&self) -> Vec<Params> {
        let mut sizes = Vec::new();
        for line in self.lines {
            for at in [line.base_at, line.at] {
                let params = self.params(line, at);
                if !sizes.contains(&params) {
                    sizes.push(params);
                }
            }
        }
        sizes
    }

    fn params(&self, line: &ShareLine, at: u64) -> Params {
        let fixed = self.fixed.iter();
        let params = fixed.fold(Params::default(), |params, (key, value)| {
            params.with(key, *value)
        });
        let params = params.with(self.axis, at);
        match line.size {
            Some((key, value)) => params.with(key, value),
            None => params,
        }
    }

    /// A figure in a record, whatever the durations of the record are.
    fn find<'a>(
        &self,
        line: &ShareLine,
        (at, metric): (u64, &str),
        engine: &str,
        rows: &'a [Row],
    ) -> Option<&'a Row> {
        rows.iter().find(|row| {
            row.engine == engine
                && row.metric == metric
                && row.params.get(self.axis) == Some(at)
                && line
                    .size
                    .is_none_or(|(key, value)| row.params.get(key) == Some(value))
                && scenario::of_row(row).is_some_and(|part| part.work == self.work)
        })
    }

    fn measured(&self, line: &ShareLine, engine: &str, rows: &[Row]) -> Option<Measured> {
        let base = format!("{engine}{}", self.base_suffix);
        let row = self.find(line, (line.at, self.metric), engine, rows)?;
        let base = self.find(line, (line.base_at, self.base_metric), &base, rows)?;
        Measured::of(line.share, row, base)
    }

    /// Whether threads that only compute are the limit of this table.
    pub fn has_machine(&self) -> bool {
        self.axis == MACHINE_AXIS
    }

    /// What threads that only compute get on this machine.
    fn machine_text(&self, line: &ShareLine, rows: &[Row]) -> String {
        if !self.has_machine() {
            return "–".to_owned();
        }
        let at = |threads: u64| {
            rows.iter().find(|row| {
                row.scenario == MACHINE && row.params.get(MACHINE_AXIS) == Some(threads)
            })
        };
        let measured = at(line.at)
            .zip(at(line.base_at))
            .and_then(|(row, base)| Measured::of(line.share, row, base));
        measured.map_or("left out".to_owned(), |measured| measured.text(line.share))
    }

    /// The reason of the figure that has none, or of its base.
    fn why_none(&self, line: &ShareLine, engine: &str, rows: &[Row]) -> String {
        let base = format!("{engine}{}", self.base_suffix);
        let both = [
            self.find(line, (line.at, self.metric), engine, rows),
            self.find(line, (line.base_at, self.base_metric), &base, rows),
        ];
        let mut without = both
            .into_iter()
            .flatten()
            .filter(|row| row.median.is_none());
        without.next().map_or("left out".to_owned(), figure)
    }

    /// The cells of a line, in the order of the columns.
    fn cells(&self, line: &ShareLine, rows: &[Row], cores: u64) -> Vec<SeedCell> {
        let share = line.share;
        let [before, after, us] = self.engines.map(|engine| self.measured(line, engine, rows));
        let text_of = |engine: &str, measured: Option<Measured>| match measured {
            Some(measured) => measured.text(share),
            None if engine.is_empty() => "–".to_owned(),
            None => self.why_none(line, engine, rows),
        };
        let bars = [before, after, line.wanted.map(Measured::point)];
        let ahead: Vec<_> = us.map_or_else(Vec::new, |us| {
            let bars = bars.into_iter().flatten();
            bars.filter(|bar| share.is_worse(us.median, bar.median))
                .map(|bar| us.overlaps(bar))
                .collect()
        });
        let is_losing = !ahead.is_empty();
        let is_open = ahead.into_iter().all(|overlaps| overlaps);
        let why = match (is_losing, is_open, line.why) {
            (false, ..) => "",
            (true, true, _) => "open: the ranges overlap",
            (true, false, "") => "not found out",
            (true, false, why) => why,
        };
        let or_dash =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| share.text(value));
        vec![
            SeedCell::plain(line.before),
            SeedCell::plain(line.after),
            SeedCell::plain(text_of(self.engines[0], before)),
            SeedCell::plain(text_of(self.engines[1], after)),
            SeedCell {
                text: text_of(US, us),
                is_losing,
            },
            SeedCell::plain(or_dash(line.wanted)),
            SeedCell::plain(match self.floor {
                "" => or_dash(share.perfect(line.at, cores)),
                floor => text_of(floor, self.measured(line, floor, rows)),
            }),
            SeedCell::plain(self.machine_text(line, rows)),
            SeedCell::plain(why),
        ]
    }

    /// The table, on a machine with so many cores; `None` if Busyhour has no row for it.
    fn grid_on(&self, rows: &[Row], cores: u64) -> Option<Grid> {
        let has_row = |line: &ShareLine| {
            let both = [(line.at, self.metric), (line.base_at, self.base_metric)];
            let rows = both.map(|figure| self.find(line, figure, US, rows));
            rows.iter().all(Option::is_some)
        };
        self.lines.iter().any(has_row).then(|| Grid {
            title: self.title,
            columns: &COLUMNS,
            lines: (self.lines.iter())
                .map(|line| (line.what, self.cells(line, rows, cores)))
                .collect(),
        })
    }

    pub fn grid(&self, rows: &[Row]) -> Option<Grid> {
        let cores = available_parallelism().map_or(1, |count| count.get() as u64);
        self.grid_on(rows, cores)
    }
}

pub const SHARE_TABLES: &[ShareTable] = &[
    ShareTable {
        title: "3 the share of time that choosing takes: 10 µs of work a turn",
        work: "run-queue-busy",
        metric: "choosing_ns",
        base_metric: "turn_ns",
        axis: "rq",
        engines: ["seed-before", "seed-after", US],
        floor: "machine",
        base_suffix: "",
        fixed: &[("work_us", 10), ("ms", 1_000)],
        lines: &[
            choosing("RQ 2", 2),
            choosing("RQ 30", 30),
            choosing("RQ 200", 200),
            choosing("RQ 10,000", 10_000),
            choosing("RQ 100,000", 100_000),
        ],
    },
    ShareTable {
        title: "5 what ordering costs: through serializers against pushes to the pool",
        work: "serializer-pingpong",
        metric: "tasks_per_s",
        base_metric: "tasks_per_s",
        axis: "workers",
        engines: ["seed-before", "seed-after", US],
        floor: "",
        base_suffix: "-unordered",
        fixed: &[("ms", 1_000)],
        lines: &[
            ordering("of the rate, 5 threads", "–", "–", 5, Some(0.20)),
            ordering("of the rate, 50 threads", "27 %", "20 %", 50, Some(0.20)),
            ordering_ns("time of a task, 5 threads", "–", "–", 5),
            ordering_ns("time of a task, 50 threads", "493 ns", "123 ns", 50),
        ],
    },
    ShareTable {
        title: "4 parallel efficiency: a folder of 200 archives",
        work: "digest-folder",
        metric: "digest_ms",
        base_metric: "digest_ms",
        axis: "threads",
        engines: ["", "libpcp-together", US],
        floor: "",
        base_suffix: "",
        fixed: &[],
        lines: &[
            folder("1 thread", 1, None),
            // 1.7 times as quick.
            folder("2 threads", 2, Some(0.85)),
            folder("4 threads", 4, None),
            folder("8 threads", 8, None),
        ],
    },
    ShareTable {
        title: "4 parallel efficiency: one archive, 1,688 metrics",
        work: "digest",
        metric: "digest_ms",
        base_metric: "digest_ms",
        axis: "threads",
        engines: ["", "libpcp-together", US],
        floor: "",
        base_suffix: "",
        fixed: &[],
        lines: &[
            archive("1 thread", "100 %", "–", 1),
            archive("2 threads", "–", "–", 2),
            archive("4 threads", "–", "–", 4),
            archive("8 threads", "11 %", "20 %", 8),
        ],
    },
    ShareTable {
        title: "4 a small job: the time with 8 threads, in times with one",
        work: "digest",
        metric: "digest_ms",
        base_metric: "digest_ms",
        axis: "threads",
        engines: ["", "libpcp-together", US],
        floor: "",
        base_suffix: "",
        fixed: &[],
        // The seed has its new structure with 8 threads only: these are divided by the old
        // one's time with one thread.
        lines: &[
            small("20 metrics", "–", "–", 20),
            small("100 metrics", "–", "–", 100),
            small("199 metrics", "0.88×", "0.61×", 199),
            small("231 metrics", "0.42×", "0.49×", 231),
            small("390 metrics", "0.55×", "0.51×", 390),
            small("398 metrics", "0.36×", "0.45×", 398),
        ],
    },
];

/// The scenario of threads that only compute.
pub const MACHINE: &str = "only-compute";
const MACHINE_AXIS: &str = "threads";

const fn choosing(what: &'static str, rq: u64) -> ShareLine {
    ShareLine {
        what,
        before: "–",
        after: "–",
        share: Share::Part,
        at: rq,
        base_at: rq,
        size: None,
        wanted: Some(0.02),
        why: "a worker looks at what other threads pushed, too; the seed's structures have one thread",
    }
}

const fn ordering(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    workers: u64,
    wanted: Option<f64>,
) -> ShareLine {
    ShareLine {
        what,
        before,
        after,
        share: Share::OrderingPenalty,
        at: workers,
        base_at: workers,
        size: None,
        wanted,
        why: "a plain push is so short that what order adds is a large part of it",
    }
}

const fn ordering_ns(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    workers: u64,
) -> ShareLine {
    ShareLine {
        share: Share::OrderingNs,
        why: "",
        ..ordering(what, before, after, workers, None)
    }
}

const fn folder(what: &'static str, threads: u64, wanted: Option<f64>) -> ShareLine {
    ShareLine {
        what,
        before: "–",
        after: "–",
        share: Share::Efficiency { threads },
        at: threads,
        base_at: 1,
        size: Some(("archives", 200)),
        wanted,
        why: "",
    }
}

const fn archive(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    threads: u64,
) -> ShareLine {
    ShareLine {
        before,
        after,
        size: Some(("metrics", 1_688)),
        ..folder(what, threads, None)
    }
}

const fn small(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    metrics: u64,
) -> ShareLine {
    ShareLine {
        what,
        before,
        after,
        share: Share::Slowdown,
        at: 8,
        base_at: 1,
        size: Some(("metrics", metrics)),
        wanted: Some(1.05),
        why: "",
    }
}

#[cfg(test)]
mod tests;
