//! Starts a server: reads the store, connects the parts, restores the bindings.

use super::{
    Authentication, HintRefusal, Limits, Network, ServerConfig,
    access::{
        account_policy::AccountPolicy,
        accounts::AccountDirectory,
        admission::Admission,
        failures::{self, FailureNotes, Failures},
        logins::{self, Logins},
        nonces::Nonces,
    },
    core::Core,
    device::{
        compositor::Compositor, device_context::DeviceContext, devices::Devices, flows::Flows,
        state_topics::StateTopics,
    },
    iax2::{self, calls::Iax2Calls},
    load::{
        alerts::Alerts,
        load_control::LoadControl,
        shares::{self, Holders, Shares},
    },
    persistence::Persistence,
    random::{RandomError, Secrets, random_key},
    server_clock::ServerClock,
    settings::{hint::SetBy, hints::Hints, mailboxes::Mailboxes},
    sip::{
        responder::Responder,
        transactions::{TransactionMemory, Transactions},
        unproven::Unproven,
    },
    stats::registration_log::RegistrationLog,
    steady,
    watcher::watchers::Watchers,
};
use busyhour::{runtime::Runtime, timer::AddError};
use busyhour_registrar::user_of;
use busyhour_sip::auth::{Authenticator, RealmError};
use busyhour_store::{
    Account, Contents, SettingKind, SoftState, SoftStateKind, Store, StoreError, StoredBinding,
    TokenRows,
};
use std::{
    sync::{Arc, Weak, atomic::AtomicBool},
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
    ) -> Result<Arc<Self>, StartError> {
        let mut contents = store.load()?;
        check_realm(&config, &contents)?;
        let bindings = std::mem::take(&mut contents.bindings);
        let soft_states = std::mem::take(&mut contents.soft_states);
        let ids = bindings.iter().map(|stored| stored.id.0);
        let last_id = ids.chain(soft_states.iter().map(|row| row.id.0)).max();
        let accounts = std::mem::take(&mut contents.accounts);
        let steady = steady::resume(&contents, runtime.clock());
        let clock = Arc::new(ServerClock::new(runtime.clock().clone(), steady));
        let waiting = store.stats().queue_capacity as usize;
        let waiting = share_of(&config.limits, PHONES_MIN)(waiting);
        let persistence = Arc::new(Persistence::new(
            store,
            clock.clone(),
            last_id.unwrap_or(0) + 1,
            contents.run,
            waiting,
        ));
        let tokens = tokens(&contents);
        let core = assemble(
            runtime,
            config,
            network,
            clock,
            persistence,
            accounts,
            tokens,
        )?;
        let core = Arc::new(core);
        // Stored before everything else, so that nothing is durable without it.
        core.persistence.keep_clock();
        core.devices.restore_bindings(bindings);
        core.sweep_transactions()?;
        core.devices.start_probing(&core.runtime)?;
        for hint in &core.config.hints {
            let set = core.hints.take(hint, SetBy::Configuration);
            set.map_err(|refusal| StartError::Hint(hint.extension.clone(), refusal))?;
        }
        core.restore_settings(&contents);
        core.hints
            .follow_accounts(&core.accounts.directory.differences());
        let is_subscription = |row: &SoftState| row.kind == SoftStateKind::Subscription;
        let (subscriptions, publications) = soft_states.into_iter().partition(is_subscription);
        core.devices.restore_publications(publications);
        core.restore_subscriptions(subscriptions);
        core.accounts.end_start();
        core.follow_accounts(contents.account_revision);
        core.persistence.store().lend_to(core.runtime.pool());
        Ok(core)
    }

    /// Restores what was set over HTTP. Settings that are not possible any more,
    /// because the configuration has changed, stay in the store and have no effect.
    fn restore_settings(self: &Arc<Self>, contents: &Contents) {
        for ((kind, name), value) in &contents.settings {
            let restored = match kind {
                SettingKind::Mailbox => self.mailboxes.restore(name, value),
                SettingKind::Hint => self.hints.restore(name, value),
                SettingKind::Token | SettingKind::Server => Ok(()),
            };
            if let Err(reason) = restored {
                tracing::warn!(kind = kind.name(), name, reason, "a setting has no effect");
            }
        }
    }

    /// Keeps the accounts in memory equal to those in the store.
    fn follow_accounts(self: &Arc<Self>, revision: u64) {
        let core = Arc::downgrade(self);
        let learn = move |news| {
            if let Some(core) = core.upgrade() {
                let differences = core.accounts.directory.learn(news);
                core.hints.follow_accounts(&differences);
                core.watchers.move_mailboxes(&differences);
                if differences.iter().any(|difference| difference.is_gone) {
                    core.revoke();
                }
            }
        };
        self.persistence
            .store()
            .watch_accounts(revision, Box::new(learn));
    }

    /// Once a second, drops expired transactions, checks whether the clock was set, and
    /// logs which limits were reached.
    fn sweep_transactions(self: &Arc<Self>) -> Result<(), AddError> {
        let core: Weak<Self> = Arc::downgrade(self);
        let mut alerts = Alerts::default();
        let sweep = move || match core.upgrade() {
            Some(core) => {
                core.responder.transactions().sweep(core.clock.now());
                core.log.new_second();
                core.persistence.keep_clock();
                core.responder.log_over_share();
                let limits = core.own_stats().limits_reached();
                for (limit, refused) in alerts.look(&limits, core.clock.now()) {
                    tracing::warn!(limit, refused, "a limit was reached");
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

/// A typing error in the realm would end the bindings of every account of the store: it
/// looks as if all accounts were removed.
fn check_realm(config: &ServerConfig, contents: &Contents) -> Result<(), StartError> {
    let realm = config.authentication.realm();
    let accounts = &contents.accounts;
    let (Some(other), Authentication::Digest { .. }) = (accounts.first(), &config.authentication)
    else {
        return Ok(());
    };
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

fn tokens(contents: &Contents) -> TokenRows {
    let settings = contents.settings.iter();
    let tokens = settings.filter(|((kind, _), _)| *kind == SettingKind::Token);
    let row = |((_, name), value): (&(_, String), &String)| (name.clone(), value.clone());
    tokens.map(row).collect()
}

/// The parts of a server, before anything is restored.
fn assemble(
    runtime: Runtime,
    config: ServerConfig,
    network: Arc<dyn Network>,
    clock: Arc<ServerClock>,
    persistence: Arc<Persistence>,
    accounts: Vec<Account>,
    tokens: TokenRows,
) -> Result<Core, StartError> {
    let realm = config.authentication.realm();
    let secrets = Arc::new(Secrets::new(&runtime)?);
    let [device_seed, transaction_seeds @ ..] = secrets.table_seeds;
    let is_open = config.authentication == Authentication::Open;
    let policy = iax2::policy(config.call_tokens, is_open, &config.limits);
    let limits = &config.limits;
    let (count, bytes) = (share_of(limits, COUNT_MIN), share_of(limits, BYTES_MIN));
    let phones = share_of(limits, PHONES_MIN);
    let budget = runtime.buffers().stats().budget_bytes;
    let transactions = Transactions::new(
        limits.transactions_max,
        TransactionMemory {
            answers: bytes((budget / ANSWERS_PART) as usize),
            answer_min: budget / ANSWERS_PART / limits.transactions_max as u64,
            requests: bytes((budget / REQUESTS_PART) as usize),
        },
        transaction_seeds,
    );
    let holders = Holders::new(device_seed);
    let responder = Responder::new(
        runtime.clone(),
        network,
        transactions,
        holders.clone(),
        Unproven::new(limits.unproven_per_second),
        is_open,
    );
    let responder = Arc::new(responder);
    let directory = AccountDirectory::new(realm, accounts, config.accounts.clone());
    let accounts = AccountPolicy::new(directory, config.registration.clone(), is_open);
    let accounts = Arc::new(accounts);
    let table = || Failures::new(device_seed, count(failures::CAPACITY));
    let failures = FailureNotes::new(runtime.clone(), holders.clone(), table(), table());
    let log = RegistrationLog::new(runtime.clone(), holders.clone(), failures, &count);
    let authenticator = authenticator(&runtime, &config)?;
    let topics = StateTopics::new(&runtime);
    let mailboxes = Arc::new(Mailboxes::new(
        runtime.topic("mailbox").cached().build(),
        config.limits.mailboxes_max,
        accounts.clone(),
        persistence.clone(),
    ));
    let iax2 = Arc::new(Iax2Calls::new(
        &runtime,
        responder.clone(),
        clock.clone(),
        (random_key(&runtime)?, device_seed),
        &policy,
    ));
    let compositor = Compositor::new(
        &config,
        phones(limits.publications_max),
        secrets.clone(),
        responder.clone(),
        persistence.clone(),
        mailboxes.clone(),
        clock.clone(),
    );
    let (log, load) = (Arc::new(log), Arc::new(LoadControl::new(&runtime)));
    let devices = Arc::new(DeviceContext {
        table: Devices::new(
            &runtime,
            device_seed,
            phones(limits.devices_max),
            holders.clone(),
            limits.device_queue_max,
        ),
        flows: Flows::new(
            device_seed,
            config.probe_interval,
            config.advertised.clone(),
        ),
        topics,
        compositor,
        clock: clock.clone(),
        responder: responder.clone(),
        persistence: persistence.clone(),
        accounts: accounts.clone(),
        mailboxes: mailboxes.clone(),
        iax2: iax2.clone(),
        log: log.clone(),
        load: load.clone(),
    });
    let watchers = Arc::new(Watchers::new(
        (
            phones(limits.watchers_max),
            bytes((budget / NOTIFIES_PART) as usize),
        ),
        limits.dialog_bytes_max,
        secrets.clone(),
        responder.clone(),
    ));
    let hints = Hints::new(
        &runtime,
        &config,
        persistence.clone(),
        devices.clone(),
        watchers.clone(),
    );
    let logins = Logins::new(device_seed, count(logins::CAPACITY));
    let nonces = Nonces::new(
        limits.nonces_max,
        count(limits.nonces_max),
        Authenticator::NONCE_LIFE.as_secs(),
    );
    let admission = Admission::new(
        authenticator,
        config.domains(),
        (logins, nonces),
        (secrets, holders.clone()),
        clock.clone(),
        (accounts.clone(), mailboxes.clone()),
        (responder.clone(), log.clone()),
    );
    Ok(Core {
        domains: config.domains(),
        admission,
        accounts,
        devices,
        mailboxes,
        hints,
        watchers,
        holders,
        responder,
        log,
        load,
        iax2,
        tokens,
        runtime,
        config,
        started_at: clock.now(),
        is_closing: AtomicBool::new(false),
        is_revocation_due: AtomicBool::new(false),
        clock,
        persistence,
    })
}

/// Creates resources with a share for one source and account, and a minimum.
fn share_of(limits: &Limits, least: u64) -> impl Fn(usize) -> Shares + use<> {
    let parts = shares::Parts {
        by_source: limits.source_percent,
        by_account: limits.account_percent,
        least,
    };
    move |bound| Shares::new(bound as u64, parts)
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

const SWEEP_PERIOD: Duration = Duration::from_secs(1);
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
