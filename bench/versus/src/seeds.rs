//! The tables of the five seeds: their lines, and where the present figure of
//! each line comes from.

use crate::{params::Params, record::Row, scenario};

/// A line of a seed's table, and where its present figure comes from.
pub struct Line {
    pub what: &'static str,
    pub before: &'static str,
    pub after: &'static str,
    pub metric: &'static str,
    /// The value on the scenario's axis.
    at: u64,
    threads: Option<u64>,
}

/// One table of a seed.
pub struct Seed {
    pub title: &'static str,
    pub work: &'static str,
    /// The engine with the seed's old structure.
    pub before: &'static str,
    /// The engine with the seed's new structure.
    pub after: &'static str,
    axis: &'static str,
    /// Parameters that all lines share.
    fixed: &'static [(&'static str, u64)],
    pub lines: &'static [Line],
    /// Whether a round takes minutes, so that there is only one.
    pub is_long: bool,
}

impl Seed {
    pub fn engines(&self) -> [String; 3] {
        [self.before, self.after, US].map(str::to_owned)
    }

    /// The parameters to run, one set for each line.
    pub fn sizes(&self) -> Vec<Params> {
        let mut sizes = Vec::new();
        for params in self.lines.iter().map(|line| self.params(line)) {
            if !sizes.contains(&params) {
                sizes.push(params);
            }
        }
        sizes
    }

    fn params(&self, line: &Line) -> Params {
        let fixed = self.fixed.iter();
        let fixed = fixed.fold(Params::default(), |params, (key, value)| {
            params.with(key, *value)
        });
        let params = line
            .threads
            .map_or_else(|| fixed.clone(), |threads| fixed.with("threads", threads));
        params.with(self.axis, line.at)
    }

    /// The figure of a line in a record, whatever the durations of the record
    /// are.
    pub fn find<'a>(&self, line: &Line, engine: &str, rows: &'a [Row]) -> Option<&'a Row> {
        let is_of_part =
            |row: &Row| scenario::of_row(row).is_some_and(|part| part.work == self.work);
        rows.iter().find(|row| {
            row.engine == engine
                && row.metric == line.metric
                && row.params.get(self.axis) == Some(line.at)
                && (line.threads.is_none() || row.params.get("threads") == line.threads)
                && is_of_part(row)
        })
    }
}

pub const SEEDS: &[Seed] = &[
    Seed {
        title: "1 timers: sorted list → heap",
        work: "timers",
        before: "seed-before",
        after: "seed-after",
        is_long: false,
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
        work: "bus-cache",
        before: "seed-before",
        after: "seed-after",
        is_long: false,
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
        work: "run-queue",
        before: "seed-before",
        after: "seed-after",
        is_long: false,
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
            pick("RQ 2, pick alone", 2),
            pick("RQ 30, pick alone", 30),
            pick("RQ 200, pick alone", 200),
        ],
    },
    Seed {
        title: "4 buffers: locked list → locked tree",
        work: "buffers",
        before: "seed-before",
        after: "seed-after",
        is_long: false,
        axis: "live",
        fixed: &[("pairs", 200_000)],
        lines: &[
            pin("1 live, 1 thread", "–", "–", 1, 1),
            pin("1 live, 8 threads", "–", "–", 1, 8),
            pin("100 live, 1 thread", "–", "–", 100, 1),
            pin("100 live, 8 threads", "–", "–", 100, 8),
            pin("1,000 live, 1 thread", "–", "–", 1_000, 1),
            pin("1,000 live, 8 threads", "–", "–", 1_000, 8),
        ],
    },
    Seed {
        title: "4 digest of an archive: list → tree, by libpcp",
        work: "digest",
        before: "libpcp",
        after: "libpcp-together",
        is_long: true,
        axis: "metrics",
        fixed: &[],
        lines: &[
            digest("20 metrics, 1 thread", "–", "–", 20, 1),
            digest("20 metrics, 8 threads", "–", "–", 20, 8),
            digest("100 metrics, 1 thread", "–", "–", 100, 1),
            digest("100 metrics, 8 threads", "–", "–", 100, 8),
            digest("199 metrics, 1 thread", "2,029 ms", "–", 199, 1),
            digest("199 metrics, 8 threads", "1,795 ms", "1,233 ms", 199, 8),
            digest("231 metrics, 1 thread", "9,894 ms", "–", 231, 1),
            digest("231 metrics, 8 threads", "4,132 ms", "4,860 ms", 231, 8),
            digest("390 metrics, 1 thread", "4,029 ms", "–", 390, 1),
            digest("390 metrics, 8 threads", "2,215 ms", "2,052 ms", 390, 8),
            digest("398 metrics, 1 thread", "3,816 ms", "–", 398, 1),
            digest("398 metrics, 8 threads", "1,376 ms", "1,716 ms", 398, 8),
            digest("1,688 metrics, 1 thread", "43,325 ms", "–", 1_688, 1),
            digest(
                "1,688 metrics, 8 threads",
                "51,467 ms",
                "27,656 ms",
                1_688,
                8,
            ),
        ],
    },
    Seed {
        title: "5 tasks: thread pool → pool of task processors",
        work: "pool-requeue",
        before: "seed-before",
        after: "seed-after",
        is_long: false,
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
        work: "serializer-pingpong",
        before: "seed-before",
        after: "seed-after",
        is_long: false,
        axis: "workers",
        fixed: &[("ms", 1_000)],
        lines: &[
            tasks("ping-pong, 5 threads", "–", "–", 5),
            tasks("ping-pong, 50 threads", "553 k/s", "1,633 k/s", 50),
        ],
    },
];

/// The engine whose lead is shown.
pub const US: &str = "busyhour";

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

const fn pick(what: &'static str, rq: u64) -> Line {
    line(what, "–", "–", "pick_ns", rq)
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

const fn digest(
    what: &'static str,
    before: &'static str,
    after: &'static str,
    metrics: u64,
    threads: u64,
) -> Line {
    Line {
        threads: Some(threads),
        ..line(what, before, after, "digest_ms", metrics)
    }
}
