//! What can be shown: the routes that know it, and the columns of its table.

/// One kind of thing.
#[derive(Debug)]
pub(super) struct Subject {
    /// The routes that list it.
    pub(super) routes: &'static [Route],
    /// The columns, in the order of the table.
    pub(super) columns: &'static [Column],
    /// The column to sort by if none is given; the largest values come first.
    pub(super) sort: &'static str,
    /// The key of a list in each row, whose entries are shown one beneath the other.
    pub(super) nested: Option<&'static str>,
    /// What is said if there are no rows.
    pub(super) none: &'static str,
}

/// A list of the HTTP interface.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) path: &'static str,
    /// The name of the list in the answer.
    pub(super) list: &'static str,
    /// The number in the answer that says how many there are, if the list has only those
    /// that were asked for.
    pub(super) count: Option<&'static str>,
    /// What the column `state` says of its rows, if several routes make one table.
    pub(super) state: Option<&'static str>,
}

/// A column: its key in the JSON, and what it means.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) key: &'static str,
    pub(super) about: &'static str,
    /// Whether the smallest number comes first when rows are sorted by it.
    pub(super) is_smallest_first: bool,
    /// Whether it is left out, unless it is asked for, while all its numbers are zero.
    pub(super) hides_zero: bool,
}

impl Subject {
    /// The help about the columns.
    pub(super) fn help(&self) -> String {
        let name_len = |column: &Column| column.name().len();
        let width = self.columns.iter().map(name_len).max().unwrap_or(0);
        let lines = self.columns.iter();
        let lines = lines.map(|column| format!("  {:width$}  {}", column.name(), column.about));
        let lines: Vec<_> = lines.collect();
        format!(
            "Columns (for --sort, --filter and --columns):\n{}",
            lines.join("\n")
        )
    }

    /// The column of this name, or of its key in the JSON.
    pub(super) fn column(&self, name: &str) -> Option<&'static Column> {
        let columns = self.columns.iter();
        columns
            .into_iter()
            .find(|column| column.name() == name || column.key == name)
    }
}

impl Column {
    /// The key without its unit, which the values have in a table.
    pub(super) fn name(&self) -> &'static str {
        let key = self.key;
        UNITS
            .iter()
            .find_map(|unit| key.strip_suffix(unit))
            .unwrap_or(key)
    }
}

const UNITS: [&str; 3] = ["_ns", "_bytes", "_seconds"];

const fn column(key: &'static str, about: &'static str) -> Column {
    Column {
        key,
        about,
        is_smallest_first: false,
        hides_zero: false,
    }
}

const fn unless_zero(key: &'static str, about: &'static str) -> Column {
    Column {
        hides_zero: true,
        ..column(key, about)
    }
}

const fn smallest_first(key: &'static str, about: &'static str) -> Column {
    Column {
        is_smallest_first: true,
        ..column(key, about)
    }
}

const fn route(path: &'static str, list: &'static str) -> Route {
    Route {
        path,
        list,
        count: None,
        state: None,
    }
}

const fn counted(path: &'static str, list: &'static str, count: &'static str) -> Route {
    Route {
        count: Some(count),
        ..route(path, list)
    }
}

pub(super) const QUEUES: Subject = Subject {
    routes: &[route("/api/v1/queues", "queues")],
    columns: &[
        column(
            "kind",
            "what queues: pool, request, strand, watcher, store, socket, http …",
        ),
        column(
            "name",
            "which one; `all` stands for all of its kind together",
        ),
        column("queued_len", "how many wait now"),
        column("queued_high_water", "the most that ever waited"),
        column("capacity", "how many may wait"),
        column("queued_bytes", "their bytes, if these are limited"),
        column("capacity_bytes", "how many bytes may wait"),
        column("high_watermark", "so many are too many: an alert begins"),
        column("low_watermark", "so few are few enough: it ends"),
        column("is_high", "whether there is such an alert"),
        column("oldest_waiting_ns", "for how long the first one has waited"),
        column("running", "the label of what runs"),
        column("running_for_ns", "for how long it has run"),
        column("processed", "how many were processed"),
        column("refused", "how many found no room"),
    ],
    sort: "queued_len",
    nested: None,
    none: "no queues",
};

pub(super) const CALLS: Subject = Subject {
    routes: &[counted("/api/v1/calls", "calls", "call_count")],
    columns: &[
        column("from", "who calls"),
        column("to", "who is called"),
        column("state", "trying, proceeding, early (it rings) or confirmed"),
        column(
            "hold",
            "who has the other side on hold: caller, callee or both",
        ),
        column("since_ns", "for how long it has been in that state"),
        column("caller", "the device that calls, if it is one of ours"),
        column("callee", "the device that rings or has answered"),
        column("caller_flow", "the way to the caller"),
        column("callee_flow", "the way to the callee"),
        column("call_id", "its Call-ID"),
    ],
    sort: "since",
    nested: None,
    none: "no calls",
};

pub(super) const CALL_RECORDS: Subject = Subject {
    routes: &[route("/api/v1/call-records", "call_records")],
    columns: &[
        column("ended_at_ns", "when it ended"),
        column("from", "who called"),
        column("to", "who was called"),
        column("answered_by", "the device that answered"),
        column(
            "outcome",
            "answered, busy, no-answer, cancelled, unavailable, refused or failed",
        ),
        column(
            "status",
            "the status of the final response; 0 if there was none",
        ),
        column("end", "how it ended, from the caller's side"),
        column("ended_by", "caller or callee"),
        column("talk_time_ns", "from the answer to the end"),
        column(
            "post_dial_delay_ns",
            "from the INVITE to the first response that the caller could hear",
        ),
        column("media_failure", "why its media could not flow"),
        column("call_id", "its Call-ID"),
    ],
    sort: "ended_at",
    nested: None,
    none: "no call has ended",
};

pub(super) const CERTIFICATES: Subject = Subject {
    routes: &[route("/api/v1/certificates", "certificates")],
    columns: &[
        column("name", "the first name that it is shown for"),
        smallest_first("left_seconds", "until it expires; negative once it has"),
        column("not_after", "when it expires, in UTC"),
        column(
            "is_default",
            "whether peers who ask for no known name are shown it",
        ),
        column("names", "peers who ask for one of these are shown it"),
        column("issuer", "who has issued it"),
        column("file", "where it was read from"),
        column("sha256", "its fingerprint"),
        column("not_before", "from when on it is valid"),
    ],
    sort: "left",
    nested: None,
    none: "no certificates: sip.tls and http.tls_listen are off\n",
};

pub(super) const PEERS: Subject = Subject {
    routes: &[route("/api/v1/peers", "peers")],
    columns: &[
        column("name", "the peer"),
        column("address", "one of its addresses in each line"),
        column(
            "state",
            "up, down, or unknown if it was not asked yet; nothing if no calls go there",
        ),
        column("since_ns", "for how long it has been in that state"),
        column("round_trip_ns", "from the last OPTIONS to its answer"),
        column("may", "what it may do: call and publish for our users"),
        column("takes", "which calls go to it: prefix*, @domain, default"),
        column("calls_from", "requests that it sent to our users"),
        column(
            "not_from_peer",
            "requests from its address that are not its own: another port or transport, no certificate",
        ),
        column("redirected", "calls that it was told the contacts for"),
        column("calls_to", "requests of our users that were sent to it"),
        column(
            "attempts_failed",
            "how often an address did not take a call: silence, 503, no way there",
        ),
        column(
            "refused_down",
            "calls refused because all its addresses were down",
        ),
        column("publications", "states that it published for our users"),
        column("probes_sent", "OPTIONS sent to it"),
        column("probes_answered", "answers to them"),
    ],
    sort: "name",
    nested: Some("addresses"),
    none: "no peers; the configuration lists them as [[peer]]",
};

pub(super) const CLUSTER: Subject = Subject {
    routes: &[route("/api/v1/cluster", "nodes")],
    columns: &[
        column("name", "the node, as its cluster.node names it"),
        column(
            "life",
            "up, draining if it gives its partitions away or is starting, late if its lease is over, or down",
        ),
        column("partitions", "how many of the 256 partitions it owns"),
        column(
            "pinned",
            "those that were moved to it, which it has while it lives",
        ),
        column("number", "its number, which belongs to the name for ever"),
        column("epoch", "which of its lives"),
        column("is_asked", "whether it is the one that was asked"),
        column(
            "way",
            "datagrams, or nats if messages to it go over NATS alone, which costs more",
        ),
    ],
    sort: "name",
    nested: None,
    none: "no cluster; set cluster.node",
};

pub(super) const REGISTRARS: Subject = Subject {
    routes: &[route("/api/v1/registrars", "registrars")],
    columns: &[
        column("name", "the registrar"),
        column("address", "where it is"),
        column("state", "up, or away if three requests were not answered"),
        column("told_count", "addresses of record that it has, or may have"),
        column(
            "failing_count",
            "those with a telephone that it has refused or not answered about",
        ),
        column("pending_count", "requests that wait for its answer"),
        column("sent", "REGISTER requests to it, without retransmissions"),
        column("answered", "its final answers"),
        column("refused", "refusals among them"),
        column("next_in_ns", "time until the next request"),
    ],
    sort: "name",
    nested: None,
    none: "no registrars; the configuration lists them as [[registrar]]",
};

pub(super) const WEBHOOKS: Subject = Subject {
    routes: &[route("/api/v1/webhooks", "webhooks")],
    columns: &[
        column("name", "the webhook"),
        column("url", "where it posts to"),
        column(
            "state",
            "idle, delivering, waiting for its next attempt, resting while its URL is not asked, or gone (410)",
        ),
        column("next_attempt_in_ns", "time until the next attempt"),
        column("behind", "changes since the last one that it has given"),
        column("delivered", "events that its receiver has taken"),
        column("failed_attempts", "requests that failed"),
        column("lost", "events that its receiver will never get"),
        column("last_status", "the status of the last answer"),
        column("last_error", "why the last attempt failed"),
        column("last_round_trip_ns", "from a request to its answer"),
        column("wants", "which changes it wants"),
    ],
    sort: "name",
    nested: None,
    none: "no webhooks; the configuration lists them as [[webhook]], and PUT /api/v1/webhooks/NAME sets one",
};

pub(super) const LISTS: Subject = Subject {
    routes: &[route("/api/v1/lists", "lists")],
    columns: &[
        column(
            "name",
            "the user part of the URI that watchers subscribe to",
        ),
        column("entry_count", "how many resources and other lists it has"),
        column("title", "what telephones show of it"),
        column(
            "configured",
            "true: of the configuration; false: set over HTTP",
        ),
    ],
    sort: "entry_count",
    nested: None,
    none: "no lists; see [[list]] and PUT /api/v1/lists/NAME",
};

pub(super) const HINTS: Subject = Subject {
    routes: &[route("/api/v1/hints?limit=100000", "hints")],
    columns: &[
        column("extension", "the extension that is watched"),
        column(
            "state",
            "of its devices together: idle, ringing, in-use, ring-in-use, on-hold, busy, unavailable",
        ),
        column("devices", "the devices whose states it combines"),
        column("configured", "whether it stands in the configuration"),
    ],
    sort: "extension",
    nested: None,
    none: "no hints; the configuration lists them as [[hint]]",
};

pub(super) const TENANTS: Subject = Subject {
    routes: &[route("/api/v1/tenants", "tenants")],
    columns: &[
        column("name", "the domain"),
        column("account_count", "accounts in the store"),
        column("max_accounts", "how many there may be"),
        column("contact_count", "registered contacts"),
        column("max_contacts", "how many there may be"),
        column("watcher_count", "subscriptions of its accounts"),
        column("max_watchers", "how many there may be"),
        column("call_count", "calls that its accounts have begun"),
        column("max_calls", "how many there may be"),
        column("registrations", "registrations that were accepted"),
        column(
            "registrations_per_second",
            "how many there may be in a second",
        ),
        column("memory_bytes", "packet memory that its requests hold"),
        column("memory_kib", "how much that may be for each purpose"),
        column("refused", "requests refused because of its share or quotas"),
        unless_zero("refused_accounts", "of these, beyond max_accounts"),
        unless_zero("refused_contacts", "beyond max_contacts"),
        unless_zero("refused_registrations", "beyond registrations_per_second"),
        unless_zero("refused_watchers", "beyond max_watchers or its share"),
        unless_zero("refused_calls", "beyond max_calls"),
        unless_zero("refused_memory", "beyond memory_kib or its share"),
        unless_zero("refused_other_share", "beyond its share of anything else"),
    ],
    sort: "name",
    nested: None,
    none: "no domains with settings of their own; `busyhour domain add` sets one up",
};

pub(super) const MEDIA: Subject = Subject {
    routes: &[route("/api/v1/media", "media")],
    columns: &[
        column("address", "where the rtpengine takes commands"),
        column("weight", "how many new calls it gets beside the others"),
        column("state", "up or down"),
        column("since_ns", "for how long it has been in that state"),
        column("round_trip_ns", "from the last ping to its answer"),
        column("last_answer_ns", "time since it answered anything"),
        column("calls", "calls that it got"),
        column("failures", "questions and pings that it left unanswered"),
    ],
    sort: "address",
    nested: None,
    none: "no media relays; the configuration lists them in media.relays",
};

pub(super) const TIMERS: Subject = Subject {
    routes: &[counted("/api/v1/timers", "timers", "pending_count")],
    columns: &[
        column("label", "the kind of timer"),
        smallest_first(
            "due_in_ns",
            "time until it is due; empty while it is delivered or runs",
        ),
        column("phase", "waiting, delivered to its serializer, or running"),
        column("period_ns", "time between two runs, if it repeats"),
        column("owner", "the number of what it is for"),
        column("executor", "where it runs, if that has a name"),
    ],
    sort: "due_in",
    nested: None,
    none: "no timer is pending",
};

pub(super) const TOPICS: Subject = Subject {
    routes: &[route("/api/v1/topics", "topics")],
    columns: &[
        column("name", "its name"),
        column("cached_count", "keys with a last value in the cache"),
        column("subscriber_count", "subscriptions"),
        column("published", "events published"),
        column("delivered", "deliveries to subscribers"),
        column("conflated", "events replaced by newer ones before delivery"),
        column("lost", "deliveries that were lost"),
        column("refused", "events refused because the cache was full"),
        column("lagging_count", "subscriptions that lag"),
        column(
            "slowest_subscriber",
            "the subscription with the longest queue",
        ),
        column("slowest_queued_len", "the length of that queue"),
    ],
    sort: "published",
    nested: None,
    none: "no topics",
};

pub(super) const SUBSCRIPTIONS: Subject = Subject {
    routes: &[counted(
        "/api/v1/subscriptions",
        "subscriptions",
        "subscription_count",
    )],
    columns: &[
        column("topic", "the topic"),
        column("name", "who subscribed"),
        column(
            "filter",
            "what it wants: all, one key, a predicate, or an attribute",
        ),
        column("queued_len", "events that wait for it"),
        column("capacity", "how many may wait"),
        column("delivered", "events that it has received"),
        column("lost", "events that it has lost"),
        column(
            "is_lagging",
            "whether it lags and will be brought up to date from the cache",
        ),
    ],
    sort: "queued_len",
    nested: None,
    none: "no subscriptions",
};

pub(super) const BUFFERS: Subject = Subject {
    routes: &[route("/api/v1/buffers", "owners")],
    columns: &[
        column("owner", "who allocated them; `all` stands for all together"),
        column("live_count", "buffers in use"),
        column("live_bytes", "their memory"),
        column("oldest_age_ns", "the age of the oldest one"),
        column("oldest_begins", "how the oldest one begins, if it is text"),
        column("allocated", "how many were handed out since the start"),
        column("found", "those of them that were handed out by address"),
        column("pinned", "how many were pinned by address"),
    ],
    sort: "live",
    nested: None,
    none: "no buffer is in use",
};

pub(super) const OLDEST_BUFFERS: Subject = Subject {
    routes: &[route("/api/v1/buffers", "oldest")],
    columns: &[
        column("owner", "who allocated it"),
        column("age_ns", "its age"),
        column("len_bytes", "its length; 0 while it is written"),
        column("begins", "its first line, if that is text"),
        column("handles", "how many values hold it"),
        column("pins", "how many pins by address hold it"),
        column(
            "taken_in",
            "the functions that took it, if it was traced (runtime.trace_one_buffer_in)",
        ),
    ],
    sort: "age",
    nested: None,
    none: "no buffer is in use",
};

pub(super) const WORKERS: Subject = Subject {
    routes: &[route("/api/v1/workers", "workers")],
    columns: &[
        smallest_first("number", "its number, with which its thread's name ends"),
        column("is_running", "whether it runs a task"),
        column("is_idle", "whether it sleeps because there is no work"),
        column("queued_len", "tasks and serializers that wait for it"),
        column("queued_high_water", "the most that ever waited"),
        column("processed", "tasks that it ran"),
        column("stolen", "tasks that it took from other workers"),
        column("panicked", "tasks that panicked on it"),
        column("switches", "how often it chose what to run"),
        column("busy_ns", "how long it has been busy"),
        column("choosing_ns", "how long of that it chose what to run"),
        column(
            "is_bucketed",
            "whether its run queue is one for many entities",
        ),
        column("epoch", "the epochs of its run queue"),
    ],
    sort: "number",
    nested: None,
    none: "no workers",
};

pub(super) const STORES: Subject = Subject {
    routes: &[route("/api/v1/stores", "stores")],
    columns: &[
        column("queued_len", "changes that wait for the disk"),
        column("queued_high_water", "the most that ever waited"),
        column("queue_capacity", "how many may wait"),
        column("committed", "changes made durable"),
        column("transactions", "transactions made durable"),
        column("transaction_len_max", "the most changes in one transaction"),
        column("transaction_ns_max", "the longest transaction"),
        column(
            "stalled_ns",
            "for how long the current transaction has lasted too long",
        ),
        column("refused", "batches that found no room"),
        column("failed", "changes whose transaction failed"),
        column("unavailable", "why nothing can be stored now"),
        column("last_error", "the last failure"),
    ],
    sort: "queued_len",
    nested: None,
    none: "no store",
};

pub(super) const ALERTS: Subject = Subject {
    routes: &[route("/api/v1/alerts", "alerts")],
    columns: &[
        column("limit", "the limit that was reached"),
        column("name", "which queue or subscriber, where it is one of many"),
        column(
            "count",
            "how often, since the server started; for a subscriber the events that it lost",
        ),
        column(
            "is_active",
            "whether it lasts, if it is something that ends",
        ),
        column("queued_len", "how many tasks or events wait"),
        column("concerns", "everybody, or only the client that reached it"),
    ],
    sort: "count",
    nested: None,
    none: "no limit was reached since the server started",
};

pub(super) const DEVICE: Subject = Subject {
    routes: &[
        Route {
            path: "/api/v1/bindings",
            list: "bindings",
            count: None,
            state: Some("registered"),
        },
        Route {
            path: "/api/v1/failures",
            list: "failures",
            count: None,
            state: Some("failed"),
        },
    ],
    columns: &[
        column("state", "registered, or failed"),
        column("aor", "the address of record"),
        column("contact", "the contact URI"),
        column("source", "where it came from"),
        column(
            "reach",
            "whether messages reach it: reachable, unverified since the start, or unreachable",
        ),
        smallest_first("expires_in_seconds", "time until the binding runs out"),
        column("user_agent", "the User-Agent"),
        column("transport", "the transport of what failed"),
        column("reason", "why it failed"),
        column("count", "how often it failed so"),
        column("at_unix_seconds", "when it failed last"),
    ],
    sort: "state",
    nested: None,
    none: "not registered, and no failed registration is known",
};
