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
    axis: &'static str,
    /// The old structure, the new one and Busyhour; an empty name if there is none.
    engines: [&'static str; 3],
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
            Self::Slowdown => value / base,
        }
    }

    fn is_worse(self, ours: f64, theirs: f64) -> bool {
        match self {
            Self::Efficiency { .. } => ours < theirs,
            Self::OrderingPenalty | Self::OrderingNs | Self::Slowdown => ours > theirs,
        }
    }

    /// What nothing can surpass on so many cores, if that can be computed. More threads may
    /// make a job quicker, so a slowdown has the same limit as an efficiency.
    fn perfect(self, threads: u64, cores: u64) -> Option<f64> {
        let used = threads.min(cores).max(1) as f64;
        match self {
            Self::OrderingPenalty | Self::OrderingNs => None,
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
        at: u64,
        engine: &str,
        rows: &'a [Row],
    ) -> Option<&'a Row> {
        rows.iter().find(|row| {
            row.engine == engine
                && row.metric == self.metric
                && row.params.get(self.axis) == Some(at)
                && line
                    .size
                    .is_none_or(|(key, value)| row.params.get(key) == Some(value))
                && scenario::of_row(row).is_some_and(|part| part.work == self.work)
        })
    }

    fn measured(&self, line: &ShareLine, engine: &str, rows: &[Row]) -> Option<Measured> {
        let base = format!("{engine}{}", self.base_suffix);
        let row = self.find(line, line.at, engine, rows)?;
        let base = self.find(line, line.base_at, &base, rows)?;
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
            self.find(line, line.at, engine, rows),
            self.find(line, line.base_at, &base, rows),
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
            SeedCell::plain(or_dash(share.perfect(line.at, cores))),
            SeedCell::plain(self.machine_text(line, rows)),
            SeedCell::plain(why),
        ]
    }

    /// The table, on a machine with so many cores; `None` if Busyhour has no row for it.
    fn grid_on(&self, rows: &[Row], cores: u64) -> Option<Grid> {
        let has_row = |line: &ShareLine| {
            let rows = [line.at, line.base_at].map(|at| self.find(line, at, US, rows));
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
        title: "5 what ordering costs: through serializers against pushes to the pool",
        work: "serializer-pingpong",
        metric: "tasks_per_s",
        axis: "workers",
        engines: ["seed-before", "seed-after", US],
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
        axis: "threads",
        engines: ["", "libpcp-together", US],
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
        axis: "threads",
        engines: ["", "libpcp-together", US],
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
        axis: "threads",
        engines: ["", "libpcp-together", US],
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
mod tests {
    use super::*;
    use crate::{
        engine::Contract,
        record::{Status, add_rounds},
        scenario::Better,
    };

    fn row(scenario: &str, engine: &str, metric: &str, params: Params, rounds: &[f64]) -> Row {
        Row {
            scenario: scenario.to_owned(),
            engine: engine.to_owned(),
            params,
            metric: metric.to_owned(),
            unit: String::new(),
            better: Better::Lower,
            median: median(rounds),
            min: None,
            max: None,
            runs: rounds.len(),
            cpu_s: None,
            peak_kib: None,
            contract: Contract::Full,
            status: Status::Ok,
            reason: String::new(),
            rounds: rounds.to_vec(),
        }
    }

    fn rate(engine: &str, rounds: &[f64]) -> Row {
        let params = Params::default().with("workers", 50).with("ms", 1_000);
        row("serializer-pingpong", engine, "tasks_per_s", params, rounds)
    }

    fn digest(engine: &str, threads: u64, metrics: u64, rounds: &[f64]) -> Row {
        let params = Params::default()
            .with("threads", threads)
            .with("metrics", metrics);
        row("digest", engine, "digest_ms", params, rounds)
    }

    fn folder(engine: &str, threads: u64, rounds: &[f64]) -> Row {
        let params = Params::default()
            .with("threads", threads)
            .with("archives", 200);
        row("digest", engine, "digest_ms", params, rounds)
    }

    fn compute(threads: u64, rounds: &[f64]) -> Row {
        let params = Params::default().with("threads", threads);
        row("only-compute", "machine", "compute_ms", params, rounds)
    }

    /// The cells of a line, for a machine with two cores.
    fn line(rows: &[Row], table: &str, what: &str) -> Vec<(String, bool)> {
        let mut tables = SHARE_TABLES.iter();
        let table = tables.find(|other| other.title.contains(table)).unwrap();
        let grid = table.grid_on(rows, 2).expect("figures");
        let (_, cells) = grid.lines.into_iter().find(|line| line.0 == what).unwrap();
        let cells = cells.into_iter();
        cells.map(|cell| (cell.text, cell.is_losing)).collect()
    }

    #[test]
    fn the_seeds_own_penalty_comes_out_as_it_says() {
        let rows = [
            rate("seed-before", &[553_033.0]),
            rate("seed-before-unordered", &[760_310.0]),
            rate("seed-after", &[1_633_256.0]),
            rate("seed-after-unordered", &[2_041_833.0]),
            rate("busyhour", &[9e6]),
            rate("busyhour-unordered", &[10e6]),
        ];
        let cells = line(&rows, "ordering", "of the rate, 50 threads");
        assert_eq!(cells[2].0, "27 % (one round)");
        assert_eq!(cells[3].0, "20 % (one round)");
        assert_eq!(cells[4], ("10 % (one round)".to_owned(), false));
        let cells = line(&rows, "ordering", "time of a task, 50 threads");
        assert_eq!(cells[2].0, "493 ns (one round)");
        assert_eq!(cells[3].0, "123 ns (one round)");
        assert_eq!(cells[4], ("11.1 ns (one round)".to_owned(), false));
    }

    #[test]
    fn a_penalty_above_what_is_wanted_is_lost_with_a_place_for_the_reason() {
        let rows = [
            rate("busyhour", &[7e6]),
            rate("busyhour-unordered", &[10e6]),
        ];
        let cells = line(&rows, "ordering", "of the rate, 50 threads");
        assert_eq!(cells[4], ("30 % (one round)".to_owned(), true));
        assert!(cells[8].0.contains("plain push"), "{}", cells[8].0);
    }

    #[test]
    fn an_efficiency_is_of_the_rounds_next_to_each_other() {
        let rows = [
            folder("busyhour", 1, &[100.0, 200.0, 300.0]),
            folder("busyhour", 2, &[50.0, 125.0, 200.0]),
            folder("busyhour", 8, &[50.0, 100.0, 150.0]),
            compute(1, &[100.0, 100.0]),
            compute(2, &[62.5, 62.5]),
            folder("libpcp-together", 1, &[100.0]),
            folder("libpcp-together", 8, &[40.0]),
        ];
        let two = line(&rows, "folder", "2 threads");
        assert_eq!(two[4], ("80 % (75 %–100 %)".to_owned(), true));
        assert_eq!(two[8].0, "open: the ranges overlap");
        assert_eq!((two[5].0.as_str(), two[6].0.as_str()), ("85 %", "100 %"));
        assert_eq!(two[7].0, "80 % (80 %–80 %)");
        // Behind the other structure, though nothing else is wanted.
        let eight = line(&rows, "folder", "8 threads");
        assert_eq!(eight[3].0, "31 % (one round)");
        assert_eq!(eight[4], ("25 % (25 %–25 %)".to_owned(), true));
        assert_eq!(eight[7].0, "left out");
        assert_eq!(eight[8].0, "not found out");
        assert_eq!((eight[5].0.as_str(), eight[6].0.as_str()), ("–", "25 %"));
    }

    #[test]
    fn a_small_job_that_threads_make_slower_is_lost() {
        let at = |ours: f64| {
            let rows = [
                digest("busyhour", 1, 20, &[10.0]),
                digest("busyhour", 8, 20, &[ours]),
                // Figures of another size are not taken for these.
                digest("busyhour", 1, 390, &[1.0]),
                digest("busyhour", 8, 390, &[9.0]),
                digest("libpcp-together", 1, 20, &[10.0]),
                digest("libpcp-together", 8, 20, &[30.0]),
            ];
            line(&rows, "small job", "20 metrics")
        };
        assert_eq!(at(10.4)[4], ("1.04× (one round)".to_owned(), false));
        assert_eq!(at(10.6)[4], ("1.06× (one round)".to_owned(), true));
        assert_eq!(at(10.6)[3].0, "3.00× (one round)");
        assert_eq!(at(10.6)[6].0, "0.50×");
    }

    #[test]
    fn a_failed_figure_says_why_and_hides_no_table() {
        let mut failed = rate("busyhour-unordered", &[]);
        failed.status = Status::Failed;
        failed.reason = "no room".to_owned();
        let rows = [rate("busyhour", &[7e6]), failed];
        let cells = line(&rows, "ordering", "of the rate, 50 threads");
        assert_eq!(cells[4], ("failed: no room".to_owned(), false));
        assert_eq!(cells[2].0, "left out");
    }

    #[test]
    fn every_line_is_measured_by_engines_and_sizes_that_run() {
        for table in SHARE_TABLES {
            let part = scenario::parts(table.work)[0];
            assert_eq!(part.work, table.work);
            let sizes = table.sizes();
            for line in table.lines {
                for at in [line.at, line.base_at] {
                    assert!(sizes.contains(&table.params(line, at)), "{}", line.what);
                }
            }
        }
    }

    #[test]
    fn rounds_of_several_runs_are_one_row() {
        let mut rows = vec![rate("busyhour", &[3.0]), rate("seed-after", &[1.0])];
        add_rounds(&mut rows, vec![rate("busyhour", &[1.0])]);
        add_rounds(&mut rows, vec![rate("busyhour", &[2.0])]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].rounds, [3.0, 1.0, 2.0]);
        assert_eq!((rows[0].median, rows[0].runs), (Some(2.0), 3));
        assert_eq!((rows[0].min, rows[0].max), (Some(1.0), Some(3.0)));
        let mut failed = rate("busyhour", &[]);
        failed.status = Status::Failed;
        add_rounds(&mut rows, vec![failed]);
        add_rounds(&mut rows, vec![rate("busyhour", &[9.0])]);
        assert_eq!(rows[0].status, Status::Failed);
        assert!(rows[0].rounds.is_empty());
    }
}
