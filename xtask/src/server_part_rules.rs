//! The parts of the server, and who uses whom. If the design changes, edit this file and the
//! README of `server`.

/// A part of the server: the files at and below a module, with the state of one owner.
pub struct ServerPart {
    /// Its type.
    pub name: &'static str,
    /// Below `server`; the longest one that fits a file is the file's part.
    pub module: &'static str,
    /// The other parts that it uses, all of which come before it.
    pub uses: &'static [&'static str],
}

/// The parts of the server, in the order of their table in the README of `server`. None of
/// them may use the whole server, `Core`.
pub const SERVER_PARTS: &[ServerPart] = &[
    part("ServerClock", "server_clock", &[]),
    part("Changes", "change", &["ServerClock"]),
    part("PartitionRoutes", "cluster::partition_routes", &[]),
    part("NodePaths", "cluster::direct::node_paths", &[]),
    part("NodeLink", "cluster::node_link", &["NodePaths"]),
    part("LiveStates", "cluster::live_states", &[]),
    part("SpanSource", "spans", &["ServerClock"]),
    part(
        "KeptMessages",
        "cluster::kept::kept_messages",
        &["PartitionRoutes", "SpanSource"],
    ),
    part(
        "ClusterNode",
        "cluster::cluster_node",
        &[
            "PartitionRoutes",
            "NodePaths",
            "NodeLink",
            "LiveStates",
            "KeptMessages",
        ],
    ),
    part(
        "Persistence",
        "persistence",
        &["ServerClock", "PartitionRoutes"],
    ),
    part("MessageTap", "capture::message_tap", &[]),
    part("Tenants", "tenant::tenants", &[]),
    part("Responder", "sip::responder", &["MessageTap", "Tenants"]),
    part("Lookups", "dns::lookups", &["ServerClock"]),
    part(
        "Peers",
        "peer::peers",
        &["ServerClock", "Responder", "Lookups"],
    ),
    part("LoadControl", "load::load_control", &[]),
    part("AccountPolicy", "access::account_policy", &["Tenants"]),
    part("RegistrationLog", "stats::registration_log", &[]),
    part(
        "Upstream",
        "behind::upstream",
        &["ServerClock", "Persistence", "Responder", "AccountPolicy"],
    ),
    part(
        "Mailboxes",
        "settings::mailboxes",
        &["Changes", "Persistence", "AccountPolicy"],
    ),
    part("Iax2Calls", "iax2::calls", &["ServerClock", "Responder"]),
    part(
        "Compositor",
        "device::compositor",
        &["ServerClock", "Persistence", "Responder", "Mailboxes"],
    ),
    part("Pushes", "push::pushes", &["ServerClock"]),
    part(
        "DeviceContext",
        "device",
        &[
            "LiveStates",
            "KeptMessages",
            "ServerClock",
            "SpanSource",
            "Changes",
            "Persistence",
            "Responder",
            "LoadControl",
            "AccountPolicy",
            "RegistrationLog",
            "Mailboxes",
            "Iax2Calls",
            "Compositor",
            "Pushes",
            "Upstream",
        ],
    ),
    part("CallLog", "call::call_log", &["ServerClock", "Persistence"]),
    part(
        "RelaySet",
        "media::relay_set",
        &["ServerClock", "Responder"],
    ),
    part(
        "Calls",
        "call::calls",
        &[
            "ServerClock",
            "Changes",
            "Responder",
            "Lookups",
            "Peers",
            "Pushes",
            "DeviceContext",
            "CallLog",
            "RelaySet",
        ],
    ),
    part(
        "HttpCredentials",
        "credentials::http_credentials",
        &["ServerClock"],
    ),
    part(
        "Admission",
        "access::admission",
        &[
            "ServerClock",
            "Responder",
            "Tenants",
            "AccountPolicy",
            "RegistrationLog",
            "Mailboxes",
            "HttpCredentials",
        ],
    ),
    part("Watchers", "watcher::watchers", &["Responder"]),
    part("ResourceFeeds", "watcher::resource_feeds", &[]),
    part(
        "Hints",
        "settings::hints",
        &[
            "Changes",
            "Persistence",
            "DeviceContext",
            "Watchers",
            "ResourceFeeds",
        ],
    ),
    part("Lists", "settings::lists", &["Persistence", "Watchers"]),
    part(
        "Webhooks",
        "webhook",
        &["ServerClock", "Changes", "Persistence"],
    ),
    part(
        "WatcherContext",
        "watcher::watcher_context",
        &[
            "ServerClock",
            "SpanSource",
            "Persistence",
            "Responder",
            "AccountPolicy",
            "Mailboxes",
            "DeviceContext",
            "Watchers",
            "ResourceFeeds",
            "Hints",
            "Lists",
        ],
    ),
];

const fn part(
    name: &'static str,
    module: &'static str,
    uses: &'static [&'static str],
) -> ServerPart {
    ServerPart { name, module, uses }
}
