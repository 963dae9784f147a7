//! The scenarios as the workloads are defined: parameters from small to very
//! large, and metrics.

use crate::{
    check::Expect,
    params::Params,
    scenario::{Better, Metric, Scenario},
};

pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "random-access",
        work: "random-access",
        about: "loads at random addresses, each address depending on the load before: the machine's own limit",
        axis: "bytes",
        metrics: &[lower("random_access_ns", "ns")],
        weight: 1,
        full: || random_access(4_000_000),
        short: || random_access(2_000_000),
        quick: || random_access(500_000),
        tiny: || grid(&[("loads", &[10_000]), ("bytes", &[1 << 20])]),
        expect: Expect::random_access,
    },
    Scenario {
        name: "hand-over",
        work: "hand-over",
        about: "a cache line goes from one processor to another: the machine's own limit for two threads",
        axis: "turns",
        metrics: &[lower("hand_over_ns", "ns")],
        weight: 1,
        full: || grid(&[("turns", &[400_000])]),
        short: || grid(&[("turns", &[400_000])]),
        quick: || grid(&[("turns", &[200_000])]),
        tiny: || grid(&[("turns", &[1_000])]),
        expect: Expect::hand_over,
    },
    Scenario {
        name: "only-compute",
        work: "only-compute",
        about: "threads that share nothing and touch no memory: how much of each the machine gives",
        axis: "threads",
        metrics: &[lower("compute_ms", "ms")],
        weight: 1,
        full: || grid(&[("steps", &[400_000_000]), ("threads", &[1, 2, 4, 8])]),
        short: || grid(&[("steps", &[100_000_000]), ("threads", &[1, 2, 4, 8])]),
        quick: || grid(&[("steps", &[40_000_000]), ("threads", &[1, 2, 4, 8])]),
        tiny: || grid(&[("steps", &[10_001]), ("threads", &[2])]),
        expect: Expect::only_compute,
    },
    Scenario {
        name: "timers",
        work: "timers",
        about: "add N deadlines in the next 60 s, cancel them in random order; add N, expire all in order",
        axis: "n",
        metrics: &[
            lower("cancelled_life_ns", "ns"),
            lower("expired_life_ns", "ns"),
            lower("add_ns", "ns"),
            lower("cancel_ns", "ns"),
            lower("purge_ns", "ns"),
            lower("expire_ns", "ns"),
        ],
        weight: 36,
        full: || grid(&[("n", TIMER_COUNTS)]),
        short: || grid(&[("n", TIMER_COUNTS)]),
        quick: || grid(&[("n", &[100, 1_000, 10_000, 100_000])]),
        tiny: || grid(&[("n", &[100])]),
        expect: Expect::timers,
    },
    Scenario {
        name: "timers",
        work: "timers-shared",
        about: "threads that share the timers; each adds its own and cancels the next one's",
        axis: "threads",
        metrics: &[higher("mtimers_per_s", "M/s")],
        weight: 1,
        full: || grid(&[("n", &[500_000]), ("threads", &[1, 2])]),
        short: || grid(&[("n", &[200_000]), ("threads", &[1, 2])]),
        quick: || grid(&[("n", &[50_000]), ("threads", &[1, 2])]),
        tiny: || grid(&[("n", &[1_000]), ("threads", &[2])]),
        expect: Expect::timers_shared,
    },
    Scenario {
        name: "pool-requeue",
        work: "pool-requeue",
        about: "200 tasks; each adds 1 to a shared counter and pushes itself again",
        axis: "workers",
        metrics: &[higher("tasks_per_s", "tasks/s")],
        weight: 10,
        full: || grid(&[("workers", &[2, 5, 50]), ("ms", &[3_000])]),
        short: || grid(&[("workers", &[2, 5, 50]), ("ms", &[1_000])]),
        quick: || grid(&[("workers", &[2, 5, 50]), ("ms", &[100])]),
        tiny: || grid(&[("workers", &[2]), ("ms", &[20])]),
        expect: Expect::requeue,
    },
    Scenario {
        name: "pool-external",
        work: "pool-external",
        about: "one thread outside pushes N trivial closures to 2 workers",
        axis: "n",
        metrics: &[higher("tasks_per_s", "tasks/s")],
        weight: 6,
        full: || grid(&[("workers", &[2]), ("n", &[500_000, 5_000_000])]),
        short: || grid(&[("workers", &[2]), ("n", &[500_000, 5_000_000])]),
        quick: || grid(&[("workers", &[2]), ("n", &[300_000])]),
        tiny: || grid(&[("workers", &[2]), ("n", &[5_000])]),
        expect: Expect::external,
    },
    Scenario {
        name: "serializer-pingpong",
        work: "serializer-pingpong",
        about: "200 pairs of serializers; each task adds 1 and pushes itself to the other of its pair",
        axis: "workers",
        metrics: &[higher("tasks_per_s", "tasks/s")],
        weight: 5,
        full: || grid(&[("workers", &[5, 50]), ("ms", &[3_000])]),
        short: || grid(&[("workers", &[5, 50]), ("ms", &[1_000])]),
        quick: || grid(&[("workers", &[5, 50]), ("ms", &[150])]),
        tiny: || grid(&[("workers", &[2]), ("ms", &[20])]),
        expect: Expect::pingpong,
    },
    Scenario {
        name: "run-queue",
        work: "run-queue",
        about: "RQ runnable entities on one worker, each yields in a loop",
        axis: "rq",
        metrics: &[
            lower("switch_ns", "ns"),
            lower("pick_ns", "ns"),
            lower("work_deviation_percent", "%"),
        ],
        weight: 6,
        full: || grid(&[("ms", &[1_000]), ("rq", LENGTHS)]),
        short: || grid(&[("ms", &[150]), ("rq", LENGTHS)]),
        quick: || grid(&[("ms", &[40]), ("rq", &[2, 4, 30, 200, 10_000])]),
        tiny: || grid(&[("ms", &[20]), ("rq", &[3])]),
        expect: Expect::run_queue,
    },
    Scenario {
        name: "run-queue",
        work: "run-queue-busy",
        about: "the same with 10 µs of work a turn: how long it takes to choose whose is next",
        axis: "rq",
        metrics: &[lower("choosing_ns", "ns"), lower("turn_ns", "ns")],
        weight: 4,
        full: || busy(3_000, &[2, 30, 200, 10_000, 100_000]),
        short: || busy(1_000, &[2, 30, 200, 10_000, 100_000]),
        quick: || busy(300, &[2, 30, 200]),
        tiny: || grid(&[("work_us", &[10]), ("ms", &[20]), ("rq", &[3])]),
        expect: Expect::run_queue,
    },
    Scenario {
        name: "bus-cache",
        work: "bus-cache",
        about: "updates to random keys, last value kept, one subscriber on another thread receives each",
        axis: "keys",
        metrics: &[higher("messages_per_s", "messages/s")],
        weight: 14,
        full: || grid(&[("updates", &[5_000_000]), ("keys", KEYS)]),
        short: || grid(&[("updates", &[1_000_000]), ("keys", KEYS)]),
        quick: || grid(&[("updates", &[200_000]), ("keys", &[100, 12_000])]),
        tiny: || grid(&[("updates", &[5_000]), ("keys", &[100])]),
        expect: Expect::bus,
    },
    Scenario {
        name: "bus-cache",
        work: "bus-lookup",
        about: "reads of cached last values, with and without a writer",
        axis: "keys",
        metrics: &[lower("lookup_ns", "ns"), higher("mlookups_per_s", "M/s")],
        weight: 5,
        full: || lookups(1_000, &[100, 12_000, 100_000, 1_000_000]),
        short: || lookups(150, &[100, 12_000, 100_000, 1_000_000]),
        quick: || lookups(60, &[12_000]),
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
        name: "bus-cache",
        work: "bus-fanout",
        about: "publish with many subscribers by key of which one matches",
        axis: "subscribers",
        metrics: &[lower("publish_ns", "ns")],
        weight: 2,
        full: || {
            grid(&[
                ("updates", &[1_000_000]),
                ("subscribers", &[1, 10, 100, 1_000]),
            ])
        },
        short: || {
            grid(&[
                ("updates", &[300_000]),
                ("subscribers", &[1, 10, 100, 1_000]),
            ])
        },
        quick: || grid(&[("updates", &[100_000]), ("subscribers", &[1, 1_000])]),
        tiny: || grid(&[("updates", &[2_000]), ("subscribers", &[10])]),
        expect: Expect::fanout,
    },
    Scenario {
        name: "buffers",
        work: "buffers",
        about: "find + unpin, pin + unpin by random interior address, clone + drop",
        axis: "live",
        metrics: &[
            lower("pin_unpin_ns", "ns"),
            lower("find_unpin_ns", "ns"),
            lower("clone_drop_ns", "ns"),
            higher("mpairs_per_s", "M/s"),
        ],
        weight: 14,
        full: || {
            grid(&[
                ("pairs", &[1_000_000]),
                ("threads", &[1, 2, 8]),
                ("live", LIVE),
            ])
        },
        short: || {
            grid(&[
                ("pairs", &[100_000]),
                ("threads", &[1, 2, 8]),
                ("live", LIVE),
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
        work: "digest",
        about: "render the metrics of a PCP archive, 6 h at a step of 60 s",
        axis: "metrics",
        metrics: &[lower("digest_ms", "ms")],
        weight: 14,
        full: || grid(&[("threads", &[1, 2, 8]), ("metrics", METRICS)]),
        short: || grid(&[("threads", &[1, 2, 8]), ("metrics", METRICS)]),
        quick: || grid(&[("threads", &[1, 8]), ("metrics", &[20])]),
        tiny: || grid(&[("threads", &[1]), ("metrics", &[20])]),
        expect: Expect::digest,
    },
    Scenario {
        name: "digest",
        work: "digest-folder",
        about: "render a folder of PCP archives, each with 100 metric-instances, 6 h at a step of 60 s",
        axis: "archives",
        metrics: &[lower("digest_ms", "ms")],
        weight: 6,
        full: || grid(&[("threads", &[1, 2]), ("archives", &[200])]),
        short: || grid(&[("threads", &[1, 2]), ("archives", &[200])]),
        quick: || grid(&[("threads", &[1, 2]), ("archives", &[20])]),
        tiny: || grid(&[("threads", &[2]), ("archives", &[2])]),
        expect: Expect::digest_folder,
    },
    Scenario {
        name: "durable-log",
        work: "durable-log",
        about: "one thread hands in a group of refreshes of registrations, waits until it is durable, and goes on",
        axis: "group",
        metrics: &[
            higher("records_per_s", "1/s"),
            lower("commit_p50_us", "µs"),
            lower("commit_p99_us", "µs"),
            lower("commit_max_us", "µs"),
            lower("cpu_us_per_record", "µs"),
        ],
        weight: 8,
        full: || durable(100_000, 3_000),
        short: || durable(100_000, 1_000),
        quick: || durable(10_000, 200),
        tiny: || grid(&[("bindings", &[100]), ("ms", &[20]), ("group", &[16])]),
        expect: Expect::durable_log,
    },
    Scenario {
        name: "storm",
        work: "storm",
        about: "devices register at a registrar over loopback, so many a second",
        axis: "offered",
        metrics: STORM,
        weight: 14,
        full: || {
            [
                offered(10, &[0], &[200, 1_000, 5_000, 10_000]),
                // The workload itself: 12,000 devices over one minute.
                offered(60, &[1], &[200]),
                offered(10, &[1], &[1_000, 5_000, 10_000]),
            ]
            .concat()
        },
        short: || offered(3, &[0, 1], &[200, 1_000, 5_000, 10_000]),
        quick: || offered(1, &[1], &[500]),
        tiny: || offered(1, &[0], &[50]),
        expect: Expect::storm,
    },
    Scenario {
        name: "storm",
        work: "storm-iax2",
        about: "the same by IAX2, with call token and MD5",
        axis: "offered",
        metrics: STORM,
        weight: 5,
        full: || [by_iax2(60, &[200]), by_iax2(10, &[1_000, 5_000])].concat(),
        short: || by_iax2(3, &[200, 1_000, 5_000]),
        quick: || by_iax2(1, &[500]),
        tiny: || by_iax2(1, &[50]),
        expect: Expect::storm,
    },
    Scenario {
        name: "storm",
        work: "storm-overload",
        about: "so many hundredths of its ceiling are offered to a registrar: what gets through",
        axis: "percent",
        metrics: OVERLOAD,
        weight: 8,
        full: || overload(10, &["refresh", "insert"], &[0, 1], &[100, 150, 200]),
        short: || overload(3, &["refresh", "insert"], &[0, 1], &[100, 150, 200]),
        // Refreshes need registered devices, and registering them alone takes longer than
        // a quick run.
        quick: || overload(1, &["insert"], &[0], &[200]),
        tiny: || overload(1, &["refresh", "insert"], &[0], &[10]),
        expect: Expect::storm_overload,
    },
    Scenario {
        name: "storm",
        work: "storm-ceiling",
        about: "the next device registers as soon as one has been acknowledged, so many at a time",
        axis: "outstanding",
        metrics: STORM,
        weight: 5,
        full: || {
            [
                ceiling("insert", 10, &[0, 1]),
                ceiling("refresh", 10, &[0, 1]),
            ]
            .concat()
        },
        short: || {
            [
                ceiling("insert", 3, &[0, 1]),
                ceiling("refresh", 3, &[0, 1]),
            ]
            .concat()
        },
        quick: || ceiling("refresh", 1, &[0]),
        tiny: || ceiling("refresh", 1, &[0]),
        expect: Expect::storm,
    },
    Scenario {
        name: "storm",
        work: "storm-contacts",
        about: "that many devices register, then all refresh: memory of a contact, and refreshes a second",
        axis: "contacts",
        metrics: STORM,
        weight: 14,
        full: || contacts(10, &[10_000, 100_000, 1_000_000]),
        short: || contacts(2, &[10_000, 100_000, 1_000_000]),
        quick: || contacts(1, &[5_000]),
        tiny: || contacts(1, &[100]),
        expect: Expect::storm,
    },
    Scenario {
        name: "storm",
        work: "storm-watchers",
        about: "10,000 watch so many devices, which register: each change is told to all who watch it",
        axis: "devices",
        metrics: WATCHED,
        weight: 5,
        full: || watched(10_000, &[1, 100, 1_000]),
        short: || watched(10_000, &[1, 100, 1_000]),
        quick: || watched(1_000, &[10]),
        tiny: || watched(10, &[2]),
        expect: Expect::storm_watchers,
    },
    Scenario {
        name: "calls",
        work: "calls",
        about: "calls between 1,000 registered telephones through a proxy, so many a second: INVITE, 180, 200, ACK, BYE",
        axis: "offered",
        metrics: CALLS,
        weight: 10,
        full: || {
            [
                calls(10, "plain", &[50, 200, 500, 1_000]),
                calls(10, "forked", &[200, 800]),
                calls(10, "watched", &[50, 200]),
                calls(10, "authenticated", &[200, 1_000]),
            ]
            .concat()
        },
        short: || {
            [
                calls(3, "plain", &[50, 200, 500, 1_000]),
                calls(3, "forked", &[200, 800]),
                calls(3, "watched", &[50, 200]),
                calls(3, "authenticated", &[200, 1_000]),
            ]
            .concat()
        },
        quick: || {
            let quick = |flow| calls(1, flow, &[100]);
            ["plain", "forked", "watched", "authenticated"]
                .map(quick)
                .concat()
        },
        tiny: || calls(1, "plain", &[20]),
        expect: Expect::calls,
    },
    Scenario {
        name: "calls",
        work: "calls-ceiling",
        about: "the next call begins as soon as one is over, so many at a time",
        axis: "outstanding",
        metrics: CALLS,
        weight: 5,
        full: || busy_calls(10),
        short: || busy_calls(3),
        quick: || {
            vec![
                Params::default()
                    .with_word("flow", "plain")
                    .with("outstanding", 32)
                    .with("seconds", 1),
            ]
        },
        tiny: || {
            vec![
                Params::default()
                    .with_word("flow", "plain")
                    .with("outstanding", 2)
                    .with("seconds", 1),
            ]
        },
        expect: Expect::calls,
    },
];

const TIMER_COUNTS: &[u64] = &[
    100, 500, 1_000, 5_000, 10_000, 100_000, 1_000_000, 10_000_000,
];
const LENGTHS: &[u64] = &[2, 3, 4, 10, 30, 50, 100, 200, 1_000, 10_000, 100_000];
const KEYS: &[u64] = &[100, 1_000, 12_000, 100_000, 1_000_000];
const LIVE: &[u64] = &[1, 100, 1_000, 10_000, 100_000, 1_000_000];
const METRICS: &[u64] = &[20, 100, 199, 231, 390, 398, 1_688];

const STORM: &[Metric] = &[
    lower("cpu_us_per_register", "µs"),
    higher("register_per_s", "1/s"),
    lower("cpu_percent", "%"),
    lower("p50_us", "µs"),
    lower("p99_us", "µs"),
    lower("p99_9_us", "µs"),
    lower("retransmissions", "datagrams"),
    lower("bytes_per_contact", "bytes"),
];

const OVERLOAD: &[Metric] = &[
    higher("goodput_share", "of the ceiling"),
    higher("goodput_per_s", "1/s"),
    lower("p50_us", "µs"),
    lower("p99_us", "µs"),
];

const WATCHED: &[Metric] = &[
    higher("notify_per_s", "1/s"),
    lower("cpu_us_per_notify", "µs"),
    lower("told_after_ms", "ms"),
    lower("memory_mib", "MiB"),
];

const CALLS: &[Metric] = &[
    lower("cpu_us_per_call", "µs"),
    higher("calls_per_s", "1/s"),
    lower("answer_p50_us", "µs"),
    lower("answer_p99_us", "µs"),
    lower("ringing_p99_us", "µs"),
    lower("notify_p50_us", "µs"),
    lower("notify_p99_us", "µs"),
    lower("states_skipped", "states"),
    lower("states_stale", "states"),
    lower("lamps_wrong", "lamps"),
    lower("retransmissions", "messages"),
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

fn busy(ms: u64, lengths: &[u64]) -> Vec<Params> {
    grid(&[("work_us", &[10]), ("ms", &[ms]), ("rq", lengths)])
}

fn random_access(loads: u64) -> Vec<Params> {
    grid(&[
        ("loads", &[loads]),
        ("bytes", &[1 << 20, 16 << 20, 1 << 30]),
    ])
}

fn lookups(ms: u64, keys: &[u64]) -> Vec<Params> {
    grid(&[
        ("ms", &[ms]),
        ("writers", &[0, 1]),
        ("threads", &[1, 2]),
        ("keys", keys),
    ])
}

fn offered(seconds: u64, auth: &[u64], offered: &[u64]) -> Vec<Params> {
    let sip = Params::default()
        .with_word("protocol", "sip")
        .with_word("kind", "insert");
    from(
        sip,
        &[
            ("seconds", &[seconds]),
            ("auth", auth),
            ("offered", offered),
        ],
    )
}

fn by_iax2(seconds: u64, offered: &[u64]) -> Vec<Params> {
    let iax2 = Params::default()
        .with_word("protocol", "iax2")
        .with_word("kind", "insert");
    from(
        iax2,
        &[
            ("seconds", &[seconds]),
            ("auth", &[1]),
            ("offered", offered),
        ],
    )
}

fn durable(bindings: u64, ms: u64) -> Vec<Params> {
    grid(&[
        ("bindings", &[bindings]),
        ("ms", &[ms]),
        ("group", &[1, 16, 256]),
    ])
}

/// Refreshes and new devices.
fn overload(seconds: u64, kinds: &[&str], auth: &[u64], percent: &[u64]) -> Vec<Params> {
    let rows = |kind: &&str| {
        let sip = Params::default()
            .with_word("protocol", "sip")
            .with_word("kind", kind);
        from(
            sip,
            &[
                ("seconds", &[seconds]),
                ("auth", auth),
                ("percent", percent),
            ],
        )
    };
    kinds.iter().flat_map(rows).collect()
}

fn ceiling(kind: &str, seconds: u64, auth: &[u64]) -> Vec<Params> {
    let sip = Params::default()
        .with_word("protocol", "sip")
        .with_word("kind", kind);
    from(
        sip,
        &[
            ("seconds", &[seconds]),
            ("auth", auth),
            ("outstanding", &[64]),
        ],
    )
}

fn contacts(seconds: u64, contacts: &[u64]) -> Vec<Params> {
    let sip = Params::default()
        .with_word("protocol", "sip")
        .with_word("kind", "refresh");
    from(
        sip,
        &[
            ("seconds", &[seconds]),
            ("auth", &[0]),
            ("contacts", contacts),
        ],
    )
}

fn watched(watchers: u64, devices: &[u64]) -> Vec<Params> {
    let sip = Params::default()
        .with_word("protocol", "sip")
        .with_word("kind", "insert");
    from(
        sip,
        &[
            ("auth", &[0]),
            ("watchers", &[watchers]),
            ("devices", devices),
        ],
    )
}

fn calls(seconds: u64, flow: &str, offered: &[u64]) -> Vec<Params> {
    let flow = Params::default().with_word("flow", flow);
    from(flow, &[("seconds", &[seconds]), ("offered", offered)])
}

/// A forked call rings for 50 ms, so there must be more of them at a time.
fn busy_calls(seconds: u64) -> Vec<Params> {
    let flows = [
        ("plain", 32),
        ("forked", 200),
        ("watched", 32),
        ("authenticated", 32),
    ];
    let one = |(flow, outstanding): (&str, u64)| {
        Params::default()
            .with_word("flow", flow)
            .with("seconds", seconds)
            .with("outstanding", outstanding)
    };
    flows.map(one).to_vec()
}

fn grid(axes: &[(&str, &[u64])]) -> Vec<Params> {
    from(Params::default(), axes)
}

/// Every combination; the last key varies fastest.
fn from(fixed: Params, axes: &[(&str, &[u64])]) -> Vec<Params> {
    let mut rows = vec![fixed];
    for (key, values) in axes {
        rows = rows
            .iter()
            .flat_map(|row| values.iter().map(|value| row.with(key, *value)))
            .collect();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_a_part_is_found_by_its_row() {
        for part in SCENARIOS {
            for params in [(part.full)(), (part.short)(), (part.quick)(), (part.tiny)()].concat() {
                assert!(params.has(part.axis), "{} {params}", part.work);
            }
        }
    }

    #[test]
    fn a_shorter_record_has_all_sizes() {
        for part in SCENARIOS {
            let values = |sizes: Vec<Params>| -> Vec<_> {
                sizes.iter().map(|size| size.get(part.axis)).collect()
            };
            assert_eq!(
                values((part.full)()),
                values((part.short)()),
                "{}",
                part.work
            );
        }
    }
}
