//! The statistics that the command line, the dashboard and the metrics read.

pub(super) mod call_stats;
pub(super) mod change_stats;
pub(super) mod capture_stats;
pub(super) mod counters;
pub(super) mod device_index_stats;
pub(super) mod dns_stats;
pub(super) mod histogram;
pub(super) mod latency;
pub(super) mod listing;
pub(super) mod queue_alert_log;
pub(super) mod queues;
pub(super) mod registration_log;
pub(super) mod serializer_kind;
pub(super) mod traffic_stats;

pub use call_stats::{CallOutcomeStats, CallRecordStats, CallStats};
pub use capture_stats::CaptureStats;
pub use change_stats::ChangeStats;
pub use device_index_stats::DeviceIndexStats;
pub use dns_stats::DnsStats;
pub use histogram::{HistogramBucket, HistogramStats};
pub use traffic_stats::TrafficStats;

use super::{
    CertificateStats, ClusterStats, CredentialsStats, HttpClientStats, MediaStats, NetworkStats,
    PushStats, SpansStats, UpstreamStats, WebhookStats, core::Core, peer::view::PeerStats,
    tenant::tenant_view::TenantStats,
};
use busyhour::stats::Snapshot;
use busyhour_graphite::GraphiteStats;
use busyhour_iax2::Iax2Stats;
use busyhour_store::StoreStats;
use serde::Serialize;
use std::time::Duration;

/// Everything the server knows about itself at one moment.
///
/// Counters only grow, from the start of the process; gauges (`*_count`, `*_len`) go both ways.
/// A rate is the difference of a counter between two snapshots over that of `runtime.taken_at_ns`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ServerStats {
    /// Time since the start of the server, in nanoseconds.
    pub uptime_ns: u64,
    /// The sockets.
    pub network: NetworkStats,
    /// Datagrams in and out.
    pub traffic: TrafficStats,
    /// Registrations.
    pub registrar: RegistrarStats,
    /// Subscriptions and notifications.
    pub watch: WatchStats,
    /// States that devices publish.
    pub publish: PublishStats,
    /// Mailboxes.
    pub mailbox: MailboxStats,
    /// Extensions that stand for devices.
    pub hint: HintStats,
    /// Lists of resources.
    pub list: ListStats,
    /// The certificates that peers are shown over TLS.
    pub certificates: Vec<CertificateStats>,
    /// Calls, and other requests between devices.
    pub calls: CallStats,
    /// Copies of messages.
    pub capture: CaptureStats,
    /// Other servers and gateways that are trusted.
    pub peers: PeerStats,
    /// By what devices are searched.
    pub device_index: DeviceIndexStats,
    /// Lookups of next hops that have names.
    pub dns: DnsStats,
    /// Domains with settings of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantStats>,
    /// What media relays were asked, and what became of it.
    pub media: MediaStats,
    /// Media relays that do not answer now.
    pub media_relays_down: u64,
    /// The stream of changes for other programs.
    pub changes: ChangeStats,
    /// Calls of IAX2.
    pub iax2: Iax2Stats,
    /// This node of a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStats>,
    /// The store.
    pub store: StoreStats,
    /// The Graphite interface; the HTTP side fills it in.
    pub graphite: GraphiteStats,
    /// Requests refused over HTTP; the HTTP side fills it in.
    pub http: HttpStats,
    /// Where changes are posted to.
    pub webhooks: WebhookStats,
    /// Servers behind this one, and what they were told.
    pub upstream: UpstreamStats,
    /// What was asked of the service for credentials.
    pub credentials: CredentialsStats,
    /// Requests that are followed for a collector.
    pub spans: SpansStats,
    /// Telephones that were woken.
    pub push: PushStats,
    /// Requests to other servers over HTTP.
    pub http_client: HttpClientStats,
    /// Queues that were too long, by kind.
    pub queues: Vec<QueueKindStats>,
    /// The components of the library.
    pub runtime: Snapshot,
}

impl ServerStats {
    /// Counters of requests that were refused or lost for lack of room, by limit. If
    /// one grows, a person should look.
    pub fn limits_reached(&self) -> Vec<(&'static str, u64)> {
        let of_all = self.limits_of_all().into_iter();
        of_all.chain(self.limits_of_one()).collect()
    }

    /// How often queues that are no serializers have reached their high watermarks.
    pub(super) fn long_queues(&self) -> Vec<(&'static str, u64)> {
        let is_none = |kind: &&QueueKindStats| [queues::POOL, queues::STORE].contains(&kind.name);
        let kinds = self.queues.iter().filter(is_none);
        kinds.map(|kind| (kind.name, kind.alerts_raised)).collect()
    }

    /// The limits that all clients share: if one grows, somebody may have been refused
    /// who did nothing unusual, so the service is degraded.
    pub fn limits_of_all(&self) -> [(&'static str, u64); 21] {
        let (traffic, network) = (&self.traffic, &self.network);
        let (iax2, streams, http) = (&self.iax2, &network.streams, &self.http);
        [
            (
                "a table (limits.devices, limits.watchers, limits.publications, limits.mailboxes)",
                traffic.refused_table_full,
            ),
            ("limits.transactions", traffic.transactions_evicted),
            ("limits.nonces", self.registrar.nonces_evicted),
            ("runtime.buffer_budget_mib", traffic.no_buffer),
            ("sip.send_queue", traffic.send_refused),
            ("the kernel's receive buffer", network.kernel_dropped),
            ("store.queue", self.store.refused),
            ("the rows that wait to be removed", self.store.ended_dropped),
            (
                "the time that requests may wait",
                traffic.shed + network.dropped_stale,
            ),
            (
                "limits.calls",
                self.calls.proxy.refused_full
                    + self.calls.refused_full
                    + self.calls.dialogs.untracked_full,
            ),
            (
                "the memory of calls (runtime.buffer_budget_mib)",
                self.calls.refused_memory,
            ),
            (
                "the time that messages of calls may wait to be read",
                self.calls.shed,
            ),
            ("the records of calls that wait", self.calls.records.lost),
            ("limits.iax2_calls", iax2.refused_table_full),
            (
                "limits.connections",
                streams.refused_full + streams.displaced,
            ),
            (
                "limits.connection_memory_mib",
                streams.closed_no_buffer + streams.displaced_memory,
            ),
            (
                "limits.handshakes",
                streams.handshake_waits + streams.displaced_handshakes,
            ),
            ("http.max_connections", http.refused_full),
            (
                "the media relays (media.relays)",
                self.media.passed + self.media.refused + self.media.left_out,
            ),
            (
                "the records of changes that wait for their number",
                self.changes.not_numbered,
            ),
            (
                "the addresses at a registrar behind",
                self.upstream.refused_full,
            ),
        ]
    }

    /// The limits that one source, account, device or connection reaches by itself:
    /// they protect the others, and the service is not degraded.
    pub fn limits_of_one(&self) -> [(&'static str, u64); 24] {
        let (traffic, streams, http) = (&self.traffic, &self.network.streams, &self.http);
        [
            (
                "a share (limits.source_percent, limits.account_percent)",
                traffic.refused_share
                    + traffic.answers_not_kept
                    + self.calls.shed_not_kept
                    + self.watch.over_share
                    + self.registrar.nonces_over_share
                    + self.calls.dialogs.untracked_source
                    + self.calls.dialogs.untracked_account,
            ),
            (
                "limits.unproven_per_second",
                traffic.unproven_not_answered + self.watch.unproven,
            ),
            ("limits.device_queue", traffic.dropped_device_queue),
            ("limits.publications_per_device", self.publish.too_many),
            ("limits.dialog_bytes", self.watch.too_long),
            ("limits.contact_bytes", self.registrar.too_long),
            ("sip.max_contacts", self.registrar.too_many_contacts),
            ("wrong passwords", self.registrar.logins_paused),
            (
                "the table of wrong passwords",
                traffic.login_failures_overflowed,
            ),
            (
                "limits.iax2_calls_per_source",
                self.iax2.refused_source_limit,
            ),
            (
                "limits.connections_per_source",
                streams.refused_source + streams.displaced_source,
            ),
            (
                "limits.connection_memory_per_source_kib",
                streams.closed_source_memory,
            ),
            ("limits.connection_queue_kib", streams.closed_unread),
            ("limits.handshakes_per_source", streams.refused_handshakes),
            ("http.max_connections_per_source", http.refused_source),
            ("http.requests_per_second", http.rate_limited),
            ("the connections to the local socket", http.refused_local),
            (
                "the event streams and bodies over HTTP",
                http.refused_events + http.refused_bodies,
            ),
            (
                "the time of clients over HTTP",
                http.late_bodies + http.closed_unread,
            ),
            (
                "the requests that wait for one host over HTTP",
                self.http_client.refused_full,
            ),
            (
                "the requests that wait for credentials",
                self.credentials.refused_full,
            ),
            (
                "the pushes to one telephone, and the calls that wait for them",
                self.push.limited + self.push.refused_full,
            ),
            (
                "the changes that a webhook may be behind",
                self.webhooks.lost,
            ),
            ("the queue of a reader of changes", self.changes.lost),
        ]
    }
}

/// How often queues of one kind were longer than they should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QueueKindStats {
    /// The kind, as in [`QueueView`](super::QueueView).
    pub name: &'static str,
    /// The length at which an alert begins.
    pub high_watermark: u64,
    /// Alerts that have begun.
    pub alerts_raised: u64,
    /// Queues for which an alert lasts now.
    pub high_count: u64,
}

/// Requests that the HTTP side refused before it read what they ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HttpStats {
    /// Without a valid token although one is needed (401).
    pub unauthorized: u64,
    /// With a token that may only read (403).
    pub forbidden: u64,
    /// For a host that is not served here (421).
    pub misdirected: u64,
    /// Beyond `http.requests_per_second` of a token or source (429).
    pub rate_limited: u64,
    /// Connections beyond `http.max_connections`, which are answered 503 but for
    /// `/healthz`.
    pub refused_full: u64,
    /// The same beyond `http.max_connections_per_source`.
    pub refused_source: u64,
    /// Connections beyond 64 to the local socket.
    pub refused_local: u64,
    /// Event streams beyond half of those numbers (503).
    pub refused_events: u64,
    /// Requests whose bodies would have taken too much memory (503).
    pub refused_bodies: u64,
    /// Requests whose bodies did not come in time (408).
    pub late_bodies: u64,
    /// Connections closed because their clients did not read the answers.
    pub closed_unread: u64,
}

/// What the registrar holds and has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RegistrarStats {
    /// Addresses of record in the table.
    pub device_count: u64,
    /// Accounts that the store holds for the server's realm.
    pub account_count: u64,
    /// Bindings that are valid now.
    pub binding_count: u64,
    /// REGISTER requests that reached the registrar, retransmissions excluded.
    pub requests: u64,
    /// Answered with 200 after the commit.
    pub accepted: u64,
    /// Bindings added.
    pub added: u64,
    /// Bindings refreshed.
    pub refreshed: u64,
    /// Bindings removed by their device or an operator, or that ended with their connection.
    pub removed: u64,
    /// Bindings that ran out.
    pub expired: u64,
    /// Bindings that ended because their account was removed, or is not there at a start.
    pub revoked: u64,
    /// Refused without a check (503, REGREJ), after too many wrong passwords.
    pub logins_paused: u64,
    /// Bindings read back at the start, or while the server serves after it.
    pub restored: u64,
    /// Bindings that left memory with their partitions, since another node of the cluster has them.
    pub handed_over: u64,
    /// Addresses of record whose bindings are not read back yet. Until they are, `binding_count` lacks them, and
    /// `device_count` has them.
    pub unread_count: u64,
    /// Stored bindings that make no sense, which are not read back while the server serves; their rows stay.
    pub unreadable: u64,
    /// Flows over which devices are reached: connections, and addresses that are asked.
    pub flow_count: u64,
    /// Times when contacts of a device could no longer be reached.
    pub unreachable: u64,
    /// Restored contacts whose device was heard again.
    pub verified: u64,
    /// Of the removed bindings: those that ended with their connection.
    pub cut_off: u64,
    /// Probes of silent devices.
    pub probed: u64,
    /// Answers to that.
    pub probes_answered: u64,
    /// Keep-alives to silent devices behind an address translation.
    pub kept_alive: u64,
    /// Answered with 401.
    pub challenged: u64,
    /// Of those: the count of the nonce was used before.
    pub replayed: u64,
    /// Nonces whose last use is remembered now.
    pub nonce_count: u64,
    /// Nonces forgotten early because there were too many.
    pub nonces_evicted: u64,
    /// Answered with 401 because their account used as many nonces as it may.
    pub nonces_over_share: u64,
    /// Answered with 403 or 404: wrong user, password or domain.
    pub forbidden: u64,
    /// Answered with 423.
    pub interval_too_brief: u64,
    /// Answered with 403: more contacts of an address of record than may live.
    pub too_many_contacts: u64,
    /// Answered with 513: contacts that are too long to store, or do not fit into an
    /// answer.
    pub too_long: u64,
    /// Refused for another reason (400, 420, 500 for order).
    pub rejected: u64,
    /// Answered with 503 because the store refused or failed.
    pub store_failures: u64,
    /// From the datagram to the 200, median, in nanoseconds.
    pub latency_p50_ns: u64,
    /// From the datagram to the 200, 99th percentile, in nanoseconds.
    pub latency_p99_ns: u64,
    /// From the datagram to the 200, 99.9th percentile, in nanoseconds.
    pub latency_p999_ns: u64,
    /// From the datagram to the 200, the longest, in nanoseconds.
    pub latency_max_ns: u64,
}

/// What the event server holds and has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WatchStats {
    /// Subscriptions that live now.
    pub watcher_count: u64,
    /// SUBSCRIBE requests, retransmissions excluded.
    pub requests: u64,
    /// Subscriptions created.
    pub created: u64,
    /// Subscriptions that were restored from the store at the start.
    pub restored: u64,
    /// Subscriptions refreshed.
    pub refreshed: u64,
    /// Subscriptions ended by their watcher.
    pub unsubscribed: u64,
    /// Subscriptions that ran out.
    pub expired: u64,
    /// Subscriptions ended because the account that opened them was removed, or is not
    /// there at a start.
    pub revoked: u64,
    /// Subscriptions ended because a NOTIFY failed or stayed unanswered.
    pub given_up: u64,
    /// SUBSCRIBE requests refused (4xx, 503).
    pub rejected: u64,
    /// NOTIFY requests sent, retransmissions excluded.
    pub notified: u64,
    /// NOTIFY requests sent again.
    pub retransmitted: u64,
    /// NOTIFY requests that tell anew what a watcher on a connection of another node has not answered.
    pub told_anew: u64,
    /// Watchers whose connection has ended, at whichever node, so that they are told nothing until they subscribe again.
    pub cut: u64,
    /// NOTIFY requests answered with 2xx.
    pub confirmed: u64,
    /// States replaced by a newer one before they left.
    pub conflated: u64,
    /// Bytes of the NOTIFY requests that wait for their answer.
    pub unanswered_bytes: u64,
    /// NOTIFY requests delayed because their watcher's source or account had its share
    /// of unanswered ones.
    pub over_share: u64,
    /// NOTIFY requests delayed or not retransmitted because neither their watcher nor
    /// others at its address have answered any (`limits.unproven_per_second`).
    pub unproven: u64,
    /// SUBSCRIBE requests answered 513: they are too long to store.
    pub too_long: u64,
}

/// Publications of devices, and their outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PublishStats {
    /// Publications that live now.
    pub publication_count: u64,
    /// PUBLISH requests, retransmissions excluded.
    pub requests: u64,
    /// Publications begun.
    pub created: u64,
    /// Publications prolonged as they were.
    pub refreshed: u64,
    /// Publications whose state was replaced.
    pub modified: u64,
    /// Publications taken back.
    pub removed: u64,
    /// Publications that ran out.
    pub expired: u64,
    /// Publications that ended because their account was removed, or is not there at a
    /// start.
    pub revoked: u64,
    /// Publications that ended with the registration of the contact that sent them.
    pub unregistered: u64,
    /// Requests that came before, to another node or an earlier run of the server, and were answered as they were then.
    pub repeated: u64,
    /// Publications taken back in the last 32 s whose request would be answered again.
    pub remembered_count: u64,
    /// Taken back, and not remembered: there was no room, or the request had no Call-ID or CSeq.
    pub not_remembered: u64,
    /// Answered with 412: the entity-tag is of no publication.
    pub condition_failed: u64,
    /// Answered with 480: the device has as many publications as it may.
    pub too_many: u64,
    /// Refused for another reason (4xx, 503).
    pub rejected: u64,
}

/// What the mailboxes hold, and who said so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MailboxStats {
    /// Mailboxes of which something is known now.
    pub mailbox_count: u64,
    /// Times one was set.
    pub set: u64,
    /// Times one was removed.
    pub removed: u64,
    /// Times a publication changed one.
    pub published: u64,
    /// Changes refused: there was no room, or they were wrong.
    pub refused: u64,
}

/// Lists of resources, and who watches them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ListStats {
    /// Lists that the configuration or HTTP has set.
    pub list_count: u64,
    /// Lists set over HTTP.
    pub set: u64,
    /// Lists removed over HTTP.
    pub removed: u64,
    /// Changes of lists refused.
    pub refused: u64,
    /// How often a list has begun to contain itself, since several nodes set lists at the same time.
    pub loops: u64,
    /// Different lists with a subscription, those that a SUBSCRIBE has brought included.
    pub watched_count: u64,
    /// Different resources that are watched, alone or on these.
    pub resource_count: u64,
    /// Resources that subscriptions to lists watch, each as often as it is watched.
    pub lamp_count: u64,
}

/// Hints, and how often they were changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HintStats {
    /// Extensions with a hint now.
    pub hint_count: u64,
    /// Times one was set.
    pub set: u64,
    /// Times one was removed.
    pub removed: u64,
    /// Changes refused: there was no room, or they were wrong.
    pub refused: u64,
}

impl Core {
    fn list_stats(&self) -> ListStats {
        let feeds = &self.watching.resource_feeds;
        let (resource_count, watched_count) = feeds.counts();
        ListStats {
            watched_count: watched_count as u64,
            resource_count: resource_count as u64,
            lamp_count: feeds.lamps.used(),
            ..self.watching.lists.stats()
        }
    }

    pub(super) fn stats(&self) -> ServerStats {
        ServerStats {
            runtime: self.runtime.stats(),
            ..self.own_stats()
        }
    }

    /// All statistics except the runtime's, which visit every shard of every topic:
    /// that would be too much once a second.
    pub(super) fn own_stats(&self) -> ServerStats {
        ServerStats {
            uptime_ns: nanos(self.clock.now() - self.started_at),
            network: self.responder.network().stats(),
            traffic: self.traffic_stats(),
            registrar: self.registrar_stats(),
            watch: self.watchers.stats(),
            publish: self.devices.compositor.stats(),
            mailbox: self.mailboxes.stats(),
            hint: self.hints.stats(),
            list: self.list_stats(),
            certificates: self.responder.network().certificates(),
            calls: self.load.count_calls(self.calls.stats()),
            capture: self.responder.tap().stats(),
            peers: self.peers.stats(),
            device_index: self.devices.index.stats(),
            dns: self.lookups.stats(),
            tenants: self.tenant_stats(),
            media: self.calls.relays.stats(),
            media_relays_down: self.calls.relays.down_count(),
            changes: self.changes.stats(),
            iax2: self.iax2.stats(),
            cluster: self.cluster.as_ref().map(|cluster| cluster.stats()),
            store: self.persistence.store().stats(),
            graphite: GraphiteStats::default(),
            http: HttpStats::default(),
            webhooks: self.webhooks.stats(),
            upstream: self.devices.upstream.stats(),
            credentials: self.credential_stats(),
            spans: self.spans.stats(),
            push: self.devices.push.stats(),
            http_client: self.config.http.stats(),
            queues: self.queue_kind_stats(),
            runtime: Snapshot::default(),
        }
    }

    fn registrar_stats(&self) -> RegistrarStats {
        let (counters, latency) = (&self.log.counters, &self.log.latency);
        let (flows, admission) = (&self.devices.flows.counters, &self.admission.counters);
        let [latency_p50_ns, latency_p99_ns, latency_p999_ns] =
            latency.permille_ns([500, 990, 999]);
        RegistrarStats {
            device_count: self.devices.table.len() as u64,
            account_count: self.accounts.directory.stored_count() as u64,
            binding_count: counters.binding_count(),
            requests: counters.requests.get(),
            accepted: counters.accepted.get(),
            added: counters.added.get(),
            refreshed: counters.refreshed.get(),
            removed: counters.removed.get(),
            expired: counters.expired.get(),
            revoked: counters.revoked.get(),
            restored: counters.restored.get(),
            handed_over: counters.handed_over.get(),
            unread_count: self
                .devices
                .table
                .unread()
                .map_or(0, |unread| unread.left()),
            unreadable: counters.unreadable.get(),
            flow_count: self.devices.flows.len(),
            unreachable: flows.unreachable.get(),
            verified: flows.verified.get(),
            cut_off: flows.cut_off.get(),
            probed: flows.probed.get(),
            probes_answered: flows.probes_answered.get(),
            kept_alive: flows.kept_alive.get(),
            challenged: admission.challenged.get(),
            replayed: admission.replayed.get(),
            nonce_count: self.admission.nonces.len(),
            nonces_evicted: self.admission.nonces.evicted(),
            nonces_over_share: self.admission.nonces.over_share(),
            forbidden: counters.forbidden.get(),
            interval_too_brief: counters.interval_too_brief.get(),
            too_many_contacts: counters.too_many_contacts.get(),
            too_long: counters.too_long.get(),
            rejected: counters.rejected.get(),
            store_failures: counters.store_failures.get(),
            logins_paused: admission.logins_paused.get(),
            latency_p50_ns,
            latency_p99_ns,
            latency_p999_ns,
            latency_max_ns: latency.max_ns(),
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
