//! Starts a server: reads the store, and restores in the parts what it kept.

use super::{
    Authentication, HintRefusal, ListRefusal, Network, PeerMistake, RegistrarMistake, ServerConfig,
    access::realm_accounts::Difference,
    assemble::{Kept, assemble},
    call::route_key::RouteKey,
    cluster::{ClusterMembership, cluster_network::ClusterNetwork, cluster_node::ClusterNode},
    core::Core,
    load::alerts::Alerts,
    peer::peer_config,
    persistence::RowIds,
    random::RandomError,
    registrar_mistakes,
    runs::Runs,
    settings::hint::SetBy,
    steady,
    tenant::tenant_config::TenantConfig,
};
use busyhour::{runtime::Runtime, timer::AddError};
use busyhour_registrar::user_of;
use busyhour_sip::auth::RealmError;
use busyhour_store::{
    Account, BindingReader, Contents, SettingKind, SettingRows, SoftState, SoftStateKind, Store,
    StoreError, StoredBinding,
};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use thiserror::Error;

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The realm cannot stand in a challenge.
    #[error("realm: {0}")]
    Realm(#[from] RealmError),
    /// All accounts of the store belong to another realm, and some of them have
    /// bindings.
    #[error(
        "sip.realm is `{realm}`, but the store has accounts only for `{stored}`, and starting \
         would end their registrations; set sip.realm to `{stored}`, or first add accounts \
         for `{realm}` (busyhour device add)"
    )]
    OtherRealm {
        /// The realm of the configuration.
        realm: String,
        /// That of an account of the store.
        stored: String,
    },
    /// There are no random numbers to make keys from.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// A hint of the configuration is invalid.
    #[error("hint {0}: {1}")]
    Hint(String, HintRefusal),
    /// A list of the configuration is invalid.
    #[error("list {0}: {1}")]
    List(String, ListRefusal),
    /// A peer of the configuration is invalid.
    #[error("peer {0}: {1}")]
    Peer(String, PeerMistake),
    /// A registrar behind, of the configuration, is invalid.
    #[error("registrar {0}: {1}")]
    Registrar(String, RegistrarMistake),
    /// The threads of a node of a cluster cannot be started.
    #[error("the threads for the cluster cannot be started: {0}")]
    Cluster(#[from] std::io::Error),
    /// The runtime takes no timers.
    #[error("timers: {0}")]
    Timers(#[from] AddError),
}

impl Core {
    pub(super) fn start(
        runtime: Runtime,
        config: ServerConfig,
        network: Arc<dyn Network>,
        store: Box<dyn Store>,
        membership: Option<ClusterMembership>,
    ) -> Result<Arc<Self>, StartError> {
        // The lease has to be renewed while the store is read.
        let cluster = membership.map(|membership| {
            ClusterNode::start(membership, &runtime, config.limits.source_percent)
        });
        let cluster = cluster.transpose()?.map(Arc::new);
        let network = match &cluster {
            None => network,
            Some(cluster) => Arc::new(ClusterNetwork::new(network, cluster.link.clone())),
        };
        let (mut contents, later) = load(&*store, &config, cluster.is_some())?;
        check_realm(&config, &contents)?;
        check_peers(&config)?;
        check_registrars(&config)?;
        let last_id = contents.highest_id();
        let bindings = std::mem::take(&mut contents.bindings);
        let soft_states = std::mem::take(&mut contents.soft_states);
        let route_key = RouteKey::resume(&contents, &runtime)?;
        let kept = Kept {
            accounts: std::mem::take(&mut contents.accounts),
            tokens: rows_of(&contents, SettingKind::Token),
            domains: rows_of(&contents, SettingKind::Domain),
            steady: match &cluster {
                None => steady::resume(&contents, runtime.clock()),
                Some(_) => steady::resume(&Contents::default(), runtime.clock()),
            },
            ids: match &cluster {
                None => RowIds::behind(last_id),
                Some(cluster) => RowIds::of_node(cluster.member().node.0, last_id),
            },
            route_key: route_key.key,
            runs: match &cluster {
                None => Runs::OfServer(contents.run),
                Some(_) => Runs::of_partitions(),
            },
            last_call_record: contents.last_call_record,
            cluster,
        };
        let core = Arc::new(assemble(runtime, config, network, store, kept)?);
        core.resume_what_waited();
        // Stored before everything else, so that nothing is durable without it.
        core.persistence.keep_clock();
        route_key.keep(&core.persistence);
        for tenant in core.tenants.all() {
            core.bound_tenant(&tenant.config.name);
        }
        // Before the telephones, whose contacts they are.
        let registrations = rows_of(&contents, SettingKind::Registration);
        core.devices.upstream.restore(&registrations);
        core.devices.restore_bindings(bindings);
        if let Some(reader) = later {
            core.devices.begin_reading(reader)?;
        }
        core.devices.upstream.end_restore();
        core.sweep_transactions()?;
        core.devices.start_probing(&core.runtime)?;
        core.peers.start_probing(&core.runtime)?;
        core.calls.relays.start_pinging(&core.runtime)?;
        for hint in &core.config.hints {
            let set = core.hints.take(hint, SetBy::Configuration);
            set.map_err(|refusal| StartError::Hint(hint.extension.clone(), refusal))?;
        }
        core.webhooks.replace_configured(&core.config.webhooks);
        let taken = core.watching.lists.take(&core.config.lists);
        taken.map_err(|(name, refusal)| StartError::List(name, refusal))?;
        let are_all_restored = core.restore_settings(&contents);
        core.hints
            .follow_accounts(&core.accounts.directory.differences());
        let is_subscription = |row: &SoftState| row.kind == SoftStateKind::Subscription;
        let (subscriptions, publications) = soft_states.into_iter().partition(is_subscription);
        core.devices.restore_publications(publications);
        core.watching.restore_subscriptions(subscriptions);
        if core.devices.table.unread().is_none() {
            core.accounts.end_start();
        }
        core.follow_accounts(contents.account_revision);
        core.follow_tenants();
        core.follow_settings(are_all_restored.then_some(contents.setting_revision));
        core.persistence.store().lend_to(core.runtime.pool());
        core.hear_live_states();
        core.serve_partitions()?;
        core.go_on_with_kept();
        core.hear_other_nodes();
        core.open_direct_paths()?;
        core.serve_when_ready()?;
        core.read_rest();
        Ok(core)
    }

    /// Reads the registrations that were left for later, if there are any, while the server serves.
    fn read_rest(self: &Arc<Self>) {
        let Some(unread) = self.devices.table.unread() else {
            return;
        };
        let begun = self.clock.now();
        let core = Arc::downgrade(self);
        let all_read = move || {
            if let Some(core) = core.upgrade() {
                core.accounts.end_start();
                let took_ms = (core.clock.now() - begun).as_millis() as u64;
                let bindings = core.log.counters.restored.get();
                tracing::info!(bindings, took_ms, "all registrations are read");
            }
        };
        unread.read_all(self.runtime.pool(), Box::new(all_read));
    }

    /// Restores what was set over HTTP. Settings that are not possible any more,
    /// because the configuration has changed, stay in the store and have no effect. Whether there
    /// were none of these.
    fn restore_settings(self: &Arc<Self>, contents: &Contents) -> bool {
        let mut are_all_restored = true;
        for ((kind, name), value) in &contents.settings {
            if let Err(reason) = self.restore_setting(*kind, name, value, &|| false) {
                are_all_restored = false;
                tracing::warn!(kind = kind.name(), name, reason, "a setting has no effect");
            }
        }
        self.watching.lists.judge_loops();
        are_all_restored
    }

    /// Restores a setting that the store has, unless a later change is on its way.
    pub(super) fn restore_setting(
        &self,
        kind: SettingKind,
        name: &str,
        value: &str,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        match kind {
            SettingKind::Mailbox => self.mailboxes.restore(name, value, is_overtaken),
            SettingKind::Hint => self.hints.restore(name, value, is_overtaken),
            SettingKind::Webhook => self.webhooks.restore(name, value),
            SettingKind::List => self.watching.lists.restore(name, value, is_overtaken),
            SettingKind::Registration
            | SettingKind::Token
            | SettingKind::Domain
            | SettingKind::Server => Ok(()),
        }
    }

    /// Requests that have waited for the service for credentials are handled again.
    fn resume_what_waited(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        if let Some(credentials) = &self.credentials {
            credentials.resume_with(Box::new(move |flow, datagram| {
                if let Some(core) = core.upgrade() {
                    core.resume(flow, datagram);
                }
            }));
            let core = Arc::downgrade(self);
            credentials.tell_gone(Box::new(move |account, was_found| {
                if let Some(core) = core.upgrade() {
                    core.revoke_elsewhere(account, was_found);
                }
            }));
        }
    }

    /// Keeps the accounts in memory equal to those in the store.
    fn follow_accounts(self: &Arc<Self>, revision: u64) {
        let core = Arc::downgrade(self);
        let learn = move |news| {
            if let Some(core) = core.upgrade() {
                let differences = core.accounts.directory.learn(news);
                core.hints.follow_accounts(&differences);
                if differences.iter().any(|difference| difference.has_moved) {
                    core.watching.resource_feeds.forget_mailbox_hubs();
                    core.watchers.move_mailboxes(&differences);
                }
                for gone in differences.iter().filter(|one| one.is_gone) {
                    core.accounts.note_removed(&gone.username);
                }
                let is_less = |one: &Difference| one.is_gone || one.has_other_watchers;
                if differences.iter().any(is_less) {
                    core.revoke();
                }
            }
        };
        self.persistence
            .store()
            .watch_accounts(revision, Box::new(learn));
    }

    /// Once a second, drops expired transactions, checks whether the clock was set, and
    /// logs which limits were reached. Once a minute old records of calls are removed.
    fn sweep_transactions(self: &Arc<Self>) -> Result<(), AddError> {
        let core: Weak<Self> = Arc::downgrade(self);
        let (mut alerts, mut long_queues) = (Alerts::default(), Alerts::default());
        let sweep = move || match core.upgrade() {
            Some(core) => {
                core.responder.transactions().sweep(core.clock.now());
                core.log.new_second();
                core.persistence.keep_clock();
                core.call_log.sweep();
                core.load.sweep();
                core.responder.log_over_share();
                let (stats, now) = (core.own_stats(), core.clock.now());
                for (limit, refused) in alerts.look(&stats.limits_reached(), now) {
                    tracing::warn!(limit, refused, "a limit was reached");
                }
                for (kind, alerts) in long_queues.look(&stats.long_queues(), now) {
                    tracing::warn!(kind, alerts, "a queue has reached its high watermark");
                }
                SWEEP_PERIOD
            }
            None => Duration::ZERO,
        };
        let timers = self.runtime.timers().timer().label("transactions");
        let timer = timers.after(SWEEP_PERIOD).on(self.runtime.pool());
        timer.run_with_next_delay(sweep).map(drop)
    }
}

/// What the store has. Many bindings are read later, each of them at the latest when somebody asks for its address, but
/// where something has to be known of all of them at once: for servers behind, for the quota of contacts of a domain, and
/// where the realm may be another one.
fn load(
    store: &dyn Store,
    config: &ServerConfig,
    is_in_cluster: bool,
) -> Result<(Contents, Option<Arc<dyn BindingReader>>), StartError> {
    if is_in_cluster || !config.registrars.is_empty() {
        return Ok((store.load()?, None));
    }
    let (contents, later) = store.load_lazily()?;
    let has_quota = |tenant: &TenantConfig| tenant.max_contacts.is_some();
    let stored = rows_of(&contents, SettingKind::Domain);
    let stored = stored
        .values()
        .filter_map(|row| serde_json::from_str(row).ok());
    let needs_all = config.tenants.iter().any(has_quota)
        || stored.into_iter().any(|tenant| has_quota(&tenant))
        || !rows_of(&contents, SettingKind::Registration).is_empty()
        || is_realm_in_doubt(config, &contents);
    match later {
        Some(_) if needs_all => Ok((store.load()?, None)),
        later => Ok((contents, later)),
    }
}

/// Whether the accounts of the store are all of another realm.
fn is_realm_in_doubt(config: &ServerConfig, contents: &Contents) -> bool {
    let realm = config.authentication.realm();
    let is_of_it = |account: &Account| account.realm == realm;
    !contents.accounts.is_empty() && !contents.accounts.iter().any(is_of_it)
}

/// A typing error in the realm would end the bindings of every account of the store: it
/// looks as if all accounts were removed.
fn check_realm(config: &ServerConfig, contents: &Contents) -> Result<(), StartError> {
    let realm = config.authentication.realm();
    let accounts = &contents.accounts;
    let (Some(other), Authentication::Digest { .. }) = (accounts.first(), &config.authentication)
    else {
        return Ok(());
    };
    let rows = rows_of(contents, SettingKind::Domain);
    if !rows.is_empty() || !config.tenants.is_empty() {
        // Accounts of other realms are those of domains.
        return Ok(());
    }
    if accounts.iter().any(|account| account.realm == realm) {
        return Ok(());
    }
    // They may have moved into the configuration.
    let is_known = |user: &str| config.accounts.secret(user).is_some();
    let is_lost = |stored: &StoredBinding| {
        let (_, address) = stored.aor.split_once(':').unwrap_or(("", &stored.aor));
        !stored.lease.removed && !is_known(user_of(&stored.aor)) && !is_known(address)
    };
    let is_nobody_known = || !accounts.iter().any(|account| is_known(&account.username));
    let ends_any = contents.bindings.iter().any(is_lost)
        || !contents.soft_states.is_empty() && is_nobody_known();
    match ends_any {
        true => Err(StartError::OtherRealm {
            realm: realm.to_owned(),
            stored: other.realm.clone(),
        }),
        false => Ok(()),
    }
}

fn check_peers(config: &ServerConfig) -> Result<(), StartError> {
    let is_open = config.authentication == Authentication::Open;
    let mistakes = peer_config::mistakes(&config.peers, &config.domains(), is_open);
    match mistakes.into_iter().next() {
        Some((place, mistake)) => Err(StartError::Peer(config.peers[place].name.clone(), mistake)),
        None => Ok(()),
    }
}

fn check_registrars(config: &ServerConfig) -> Result<(), StartError> {
    let mistakes = registrar_mistakes(&config.registrars);
    match mistakes.into_iter().next() {
        Some((place, mistake)) => {
            let name = config.registrars[place].name.clone();
            Err(StartError::Registrar(name, mistake))
        }
        None => Ok(()),
    }
}

/// The settings of one kind.
fn rows_of(contents: &Contents, kind: SettingKind) -> SettingRows {
    let settings = contents.settings.iter();
    let rows = settings.filter(|((of, _), _)| *of == kind);
    rows.map(|((_, name), value)| (name.clone(), value.clone()))
        .collect()
}

const SWEEP_PERIOD: Duration = Duration::from_secs(1);
