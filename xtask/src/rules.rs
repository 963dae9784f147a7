//! The rules for the source tree. If the design changes, edit this file and
//! ARCHITECTURE.md.

/// A module of a crate and the modules of the same crate it may know.
pub struct Arrow {
    pub module: &'static str,
    pub may_use: &'static [&'static str],
}

/// A crate of the product and the other crates of the product that it may depend on.
/// The crate's manifest and the table in ARCHITECTURE.md must agree with this.
pub const CRATES: &[Arrow] = &[
    arrow("busyhour", &[]),
    arrow("busyhour-capi", &["busyhour"]),
    arrow("busyhour-cluster", &["busyhour"]),
    arrow("busyhour-pcp", &["busyhour"]),
    arrow("busyhour-graphite", &[]),
    arrow("busyhour-sip", &["busyhour"]),
    arrow("busyhour-registrar", &["busyhour", "busyhour-sip"]),
    arrow(
        "busyhour-proxy",
        &["busyhour", "busyhour-registrar", "busyhour-sip"],
    ),
    arrow(
        "busyhour-iax2",
        &["busyhour", "busyhour-registrar", "busyhour-sip"],
    ),
    arrow("busyhour-media", &["busyhour", "busyhour-sip"]),
    arrow(
        "busyhour-store",
        &[
            "busyhour",
            "busyhour-cluster",
            "busyhour-registrar",
            "busyhour-sip",
        ],
    ),
    arrow(
        "busyhour-storm",
        &["busyhour", "busyhour-iax2", "busyhour-sip"],
    ),
    arrow(
        "busyhour-server",
        &[
            "busyhour",
            "busyhour-cluster",
            "busyhour-graphite",
            "busyhour-iax2",
            "busyhour-media",
            "busyhour-pcp",
            "busyhour-proxy",
            "busyhour-registrar",
            "busyhour-sip",
            "busyhour-store",
            "busyhour-storm",
        ],
    ),
];

/// A crate whose modules depend in one direction only. A crate without arrows is too
/// small for this.
pub struct Layers {
    pub source: &'static str,
    /// Modules that every module of the crate may use.
    pub base: &'static [&'static str],
    pub arrows: &'static [Arrow],
}

pub const LAYERS: &[Layers] = &[
    LIBRARY, CAPI, CLUSTER, PCP, GRAPHITE, SIP, REGISTRAR, PROXY, IAX2, MEDIA, STORE, STORM, SERVER,
];

const LIBRARY: Layers = Layers {
    source: "crates/busyhour/src",
    base: &["clock", "cost", "ring", "stats", "sync", "trace"],
    arrows: &[
        arrow("clock", &[]),
        arrow("cost", &[]),
        arrow("stats", &[]),
        arrow("trace", &[]),
        arrow("ring", &[]),
        arrow("sync", &[]),
        arrow("buffer", &[]),
        arrow("task", &[]),
        arrow("heap", &[]),
        arrow("run_queue", &[]),
        arrow("pool", &["task", "run_queue"]),
        arrow("serializer", &["task", "run_queue", "pool"]),
        arrow("timer", &["task", "pool"]),
        arrow("bus", &["task", "pool", "timer"]),
        arrow("keyed", &["task", "pool", "serializer", "timer"]),
        arrow("runtime", &["buffer", "pool", "serializer", "bus", "timer"]),
    ],
};

const CAPI: Layers = Layers {
    source: "crates/busyhour-capi/src",
    base: &["edge", "result"],
    arrows: &[
        arrow("edge", &[]),
        arrow("result", &[]),
        arrow("buffers", &[]),
        arrow("heap", &[]),
        arrow("pool", &[]),
        arrow("run_queue", &["pool"]),
        arrow("timer_queue", &[]),
        arrow("executor", &["pool"]),
        arrow("timers", &["executor"]),
        arrow("runtime", &["buffers", "pool", "timers"]),
        arrow("topic", &["pool", "executor", "timers", "runtime"]),
    ],
};

const CLUSTER: Layers = Layers {
    source: "crates/busyhour-cluster/src",
    base: &["partition", "member", "timing"],
    arrows: &[
        arrow("partition", &[]),
        arrow("member", &[]),
        arrow("timing", &[]),
        arrow("view", &[]),
        arrow("tables", &["view"]),
        arrow("assignment", &["view"]),
        arrow("action", &["view"]),
        arrow("node", &["view", "assignment", "action"]),
        arrow("ownership", &["view"]),
        arrow("live", &["view"]),
        arrow("notices", &[]),
        arrow("connection_ends", &[]),
        arrow("kept_requests", &[]),
        arrow("broker", &[]),
        arrow("pieces", &[]),
        arrow("nats", &["broker", "pieces"]),
    ],
};

const PCP: Layers = Layers {
    source: "crates/busyhour-pcp/src",
    base: &["error", "stop_check"],
    arrows: &[
        arrow("error", &[]),
        arrow("stop_check", &[]),
        arrow("format", &[]),
        arrow("read", &["format"]),
        arrow("render", &["format", "read"]),
        arrow("live", &["format"]),
        arrow("open", &["format", "read", "render"]),
    ],
};

const GRAPHITE: Layers = Layers {
    source: "crates/busyhour-graphite/src",
    base: &["error", "limits", "stats", "time_limit"],
    arrows: &[
        arrow("error", &[]),
        arrow("limits", &[]),
        arrow("time_limit", &[]),
        arrow("stats", &[]),
        arrow("paths", &[]),
        arrow("data", &["paths"]),
        arrow("request", &[]),
        arrow("functions", &["paths", "data", "request"]),
        arrow("find", &["paths", "request", "functions"]),
        arrow("answer", &[]),
        arrow("render", &["data", "request", "answer"]),
        arrow(
            "graphite",
            &[
                "paths",
                "data",
                "request",
                "functions",
                "find",
                "answer",
                "render",
            ],
        ),
    ],
};

const SIP: Layers = Layers {
    source: "crates/busyhour-sip/src",
    base: &[],
    arrows: &[
        arrow("sip", &[]),
        arrow("stun", &[]),
        arrow("sdp", &["sip"]),
        arrow("session", &["sip"]),
        arrow("auth", &["sip"]),
        arrow("flow", &["sip"]),
        arrow("hep", &["flow"]),
    ],
};

const REGISTRAR: Layers = Layers {
    source: "crates/busyhour-registrar/src",
    base: &[],
    arrows: &[
        arrow("registrar", &[]),
        arrow("upstream", &[]),
        arrow("watch", &["registrar"]),
    ],
};

const PROXY: Layers = Layers {
    source: "crates/busyhour-proxy/src",
    base: &["keyed_hash"],
    arrows: &[
        arrow("keyed_hash", &[]),
        arrow("transaction", &[]),
        arrow("routing", &[]),
        arrow("proxy", &["transaction", "routing"]),
        arrow("dialogs", &["routing"]),
        arrow("dns", &[]),
    ],
};

const IAX2: Layers = Layers {
    source: "crates/busyhour-iax2/src",
    base: &[],
    arrows: &[arrow("frames", &[]), arrow("calls", &["frames"])],
};

const MEDIA: Layers = Layers {
    source: "crates/busyhour-media/src",
    base: &[],
    arrows: &[],
};

const STORE: Layers = Layers {
    source: "crates/busyhour-store/src",
    base: &[],
    arrows: &[],
};

const STORM: Layers = Layers {
    source: "crates/busyhour-storm/src",
    base: &[],
    arrows: &[
        arrow("timer_slack", &[]),
        arrow("plan", &[]),
        arrow("wire", &["plan"]),
        arrow("results", &[]),
        arrow("agents", &["plan", "wire", "results"]),
        arrow("driver", &["plan", "wire", "results", "agents"]),
        arrow("watch_driver", &["plan", "wire", "agents"]),
        arrow(
            "call_driver",
            &["plan", "wire", "results", "agents", "watch_driver"],
        ),
        arrow(
            "call_run",
            &[
                "plan",
                "wire",
                "results",
                "agents",
                "driver",
                "watch_driver",
                "call_driver",
            ],
        ),
        arrow(
            "run",
            &[
                "timer_slack",
                "plan",
                "results",
                "agents",
                "driver",
                "watch_driver",
                "call_run",
            ],
        ),
    ],
};

const SERVER: Layers = Layers {
    source: "crates/busyhour-server/src",
    base: &["lock"],
    arrows: &[
        arrow("server", &["percent_encoding"]),
        arrow("net", &["server"]),
        arrow("console", &[]),
        arrow("json", &[]),
        arrow("lock", &[]),
        arrow("percent_encoding", &[]),
        arrow("web", &["json", "logs", "server"]),
        arrow("config", &["server", "net", "web"]),
        arrow("logs", &[]),
        arrow(
            "cli",
            &[
                "config",
                "console",
                "json",
                "logs",
                "net",
                "percent_encoding",
                "server",
                "web",
            ],
        ),
    ],
};

/// A module whose folders, its parts, depend in one direction only. A part may use
/// another part. If it uses the files beside the folders, it may use the module
/// itself.
pub struct Parts {
    pub folder: &'static str,
    pub arrows: &'static [Arrow],
}

impl Parts {
    pub fn module(&self) -> &'static str {
        self.folder.rsplit('/').next().unwrap_or(self.folder)
    }
}

pub const PARTS: &[Parts] = &[BUFFER, POOL, TIMER, BUS, SIP_PARTS, WATCH];

const BUFFER: Parts = Parts {
    folder: "crates/busyhour/src/buffer",
    arrows: &[
        arrow("block", &[]),
        arrow("address", &["block", "buffer"]),
        arrow("memory", &["address"]),
    ],
};

const POOL: Parts = Parts {
    folder: "crates/busyhour/src/pool",
    arrows: &[
        arrow("metrics", &[]),
        arrow("sleep", &[]),
        arrow("queue", &["pool"]),
        arrow("worker", &["metrics", "sleep", "queue", "pool"]),
        arrow("wait", &["worker", "pool"]),
        arrow("simulation", &["queue", "worker", "wait", "pool"]),
        arrow("future", &["worker", "wait", "pool"]),
        arrow(
            "lifecycle",
            &["queue", "worker", "wait", "simulation", "pool"],
        ),
    ],
};

const BUS: Parts = Parts {
    folder: "crates/busyhour/src/bus",
    arrows: &[
        arrow("record", &["bus"]),
        arrow("cache", &["bus"]),
        arrow("nodes", &["cache", "bus"]),
        arrow("delivery", &["cache", "nodes", "bus"]),
        arrow("index", &["nodes", "delivery", "bus"]),
        arrow("shard", &["cache", "nodes", "delivery", "index", "bus"]),
        arrow("topic", &["nodes", "delivery", "bus"]),
    ],
};

const TIMER: Parts = Parts {
    folder: "crates/busyhour/src/timer",
    arrows: &[
        arrow("queue", &[]),
        arrow("labels", &["queue"]),
        arrow("service", &["queue", "labels", "timer"]),
    ],
};

const SIP_PARTS: Parts = Parts {
    folder: "crates/busyhour-sip/src/sip",
    arrows: &[
        arrow("text", &[]),
        arrow("values", &["text", "sip"]),
        arrow("read", &["text", "values", "sip"]),
        arrow("build", &["text", "values", "read", "sip"]),
    ],
};

const WATCH: Parts = Parts {
    folder: "crates/busyhour-registrar/src/watch",
    arrows: &[
        arrow("body", &[]),
        arrow("compositor", &["body", "watch"]),
        arrow("list", &["body"]),
        arrow("notifier", &["body", "list", "watch"]),
    ],
};

/// The most files in one folder of a crate's source.
pub const FOLDER_FILES_MAX: usize = 16;

/// Files of models and tests; their types do not count as types of the crate.
pub const TEST_FILES: &[&str] = &["model.rs", "models.rs", "schedules.rs", "tests.rs"];

/// The only files that may hold `unsafe`, each with its reason.
pub const UNSAFE_FILES: &[(&str, &str)] = &[
    (
        "crates/busyhour/src/ring.rs",
        "values lie in slots that are written and read once",
    ),
    (
        "crates/busyhour/src/clock/boot.rs",
        "one system call, which the standard library does not make",
    ),
    (
        "crates/busyhour/src/sync/initial_exec.rs",
        "thread-local values that begin as zero bytes, and stay on their thread",
    ),
    (
        "crates/busyhour/src/sync/initial_exec/by_offset.rs",
        "such values are declared and found by assembly",
    ),
    (
        "crates/busyhour/src/sync/initial_exec/by_call.rs",
        "such values where the standard library has them",
    ),
    (
        "crates/busyhour/src/sync/spin.rs",
        "a spin lock for O(1) sections",
    ),
    (
        "crates/busyhour/src/buffer/handle.rs",
        "handles borrow memory that their pin keeps alive",
    ),
    (
        "crates/busyhour/src/buffer/block/model.rs",
        "the loom model of pins, which frees and reads blocks",
    ),
    (
        "crates/busyhour/src/buffer/address/recent_block.rs",
        "what a thread pinned last is found by its address, in a region that is known to live",
    ),
    (
        "crates/busyhour/src/buffer/address/region.rs",
        "blocks lie in reserved address space, reached by their number",
    ),
    (
        "crates/busyhour/src/buffer/memory/bin.rs",
        "the memory of free extents goes back to the operating system",
    ),
    (
        "crates/busyhour/src/buffer/store.rs",
        "an interior address leads to its block by a shift and a table",
    ),
    (
        "crates/busyhour/src/buffer/address/table.rs",
        "a table of atomics in memory that reads as zero until it is written",
    ),
    (
        "crates/busyhour/src/task/closure.rs",
        "closures live inside the slot, without a box",
    ),
    (
        "crates/busyhour/src/task/packed.rs",
        "a task is written and read in as many words as it needs",
    ),
    (
        "crates/busyhour/src/task/mod.rs",
        "a task runs where it lies, without being moved out",
    ),
    (
        "crates/busyhour/src/pool/worker/affinity.rs",
        "processor sets are the C library's",
    ),
    (
        "crates/busyhour/src/pool/future/future_task.rs",
        "the holder of the token reaches the future, and lends its count to a waker",
    ),
    (
        "crates/busyhour/src/pool/queue/task_cell.rs",
        "a task moves once between its maker and its run",
    ),
    (
        "crates/busyhour/src/pool/context.rs",
        "the current entity is borrowed by the thread that runs it",
    ),
    (
        "crates/busyhour/src/pool/entity.rs",
        "the holder of the token reaches the scheduling state",
    ),
    (
        "crates/busyhour/src/sync/fences.rs",
        "membarrier is a system call",
    ),
    (
        "crates/busyhour/src/pool/queue/biased_lock.rs",
        "a lock biased to its owner",
    ),
    (
        "crates/busyhour/src/pool/worker/inline_runner.rs",
        "an inline runner's place is its thread's alone",
    ),
    (
        "crates/busyhour/src/pool/queue/task_ring.rs",
        "packed tasks of different lengths lie in one piece of memory",
    ),
    (
        "crates/busyhour/src/pool/worker/worker_thread.rs",
        "the owner's side of the biased lock",
    ),
    (
        "crates/busyhour/src/serializer/core.rs",
        "tokens are made under the serializer's lock",
    ),
    (
        "crates/busyhour/src/timer/queue/chunk.rs",
        "a slot's stamp says whether its value is there, without a word beside it",
    ),
    (
        "crates/busyhour/src/bus/cache/lines.rs",
        "slots begin on a cache line, in memory that nobody has touched",
    ),
    (
        "crates/busyhour/src/bus/cache/shared.rs",
        "the memory of an event that nobody refers to holds the next one",
    ),
    (
        "crates/busyhour/src/bus/cache/table.rs",
        "last values are read without a lock",
    ),
    (
        "crates/busyhour/src/bus/cache/table/entry.rs",
        "a lookup follows the pointer of an entry while its pin keeps the event",
    ),
    (
        "crates/busyhour/src/bus/cache/table/slots.rs",
        "a slot holds a counted reference in an atomic pointer",
    ),
    (
        "crates/busyhour-server/src/main.rs",
        "how the C library's heap works is set by its function",
    ),
    (
        "crates/busyhour-capi/src/edge/callback.rs",
        "functions of C are called, with data that any thread may free",
    ),
    (
        "crates/busyhour-capi/src/edge/handle.rs",
        "a handle of C leads to the object that it was given for",
    ),
    (
        "crates/busyhour-capi/src/edge/options.rs",
        "option structs of C are read as bytes, as far as both sides know them",
    ),
    (
        "crates/busyhour-capi/src/edge/out.rs",
        "results go where C says",
    ),
    (
        "crates/busyhour-capi/src/edge/process.rs",
        "a handler of the C library tells that the process has forked",
    ),
    (
        "crates/busyhour-capi/src/edge/text.rs",
        "strings and arrays of C are read and written",
    ),
    (
        "crates/busyhour/tests/serializer_memory.rs",
        "an allocator that counts",
    ),
    (
        "crates/busyhour/tests/memory.rs",
        "an allocator that counts bytes",
    ),
    (
        "crates/busyhour/tests/bus_memory.rs",
        "an allocator that counts bytes",
    ),
    (
        "crates/busyhour/tests/timer_memory.rs",
        "an allocator that counts what goes through it",
    ),
    (
        "crates/busyhour/tests/model/buffer.rs",
        "writes through the addresses that C callers get",
    ),
    (
        "bench/engines/raw/src/block_list.rs",
        "a floor: blocks whose handles count themselves and nothing else",
    ),
];

/// Folders of components; each component has an example of the same name.
pub const COMPONENTS: &[&str] = &[
    "buffer",
    "task",
    "run_queue",
    "pool",
    "serializer",
    "keyed",
    "bus",
    "timer",
    "heap",
    "runtime",
];

pub const FILE_LINES_MAX: usize = 700;
pub const FUNCTION_LINES_MEDIAN_MAX: usize = 10;

pub const fn arrow(module: &'static str, may_use: &'static [&'static str]) -> Arrow {
    Arrow { module, may_use }
}
