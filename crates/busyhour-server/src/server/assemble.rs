//! Puts the parts of a server together, each with the parts that it uses, before
//! anything is restored.

use super::{
    Authentication, Limits, Network, PeerConfig, ServerConfig, StartError,
    access::{
        account_policy::AccountPolicy,
        accounts::AccountDirectory,
        admission::Admission,
        failures::{self, FailureNotes, Failures},
        logins::{self, Logins},
        nonces::Nonces,
    },
    behind::upstream::Upstream,
    call::call_log::CallLog,
    call::calls::{CallBounds, Calls, SHARDS as CALL_SHARDS, ServerEdge},
    call::permit::CallRoom,
    capture::message_tap::MessageTap,
    change::changes::{Changes, StatePortion},
    cluster::{cluster_node::ClusterNode, flows::own_flows::OwnFlows},
    core::Core,
    credentials::http_credentials::{self, HttpCredentials},
    device::{
        compositor::Compositor,
        device_context::{DeviceContext, FlowEnded},
        devices::Devices,
        flows::Flows,
        listing::device_index::DeviceIndex,
        state_topics::StateTopics,
    },
    dns::lookups::{LOOKUPS_MAX, Lookups},
    iax2::{self, calls::Iax2Calls},
    load::{
        load_control::LoadControl,
        shares::{self, Holders, Shares},
        shed_calls::{self, ShedCalls},
    },
    media::relay_set::RelaySet,
    peer::peers::Peers,
    persistence::{Persistence, RowIds},
    push::pushes::{PushNeighbours, Pushes},
    random::{Secrets, random_key},
    runs::Runs,
    server_clock::ServerClock,
    settings::{hints::Hints, lists::Lists, mailboxes::Mailboxes},
    sip::{
        responder::Responder,
        transactions::{TransactionMemory, Transactions},
        unproven::Unproven,
    },
    spans::span_source::SpanSource,
    stats::{queue_alert_log::QueueAlertLog, registration_log::RegistrationLog},
    steady::Steady,
    tenant::tenants::Tenants,
    watcher::{resource_feeds::ResourceFeeds, watcher_context::WatcherContext, watchers::Watchers},
    webhook::webhooks::Webhooks,
};
use busyhour::{bus::Name, runtime::Runtime};
use busyhour_proxy::{LoopDetection, Policy, dialogs::DialogPolicy};
use busyhour_registrar::Domains;
use busyhour_sip::auth::Authenticator;
use busyhour_store::{Account, SettingRows, Store};
use std::sync::{Arc, OnceLock, atomic::AtomicBool};

/// What the store kept that the parts begin with.
pub(super) struct Kept {
    pub(super) accounts: Vec<Account>,
    pub(super) tokens: SettingRows,
    /// Domains with settings of their own.
    pub(super) domains: SettingRows,
    pub(super) steady: Steady,
    pub(super) ids: RowIds,
    /// The life of this node, if it is one of a cluster.
    pub(super) cluster: Option<Arc<ClusterNode>>,
    /// No record of a call has a higher id.
    pub(super) last_call_record: u64,
    /// Signs what the proxy writes into routes.
    pub(super) route_key: [u8; 32],
    /// See [`Contents::run`](busyhour_store::Contents::run).
    pub(super) runs: Runs,
}

/// How much there may be of each resource, and how much of it one source or account may
/// have.
struct Bounds<'a> {
    limits: &'a Limits,
    /// The packet memory.
    buffer_bytes: u64,
}

pub(super) fn assemble(
    runtime: Runtime,
    config: ServerConfig,
    network: Arc<dyn Network>,
    store: Box<dyn Store>,
    kept: Kept,
) -> Result<Core, StartError> {
    let bounds = Bounds {
        limits: &config.limits,
        buffer_bytes: runtime.buffers().stats().budget_bytes,
    };
    let secrets = Arc::new(Secrets::new(&runtime)?);
    let holders = Holders::new(secrets.seed("holders"));
    let clock = Arc::new(ServerClock::new(runtime.clock().clone(), kept.steady));
    let changes = Arc::new(Changes::new(&runtime, clock.clone()));
    let waiting = bounds.phones(store.stats().queue_capacity as usize);
    let routes = kept.cluster.as_ref().map(|cluster| cluster.routes.clone());
    let numbers = (kept.ids, kept.runs);
    let persistence = Persistence::new(store, clock.clone(), numbers, waiting, routes);
    let persistence = Arc::new(persistence);
    let spans = Arc::new(SpanSource::new(
        &runtime,
        config.spans.as_ref(),
        config.http.clone(),
        secrets.seed("spans"),
        clock.clone(),
    ));
    let authenticator = authenticator(&runtime, &config)?;
    let tenants = Arc::new(tenants(
        &config,
        &kept.domains,
        &holders,
        authenticator.clone(),
    ));
    let responder = responder(&runtime, &config, &bounds, &secrets, (network, &tenants));
    let responder = Arc::new(responder);
    let domains = tenants.domains().clone();
    let accounts = Arc::new(accounts(&config, kept.accounts, &tenants));
    let log = Arc::new(registration_log(&runtime, &bounds, &secrets, &domains));
    let refused_calls = ShedCalls::new(bounds.count(shed_calls::CAPACITY));
    let load = Arc::new(LoadControl::new(&runtime, refused_calls));
    let iax2 = Arc::new(Iax2Calls::new(
        &runtime,
        responder.clone(),
        clock.clone(),
        (random_key(&runtime)?, secrets.seed("calls over IAX2")),
        &iax2::policy(config.call_tokens, is_open(&config), &config.limits),
    ));
    let topics = StateTopics::new(&runtime);
    let mailboxes = Arc::new(Mailboxes::new(
        &runtime,
        &config,
        accounts.clone(),
        persistence.clone(),
        changes.clone(),
    ));
    let compositor = Compositor::new(
        &config,
        [(); 2].map(|()| bounds.phones(config.limits.publications_max)),
        secrets.clone(),
        responder.clone(),
        persistence.clone(),
        mailboxes.clone(),
        clock.clone(),
    );
    let push = Arc::new(Pushes::new(
        &runtime,
        &config.push,
        config.http.clone(),
        bounds.count(PUSH_WAITING_MAX),
        clock.clone(),
    ));
    let table = devices(
        &runtime,
        &bounds,
        &secrets,
        (&domains, kept.cluster.is_some()),
    );
    let devices = Arc::new(DeviceContext {
        index: DeviceIndex::new(table.shard_count()),
        table,
        flows: Flows::new(&config, secrets.seed("flows")),
        topics,
        compositor,
        changes: changes.clone(),
        clock: clock.clone(),
        responder: responder.clone(),
        persistence: persistence.clone(),
        accounts: accounts.clone(),
        mailboxes: mailboxes.clone(),
        iax2: iax2.clone(),
        log: log.clone(),
        load: load.clone(),
        push,
        upstream: Arc::new(Upstream::new(
            &runtime,
            &config.registrars,
            (config.limits.devices_max, secrets.seed("upstream")),
            config.advertised.clone(),
            (clock.clone(), responder.clone()),
            (persistence.clone(), accounts.clone()),
        )),
        live: kept.cluster.as_ref().map(|cluster| cluster.live.clone()),
        kept: kept.cluster.as_ref().map(|cluster| cluster.kept.clone()),
        calls: OnceLock::new(),
    });
    let lookups = Arc::new(Lookups::new(
        secrets.seed("lookups"),
        bounds.count(LOOKUPS_MAX),
        clock.clone(),
        config.resolver.clone(),
    ));
    let peers = Arc::new(Peers::new(
        &config.peers,
        config.advertised.clone(),
        secrets.seed("peers"),
        &holders,
        (clock.clone(), responder.clone(), lookups.clone()),
    ));
    let edge = ServerEdge::new(
        config.advertised.clone(),
        domains.clone(),
        kept.route_key,
        peers.clone(),
        kept.cluster.as_ref().map_or(0, |it| it.link.own()),
    );
    let call_log = Arc::new(CallLog::new(
        &config.calls,
        kept.last_call_record,
        persistence.clone(),
        clock.clone(),
    ));
    let relays = Arc::new(RelaySet::new(
        &config.media,
        secrets.seed("relays"),
        clock.clone(),
        responder.clone(),
    ));
    let calls = Arc::new(Calls::new(
        &runtime,
        edge,
        (
            secrets.seed("calls"),
            LoopDetection::new(secrets.seed("loops")),
        ),
        call_bounds(&config, &bounds, &domains),
        responder.clone(),
        (devices.clone(), peers.clone(), lookups.clone(), relays),
        (changes.clone(), clock.clone(), call_log.clone()),
    ));
    tell_calls_of_flows(&devices, &calls);
    tell_of_pushes(&devices, &calls);
    let watchers = Arc::new(Watchers::new(
        &runtime,
        bounds.phones(config.limits.watchers_max),
        bounds.part_of_memory(NOTIFIES_PART),
        (
            config.limits.dialog_bytes_max,
            (kept.cluster.as_ref()).map(|cluster| (cluster.member().node.0, cluster.first_id())),
        ),
        secrets.clone(),
        (domains.clone(), responder.clone()),
    ));
    let lamps = bounds.phones(config.limits.list_lamps_max);
    let resource_feeds = Arc::new(ResourceFeeds::new(&runtime, lamps, secrets.seed("lists")));
    let lists = Lists::new(
        (&config, domains.clone()),
        persistence.clone(),
        watchers.clone(),
    );
    let hints = Arc::new(Hints::new(
        &runtime,
        (&config, domains.clone()),
        persistence.clone(),
        devices.clone(),
        (watchers.clone(), resource_feeds.clone()),
        changes.clone(),
    ));
    tell_states(&changes, &mailboxes, &hints, &calls, &devices);
    let watching = Arc::new(WatcherContext {
        watchers: watchers.clone(),
        resource_feeds,
        hints: hints.clone(),
        lists: Arc::new(lists),
        devices: devices.clone(),
        mailboxes: mailboxes.clone(),
        clock: clock.clone(),
        timers: runtime.timers().clone(),
        responder: responder.clone(),
        persistence: persistence.clone(),
        accounts: accounts.clone(),
        holders: holders.clone(),
        spans: spans.clone(),
        policy: config.watch.clone(),
        advertised: config.advertised.clone(),
        domains: domains.clone(),
        is_open: is_open(&config),
    });
    let webhooks = Webhooks::new(
        &runtime,
        config.http.clone(),
        changes.clone(),
        clock.clone(),
        persistence.clone(),
    );
    let credentials = config.credentials.clone().map(|service| {
        let room = bounds.count(http_credentials::WAITING_MAX);
        let under_way_max = match config.limits.source_percent {
            100.. => http_credentials::WAITING_MAX,
            _ => http_credentials::UNDER_WAY_PER_SOURCE,
        };
        Arc::new(HttpCredentials::new(
            &runtime,
            service,
            config.http.clone(),
            (room, under_way_max, secrets.seed("credentials")),
            clock.clone(),
        ))
    });
    let admission = Admission::new(
        (authenticator, credentials.clone()),
        domains.clone(),
        (bounds.logins(&secrets), bounds.nonces()),
        (secrets, holders.clone()),
        clock.clone(),
        (accounts.clone(), mailboxes.clone()),
        (responder.clone(), log.clone()),
    );
    Ok(Core {
        domains,
        tenants,
        started_at: clock.now(),
        is_closing: AtomicBool::new(false),
        is_revocation_due: AtomicBool::new(false),
        tokens: kept.tokens,
        _queue_alert_log: QueueAlertLog::start(&runtime),
        runtime,
        config,
        clock,
        changes,
        persistence,
        own_flows: (kept.cluster.as_ref()).map_or_else(OwnFlows::default, |it| it.link.own_flows()),
        cluster: kept.cluster,
        responder,
        spans,
        holders,
        admission,
        credentials,
        accounts,
        load,
        log,
        mailboxes,
        iax2,
        devices,
        call_log,
        lookups,
        peers,
        calls,
        watchers,
        hints,
        watching,
        webhooks,
    })
}

fn is_open(config: &ServerConfig) -> bool {
    config.authentication == Authentication::Open
}

fn responder(
    runtime: &Runtime,
    config: &ServerConfig,
    bounds: &Bounds<'_>,
    secrets: &Secrets,
    (network, tenants): (Arc<dyn Network>, &Arc<Tenants>),
) -> Responder {
    let transaction_seeds = ["answers", "answers again"].map(|table| secrets.seed(table));
    let transactions_max = config.limits.transactions_max;
    let memory = TransactionMemory {
        answers: bounds.part_of_memory(ANSWERS_PART),
        answer_min: bounds.buffer_bytes / ANSWERS_PART / transactions_max as u64,
        requests: bounds.part_of_memory(REQUESTS_PART),
    };
    let buffers = runtime.buffers();
    let packets = buffers.owned_by("HEP packets");
    let tap = MessageTap::new(
        &config.capture,
        network.clone(),
        packets.unwrap_or_else(|_| buffers.clone()),
        runtime.clock().clone(),
    );
    Responder::new(
        runtime.clone(),
        (network, Arc::new(tap)),
        Transactions::new(transactions_max, memory, transaction_seeds),
        (Holders::new(secrets.seed("holders")), tenants.clone()),
        Unproven::new(config.limits.unproven_per_second),
        (secrets.seed("refusals for too much load"), is_open(config)),
    )
}

fn tell_calls_of_flows(devices: &DeviceContext, calls: &Arc<Calls>) {
    let calls = Arc::downgrade(calls);
    let tell: FlowEnded = Box::new(move |device, flow| {
        if let Some(calls) = calls.upgrade() {
            calls.flow_ended(device, flow);
        }
    });
    // It is set once, here.
    let _ = devices.calls.set(tell);
}

fn tell_of_pushes(devices: &Arc<DeviceContext>, calls: &Arc<Calls>) {
    let (woken, missed) = (Arc::downgrade(calls), Arc::downgrade(calls));
    let (remove, bindings) = (Arc::downgrade(devices), Arc::downgrade(devices));
    devices.push.tell(PushNeighbours {
        woken: Box::new(move |call, device, contact| {
            if let Some(calls) = woken.upgrade() {
                calls.add_late(call, device, contact);
            }
        }),
        missed: Box::new(move |call, reason| {
            if let Some(calls) = missed.upgrade() {
                calls.miss_late(call, reason);
            }
        }),
        remove: Box::new(move |aor, contact| {
            if let Some(devices) = remove.upgrade() {
                devices.remove_bindings(aor, Some(contact), Arc::new(|_| ()));
            }
        }),
        bindings: Box::new(move |aor| {
            let devices = bindings.upgrade();
            let device = devices.and_then(|it| Some((it.table.find(aor)?, it.clock.now())));
            device.map_or_else(Vec::new, |(device, now)| device.active_bindings(now))
        }),
    });
}

/// Lets those who begin to read changes learn what is so.
fn tell_states(
    changes: &Changes,
    mailboxes: &Arc<Mailboxes>,
    hints: &Arc<Hints>,
    calls: &Arc<Calls>,
    devices: &Arc<DeviceContext>,
) {
    let mailboxes = Arc::downgrade(mailboxes);
    let (hints, calls) = (Arc::downgrade(hints), Arc::downgrade(calls));
    let devices = Arc::downgrade(devices);
    let next = move |portion: StatePortion| match portion {
        StatePortion::Mailboxes(after) => {
            let last = mailboxes.upgrade()?.tell_states(after.as_ref());
            Some(match last {
                None => StatePortion::Hints(None),
                last => StatePortion::Mailboxes(last),
            })
        }
        StatePortion::Hints(after) => {
            let last = hints.upgrade()?.tell_states(after.as_ref());
            Some(match last {
                None => StatePortion::Calls(0),
                last => StatePortion::Hints(last),
            })
        }
        StatePortion::Calls(shard) => Some(match calls.upgrade()?.tell_states(shard) {
            true => StatePortion::Calls(shard + 1),
            false => StatePortion::Devices(0),
        }),
        StatePortion::Devices(shard) => {
            let is_told = devices.upgrade()?.tell_states(shard);
            is_told.then_some(StatePortion::Devices(shard + 1))
        }
    };
    changes.tell_states_with(Box::new(next));
}

fn call_bounds(config: &ServerConfig, bounds: &Bounds<'_>, domains: &Domains) -> CallBounds {
    let limits = &config.limits;
    let realm = config.authentication.realm();
    // A hash spreads the calls of one holder over the shards, and not quite evenly.
    let of_shard = |percent: u64| {
        let share = limits.calls_max as u64 * percent / 100;
        usize::try_from(2 * share).unwrap_or(usize::MAX) / CALL_SHARDS + CALLS_MIN
    };
    let of_peer = |peer: &PeerConfig| (Name::new(&peer.name), of_shard(peer.share_percent));
    CallBounds {
        policy: Policy {
            transactions_max: 2 * CALL_TRANSACTIONS * limits.calls_max.max(WITHIN_MIN),
            bytes_max: 2 * bounds.buffer_bytes / CALLS_PART / CALL_SHARDS as u64,
            realm: (!realm.is_empty()).then(|| realm.into()),
            domains: domains.clone(),
            session_s: config.calls.session_s,
            ..Policy::default()
        },
        dialogs: DialogPolicy {
            calls_max: limits.calls_max,
            calls_per_source_max: of_shard(limits.source_percent),
            calls_per_account_max: of_shard(limits.account_percent),
            calls_per_peer_max: config.peers.iter().map(of_peer).collect(),
            ..DialogPolicy::default()
        },
        room: CallRoom::new(
            bounds.phones(CALL_TRANSACTIONS * limits.calls_max),
            bounds.part_of_memory(CALLS_PART),
        ),
        emergency_room: CallRoom::new(
            bounds.count(limits.calls_max / EMERGENCIES_PART as usize),
            bounds.part_of_memory(CALLS_PART * EMERGENCIES_PART),
        ),
        within_room: CallRoom::new(
            bounds.phones((CALL_TRANSACTIONS * limits.calls_max).max(WITHIN_MIN)),
            bounds.part_of_memory(CALLS_PART * WITHIN_PART),
        ),
        bye_room: CallRoom::new(
            bounds.phones(limits.calls_max.max(WITHIN_MIN)),
            bounds.part_of_memory(CALLS_PART * BYES_PART),
        ),
    }
}

/// The domains with settings of their own, those of the store among them.
fn tenants(
    config: &ServerConfig,
    rows: &SettingRows,
    holders: &Holders,
    authenticator: Option<Authenticator>,
) -> Tenants {
    let domains = Domains::new(config.domains.iter().cloned()).at(config.home);
    let tenants = Tenants::new(
        domains,
        holders.clone(),
        authenticator,
        config.tenants.clone(),
        config.limits.domains_max,
    );
    tenants.replace_stored(rows);
    tenants
}

fn accounts(config: &ServerConfig, rows: Vec<Account>, tenants: &Arc<Tenants>) -> AccountPolicy {
    let realm = config.authentication.realm();
    let domains = tenants.domains().clone();
    let directory = AccountDirectory::new(realm, domains, rows, config.accounts.clone());
    let registration = config.registration.clone();
    let asks_elsewhere = config.credentials.is_some();
    AccountPolicy::new(
        directory,
        tenants.clone(),
        registration,
        (is_open(config), asks_elsewhere),
    )
}

fn registration_log(
    runtime: &Runtime,
    bounds: &Bounds<'_>,
    secrets: &Secrets,
    domains: &Domains,
) -> RegistrationLog {
    let holders = Holders::new(secrets.seed("holders"));
    let count = |bound| bounds.count(bound);
    let table = || Failures::new(secrets.seed("failures"), count(failures::CAPACITY));
    let failures = FailureNotes::new(
        runtime.clone(),
        holders.clone(),
        [table(), table(), table()],
    );
    RegistrationLog::new(runtime.clone(), (holders, domains.clone()), failures, count)
}

/// The key is new at each start: credentials that were overheard before it are
/// worthless, although their use is not remembered any more.
fn authenticator(
    runtime: &Runtime,
    config: &ServerConfig,
) -> Result<Option<Authenticator>, StartError> {
    let Authentication::Digest { realm, algorithms } = &config.authentication else {
        return Ok(None);
    };
    let key = random_key(runtime)?;
    Ok(Some(Authenticator::new(realm, key, algorithms)?))
}

fn devices(
    runtime: &Runtime,
    bounds: &Bounds<'_>,
    secrets: &Secrets,
    (domains, is_in_cluster): (&Domains, bool),
) -> Devices {
    let holders = Holders::new(secrets.seed("holders"));
    Devices::new(
        runtime,
        secrets.seed("devices"),
        bounds.phones(bounds.limits.devices_max),
        (holders, domains.clone()),
        (bounds.limits.device_queue_max, is_in_cluster),
    )
}

impl Bounds<'_> {
    /// Of a small table.
    fn count(&self, bound: usize) -> Shares {
        self.shares(bound, COUNT_MIN)
    }

    /// Of what each phone has.
    fn phones(&self, bound: usize) -> Shares {
        self.shares(bound, PHONES_MIN)
    }

    /// Of a part of the packet memory, in bytes.
    fn part_of_memory(&self, part: u64) -> Shares {
        self.shares((self.buffer_bytes / part) as usize, BYTES_MIN)
    }

    fn logins(&self, secrets: &Secrets) -> Logins {
        Logins::new(secrets.seed("logins"), self.count(logins::CAPACITY))
    }

    fn nonces(&self) -> Nonces {
        let nonces_max = self.limits.nonces_max;
        let life_s = Authenticator::NONCE_LIFE.as_secs();
        Nonces::new(nonces_max, self.count(nonces_max), life_s)
    }

    fn shares(&self, bound: usize, least: u64) -> Shares {
        let parts = shares::Parts {
            by_source: self.limits.source_percent,
            by_account: self.limits.account_percent,
            by_domain: self.limits.domain_percent,
            least,
        };
        Shares::new(bound as u64, parts)
    }
}

/// One source or account may have at least this many entries of a small table.
const COUNT_MIN: u64 = 16;
/// One source may have at least this many devices, subscriptions and publications: the
/// phones of a building are one source behind its NAT.
const PHONES_MIN: u64 = 1024;
/// Enough for a long message and its answer.
const BYTES_MIN: u64 = 128 << 10;
/// Parts of the packet memory that is not for receiving: answers kept, NOTIFY
/// requests unanswered, and long requests in work have five eighths together.
const ANSWERS_PART: u64 = 4;
const NOTIFIES_PART: u64 = 4;
const REQUESTS_PART: u64 = 8;
/// One source or account may have so many calls in each shard at least.
const CALLS_MIN: usize = 16;
/// Calls that may wait for telephones that are woken.
const PUSH_WAITING_MAX: usize = 4096;
/// Messages that calls hold: another eighth.
const CALLS_PART: u64 = 8;
/// Room besides: for emergencies, as a part of the calls and of their memory; for requests within
/// dialogs and for one BYE of each call, as parts of their memory.
const EMERGENCIES_PART: u64 = 8;
const WITHIN_PART: u64 = 4;
const BYES_PART: u64 = 4;
/// Calls last longer than their INVITEs are remembered, so more of them may change and end at once
/// than a small `limits.calls` says.
const WITHIN_MIN: usize = 4096;
/// Requests are remembered for 32 s after their answer, so a server has more of them than
/// calls.
const CALL_TRANSACTIONS: usize = 4;
