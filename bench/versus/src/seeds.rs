//! The five tables of the seeds: their own figures beside today's.

use comfy_table::{Attribute, Cell, Color, Table};

use crate::{
    compare::{ahead_by, empty, figure},
    params::Params,
    record::Row,
};

/// A line of a seed's table and where today's figure of it comes from.
struct Line {
    what: &'static str,
    before: &'static str,
    after: &'static str,
    metric: &'static str,
    /// The value on the scenario's axis.
    at: u64,
    threads: Option<u64>,
}

/// One seed: its scenario and its lines.
pub struct Seed {
    pub title: &'static str,
    pub scenario: &'static str,
    axis: &'static str,
    /// Parameters that all lines share.
    fixed: &'static [(&'static str, u64)],
    lines: &'static [Line],
}

impl Seed {
    /// The parameters to run, one set a line.
    pub fn sizes(&self) -> Vec<Params> {
        let mut sizes = Vec::new();
        for line in self.lines {
            let params = self.params(line);
            if !sizes.contains(&params) {
                sizes.push(params);
            }
        }
        sizes
    }

    fn params(&self, line: &Line) -> Params {
        let fixed = self
            .fixed
            .iter()
            .fold(Params::default(), |params, (key, value)| {
                params.with(key, *value)
            });
        let params = line
            .threads
            .map_or_else(|| fixed.clone(), |threads| fixed.with("threads", threads));
        params.with(self.axis, line.at)
    }

    /// The seed's figures, today's of both structures and ours; losing cells in red.
    pub fn table(&self, rows: &[Row]) -> Table {
        let mut table = empty(&[
            self.title,
            "seed: before",
            "seed: after",
            "today: before",
            "today: after",
            "busyhour",
            "ahead of before",
            "ahead of after",
        ]);
        for line in self.lines {
            table.add_row(line.cells(&Today {
                rows,
                metric: line.metric,
                params: self.params(line),
            }));
        }
        table
    }

    /// Whether any line has Busyhour behind one of the seed's structures.
    pub fn losing_count(&self, rows: &[Row]) -> usize {
        let loses = |line: &&Line| {
            Today {
                rows,
                metric: line.metric,
                params: self.params(line),
            }
            .loses()
        };
        self.lines.iter().filter(loses).count()
    }
}

impl Line {
    fn cells(&self, today: &Today) -> Vec<Cell> {
        vec![
            Cell::new(self.what),
            Cell::new(self.before),
            Cell::new(self.after),
            today.figure("seed-before"),
            today.figure("seed-after"),
            today.figure(US),
            today.ahead_of("seed-before"),
            today.ahead_of("seed-after"),
        ]
    }
}

/// What the rows of this run say of one line.
struct Today<'a> {
    rows: &'a [Row],
    metric: &'static str,
    params: Params,
}

impl Today<'_> {
    fn find(&self, engine: &str) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.engine == engine && row.metric == self.metric && row.params == self.params
        })
    }

    fn ratio(&self, engine: &str) -> Option<f64> {
        Some(ahead_by(self.find(US)?, self.find(engine)?)?.median)
    }

    fn loses(&self) -> bool {
        ["seed-before", "seed-after"]
            .iter()
            .any(|engine| self.ratio(engine).is_some_and(|ratio| ratio < 1.0))
    }

    fn figure(&self, engine: &str) -> Cell {
        Cell::new(self.find(engine).map_or_else(|| "–".to_owned(), figure))
    }

    fn ahead_of(&self, engine: &str) -> Cell {
        match self.ratio(engine) {
            Some(ratio) if ratio < 1.0 => Cell::new(format!("{ratio:.2}× LOSES"))
                .fg(Color::Red)
                .add_attribute(Attribute::Bold),
            Some(ratio) => Cell::new(format!("{ratio:.2}×")),
            None => Cell::new("–"),
        }
    }
}

pub const SEEDS: &[Seed] = &[
    Seed {
        title: "1 timers: sorted list → heap",
        scenario: "timers",
        axis: "n",
        fixed: &[],
        lines: &[
            line("add, N = 100", "3.0 µs", "3.0 µs", "add_ns", 100),
            line("add, N = 500", "3.2 µs", "3.0 µs", "add_ns", 500),
            line("add, N = 1k", "3.9 µs", "2.9 µs", "add_ns", 1_000),
            line("add, N = 5k", "9.4 µs", "3.0 µs", "add_ns", 5_000),
            line("add, N = 10k", "15.0 µs", "3.0 µs", "add_ns", 10_000),
            line("add, N = 100k", "538 µs", "2.8 µs", "add_ns", 100_000),
            line("add, N = 1M", "687 µs", "2.7 µs", "add_ns", 1_000_000),
            line("cancel, N = 100", "340 ns", "400 ns", "cancel_ns", 100),
            line("cancel, N = 500", "380 ns", "420 ns", "cancel_ns", 500),
            line("cancel, N = 1k", "380 ns", "440 ns", "cancel_ns", 1_000),
            line("cancel, N = 5k", "360 ns", "440 ns", "cancel_ns", 5_000),
            line("cancel, N = 10k", "340 ns", "440 ns", "cancel_ns", 10_000),
            line("cancel, N = 100k", "420 ns", "603 ns", "cancel_ns", 100_000),
            line("cancel, N = 1M", "436 ns", "603 ns", "cancel_ns", 1_000_000),
            line(
                "both, N = 100",
                "3.34 µs",
                "3.40 µs",
                "cancelled_life_ns",
                100,
            ),
            line(
                "both, N = 10k",
                "15.3 µs",
                "3.42 µs",
                "cancelled_life_ns",
                10_000,
            ),
        ],
    },
    Seed {
        title: "2 event cache: linear → hash per type",
        scenario: "bus-cache",
        axis: "keys",
        fixed: &[("updates", 300_000)],
        lines: &[
            bus("updates, 100 keys", "–", "–", 100),
            bus(
                "updates, 12,000 keys",
                "peak 140 % CPU",
                "3–5 % CPU",
                12_000,
            ),
        ],
    },
    Seed {
        title: "3 run queue: goodness scan → adaptive",
        scenario: "run-queue",
        axis: "rq",
        fixed: &[("ms", 200)],
        lines: &[
            switch("RQ 2", "1.317 µs", "1.360 µs", 2),
            switch("RQ 3", "equal", "equal", 3),
            switch("RQ 4", "equal", "equal", 4),
            switch("RQ 30", "5.26 µs", "4.54 µs", 30),
            switch("RQ 50", "10.5 µs", "8.3 µs", 50),
            switch("RQ 100", "–", "35 % faster", 100),
            switch("RQ 200", "–", "60 % faster", 200),
        ],
    },
    Seed {
        title: "4 buffers: locked list → locked tree",
        scenario: "buffers",
        axis: "live",
        fixed: &[("pairs", 200_000)],
        lines: &[
            pin("1 live, 1 thread", "–", "–", 1, 1),
            pin("1 live, 8 threads", "–", "–", 1, 8),
            pin(
                "1,000 live, 1 thread",
                "43.3 s (1,688 metrics)",
                "–",
                1_000,
                1,
            ),
            pin("1,000 live, 8 threads", "51.5 s", "27.7 s", 1_000, 8),
        ],
    },
    Seed {
        title: "5 tasks: thread pool → pool of task processors",
        scenario: "pool-requeue",
        axis: "workers",
        fixed: &[("ms", 1_000)],
        lines: &[
            tasks("requeue, 2 threads", "–", "–", 2),
            tasks("requeue, 5 threads", "–", "–", 5),
            tasks("requeue, 50 threads", "760 k/s", "2,042 k/s", 50),
        ],
    },
    Seed {
        title: "5 tasks through serializers",
        scenario: "serializer-pingpong",
        axis: "workers",
        fixed: &[("ms", 1_000)],
        lines: &[
            tasks("ping-pong, 5 threads", "–", "–", 5),
            tasks("ping-pong, 50 threads", "553 k/s", "1,633 k/s", 50),
        ],
    },
];

const US: &str = "busyhour";

const fn line(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    metric: &'static str,
    at: u64,
) -> Line {
    Line {
        what,
        before,
        after,
        metric,
        at,
        threads: None,
    }
}

const fn bus(what: &'static str, before: &'static str, after: &'static str, keys: u64) -> Line {
    line(what, before, after, "messages_per_s", keys)
}

const fn switch(what: &'static str, before: &'static str, after: &'static str, rq: u64) -> Line {
    line(what, before, after, "switch_ns", rq)
}

const fn tasks(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    workers: u64,
) -> Line {
    line(what, before, after, "tasks_per_s", workers)
}

const fn pin(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    live: u64,
    threads: u64,
) -> Line {
    Line {
        threads: Some(threads),
        ..line(what, before, after, "pin_unpin_ns", live)
    }
}
