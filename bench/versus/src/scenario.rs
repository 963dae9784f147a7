//! The scenarios, exactly as the workload definitions give them: parameters
//! from small to huge, metrics, and what each must have done to count.

use serde::Serialize;

use crate::{check::Expect, params::Params};

/// Whether a smaller or a larger figure is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
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

/// A workload: what runs, at which sizes, and what it measures.
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    /// The parameter on the x axis of the plots.
    pub axis: &'static str,
    pub metrics: &'static [Metric],
    pub full: fn() -> Vec<Params>,
    pub quick: fn() -> Vec<Params>,
    pub tiny: fn() -> Vec<Params>,
    pub expect: fn(&Params) -> Expect,
}

pub fn all() -> &'static [Scenario] {
    SCENARIOS
}

pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "timers",
        about: "add N deadlines in the next 60 s, cancel them in random order; add N, expire all in order",
        axis: "n",
        metrics: &[
            lower("add_ns", "ns"),
            lower("cancel_ns", "ns"),
            lower("purge_ns", "ns"),
            lower("expire_ns", "ns"),
            lower("cancelled_life_ns", "ns"),
            lower("expired_life_ns", "ns"),
        ],
        full: || sizes("n", &[100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000]),
        quick: || sizes("n", &[100, 1_000, 10_000, 100_000]),
        tiny: || sizes("n", &[100]),
        expect: Expect::timers,
    },
    Scenario {
        name: "timers-shared",
        about: "two threads add timers and cancel each other's",
        axis: "threads",
        metrics: &[higher("mtimers_per_s", "M/s")],
        full: || grid(&[("n", &[100_000]), ("threads", &[1, 2])]),
        quick: || grid(&[("n", &[20_000]), ("threads", &[1, 2])]),
        tiny: || grid(&[("n", &[1_000]), ("threads", &[2])]),
        expect: Expect::timers_shared,
    },
    Scenario {
        name: "pool-requeue",
        about: "200 tasks; each adds 1 to a shared counter and pushes itself again",
        axis: "workers",
        metrics: &[higher("tasks_per_s", "tasks/s")],
        full: || grid(&[("workers", &[2, 5, 50]), ("ms", &[3_000])]),
        quick: || grid(&[("workers", &[2, 5, 50]), ("ms", &[150])]),
        tiny: || grid(&[("workers", &[2]), ("ms", &[20])]),
        expect: Expect::requeue,
    },
    Scenario {
        name: "pool-external",
        about: "one thread outside pushes N trivial closures to 2 workers",
        axis: "n",
        metrics: &[higher("tasks_per_s", "tasks/s")],
        full: || grid(&[("workers", &[2]), ("n", &[5_000_000])]),
        quick: || grid(&[("workers", &[2]), ("n", &[500_000])]),
        tiny: || grid(&[("workers", &[2]), ("n", &[5_000])]),
        expect: Expect::external,
    },
    Scenario {
        name: "serializer-pingpong",
        about: "200 pairs of serializers; each task adds 1 and pushes itself to the other of its pair",
        axis: "workers",
        metrics: &[higher("tasks_per_s", "tasks/s")],
        full: || grid(&[("workers", &[5, 50]), ("ms", &[3_000])]),
        quick: || grid(&[("workers", &[5, 50]), ("ms", &[150])]),
        tiny: || grid(&[("workers", &[2]), ("ms", &[20])]),
        expect: Expect::pingpong,
    },
    Scenario {
        name: "run-queue",
        about: "RQ runnable entities on one worker, each yields in a loop",
        axis: "rq",
        metrics: &[lower("switch_ns", "ns"), lower("pick_ns", "ns")],
        full: || {
            let lengths = &[2, 3, 4, 10, 30, 50, 100, 200, 1_000, 10_000, 100_000];
            grid(&[("ms", &[300]), ("rq", lengths)])
        },
        quick: || grid(&[("ms", &[40]), ("rq", &[2, 4, 30, 200, 10_000])]),
        tiny: || grid(&[("ms", &[20]), ("rq", &[3])]),
        expect: Expect::run_queue,
    },
    Scenario {
        name: "bus-cache",
        about: "updates to random keys, last value kept, one subscriber on another thread receives each",
        axis: "keys",
        metrics: &[higher("messages_per_s", "messages/s")],
        full: || bus(5_000_000, &[100, 1_000, 12_000, 100_000, 1_000_000]),
        quick: || bus(300_000, &[100, 12_000]),
        tiny: || bus(5_000, &[100]),
        expect: Expect::bus,
    },
    Scenario {
        name: "bus-lookup",
        about: "reads of cached last values, with and without a writer",
        axis: "keys",
        metrics: &[lower("lookup_ns", "ns"), higher("mlookups_per_s", "M/s")],
        full: || {
            let keys = &[100, 12_000, 100_000, 1_000_000];
            grid(&[
                ("ms", &[500]),
                ("writers", &[0, 1]),
                ("threads", &[1, 2]),
                ("keys", keys),
            ])
        },
        quick: || {
            grid(&[
                ("ms", &[60]),
                ("writers", &[0]),
                ("threads", &[1, 2]),
                ("keys", &[12_000]),
            ])
        },
        tiny: || {
            grid(&[
                ("ms", &[20]),
                ("writers", &[1]),
                ("threads", &[1]),
                ("keys", &[100]),
            ])
        },
        expect: Expect::lookup,
    },
    Scenario {
        name: "bus-fanout",
        about: "publish with many subscribers by key of which one matches",
        axis: "subscribers",
        metrics: &[lower("publish_ns", "ns")],
        full: || {
            grid(&[
                ("updates", &[1_000_000]),
                ("subscribers", &[1, 10, 100, 1_000]),
            ])
        },
        quick: || grid(&[("updates", &[100_000]), ("subscribers", &[1, 1_000])]),
        tiny: || grid(&[("updates", &[2_000]), ("subscribers", &[10])]),
        expect: Expect::fanout,
    },
    Scenario {
        name: "buffers",
        about: "find + unpin, pin + unpin by random interior address, clone + drop",
        axis: "live",
        metrics: &[
            lower("find_unpin_ns", "ns"),
            lower("pin_unpin_ns", "ns"),
            lower("clone_drop_ns", "ns"),
            higher("mpairs_per_s", "M/s"),
        ],
        full: || {
            let live = &[1, 100, 1_000, 10_000, 100_000, 1_000_000];
            grid(&[
                ("pairs", &[1_000_000]),
                ("threads", &[1, 2, 8]),
                ("live", live),
            ])
        },
        quick: || {
            grid(&[
                ("pairs", &[50_000]),
                ("threads", &[1, 2, 8]),
                ("live", &[1, 1_000]),
            ])
        },
        tiny: || grid(&[("pairs", &[2_000]), ("threads", &[2]), ("live", &[10])]),
        expect: Expect::buffers,
    },
    Scenario {
        name: "digest",
        about: "render the metrics of a PCP archive, 6 h at a step of 60 s",
        axis: "metrics",
        metrics: &[lower("digest_ms", "ms")],
        full: || {
            grid(&[
                ("threads", &[1, 8]),
                ("metrics", &[199, 231, 390, 398, 1_688]),
            ])
        },
        quick: || grid(&[("threads", &[1]), ("metrics", &[199])]),
        tiny: || grid(&[("threads", &[1]), ("metrics", &[20])]),
        expect: Expect::digest,
    },
    Scenario {
        name: "storm",
        about: "devices register at a registrar over loopback",
        axis: "offered",
        metrics: &[
            lower("cpu_us_per_register", "us"),
            lower("cpu_percent", "%"),
            higher("register_per_s", "1/s"),
            lower("p50_us", "us"),
            lower("p99_us", "us"),
            lower("bytes_per_contact", "bytes"),
            higher("notify_per_s", "1/s"),
        ],
        full: || {
            grid(&[
                ("seconds", &[10]),
                ("auth", &[0, 1]),
                ("offered", &[200, 1_000, 5_000, 10_000]),
            ])
        },
        quick: || grid(&[("seconds", &[2]), ("auth", &[0]), ("offered", &[500])]),
        tiny: || grid(&[("seconds", &[1]), ("auth", &[0]), ("offered", &[50])]),
        expect: Expect::storm,
    },
];

const fn lower(name: &'static str, unit: &'static str) -> Metric {
    Metric {
        name,
        unit,
        better: Better::Lower,
    }
}

const fn higher(name: &'static str, unit: &'static str) -> Metric {
    Metric {
        name,
        unit,
        better: Better::Higher,
    }
}

fn sizes(key: &str, values: &[u64]) -> Vec<Params> {
    grid(&[(key, values)])
}

fn bus(updates: u64, keys: &[u64]) -> Vec<Params> {
    grid(&[("updates", &[updates]), ("keys", keys)])
}

/// Every combination, the last key varying fastest.
fn grid(axes: &[(&str, &[u64])]) -> Vec<Params> {
    let mut rows = vec![Params::default()];
    for (key, values) in axes {
        rows = rows
            .iter()
            .flat_map(|row| values.iter().map(|value| row.with(key, *value)))
            .collect();
    }
    rows
}
