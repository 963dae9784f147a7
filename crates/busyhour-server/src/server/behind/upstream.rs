//! The part of the server that registers addresses of record at servers behind this one.

mod sending;
mod stored_rows;

use self::stored_rows::write_row;
use super::{
    register_request::{self, domain_of},
    registrar_config::{RegistrarConfig, RegistrarsByDomain},
    upstream_stats::{RegistrarView, UpstreamStats},
};
use crate::server::{
    access::account_policy::AccountPolicy,
    expiry_timer::{ExpiryOptions, ExpiryTimer},
    nanos,
    persistence::Persistence,
    server_clock::ServerClock,
    sip::responder::Responder,
    stats::{
        counters::Counter,
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
};
use busyhour::{
    buffer::Buffer,
    runtime::Runtime,
    serializer::Serializer,
    task::{Executor, Task},
};
use busyhour_registrar::{
    Advertised, Refusal,
    upstream::{
        UpstreamAnswer, UpstreamAsk, UpstreamPolicy, UpstreamRefusal, UpstreamRow, UpstreamStep,
        UpstreamTable,
    },
    user_of,
};
use busyhour_sip::{Flow, HeaderName, Message, SipUri, auth::Secret};
use busyhour_store::{Change, SettingKind};
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// Servers behind this one, and what each was told.
pub(in crate::server) struct Upstream {
    registrars: Box<[Registrar]>,
    by_domain: RegistrarsByDomain,
    pub(in crate::server) kind: SerializerKind,
    runtime: Runtime,
    clock: Arc<ServerClock>,
    responder: Arc<Responder>,
    persistence: Arc<Persistence>,
    accounts: Arc<AccountPolicy>,
    advertised: Advertised,
    last_cseq: AtomicU32,
    /// Tells the Call-IDs of this run from those of others.
    run: u64,
}

struct Registrar {
    config: RegistrarConfig,
    /// Everything but what devices say and ask is done here.
    serializer: Serializer,
    state: Mutex<RegistrarInner>,
    /// It may have refused an address; if not, nobody asks which.
    has_refusals: AtomicBool,
    /// A look at what is due waits on the serializer.
    is_poll_waiting: AtomicBool,
    counters: UpstreamCounters,
}

struct RegistrarInner {
    table: UpstreamTable,
    /// Requests that wait for their answer.
    requests: HashMap<u64, WaitingRequest>,
    alarm: ExpiryTimer,
}

/// A request on its way.
struct WaitingRequest {
    /// As it was sent.
    message: Option<Buffer>,
    /// Where to, last.
    sent_on: Option<Flow>,
    /// What has to be durable before it leaves.
    first: Option<UpstreamRow>,
    is_committing: bool,
}

#[derive(Default)]
struct UpstreamCounters {
    sent: Counter,
    retransmitted: Counter,
    answered: Counter,
    challenged: Counter,
    refused: Counter,
    went_away: Counter,
    forgot: Counter,
    telephones_refused: Counter,
    refused_full: Counter,
}

impl Upstream {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        configs: &[RegistrarConfig],
        (addresses_max, seed): (usize, u64),
        advertised: Advertised,
        (clock, responder): (Arc<ServerClock>, Arc<Responder>),
        (persistence, accounts): (Arc<Persistence>, Arc<AccountPolicy>),
    ) -> Self {
        let kind = SerializerKind::new(runtime, OPTIONS);
        let registrar = |(index, config): (usize, &RegistrarConfig)| {
            let policy = UpstreamPolicy {
                expires_s: config.expires.as_secs() as u32,
                pending_max: PENDING_MAX,
                rate: config.rate,
                // Those that end still need their place.
                entries_max: 2 * addresses_max,
                patience: config.keep,
            };
            Registrar {
                config: config.clone(),
                serializer: kind.ephemeral(),
                state: Mutex::new(RegistrarInner {
                    table: UpstreamTable::new(policy, seed.wrapping_add(index as u64)),
                    requests: HashMap::new(),
                    alarm: ExpiryTimer::default(),
                }),
                has_refusals: AtomicBool::new(false),
                is_poll_waiting: AtomicBool::new(false),
                counters: UpstreamCounters::default(),
            }
        };
        Self {
            registrars: configs.iter().enumerate().map(registrar).collect(),
            by_domain: RegistrarsByDomain::new(configs),
            kind,
            runtime: runtime.clone(),
            run: clock.unix_time().as_nanos(),
            clock,
            responder,
            persistence,
            accounts,
            advertised,
            last_cseq: AtomicU32::new(0),
        }
    }

    pub(in crate::server) fn is_used(&self) -> bool {
        !self.registrars.is_empty()
    }

    /// All telephones are restored.
    pub(in crate::server) fn end_restore(self: &Arc<Self>) {
        for index in 0..self.registrars.len() {
            let now = self.clock.now();
            self.registrars[index].lock().table.end_restore(now);
            self.poll_soon(index);
        }
    }

    /// An address of record has its first contact, or none any more. Called under the lock of
    /// its device.
    pub(in crate::server) fn changed(self: &Arc<Self>, aor: &str, has_contacts: bool) {
        if let Some(index) = self.registrar_of(aor) {
            let now = self.clock.now();
            let mut state = self.registrars[index].lock();
            state.table.want(now, aor, has_contacts);
            drop(state);
            self.poll_soon(index);
        }
    }

    /// Whether the registrar of an address refuses it, or could not be told for too long; then
    /// its telephones are refused as well. Nearly always this loads one flag.
    pub(in crate::server) fn check(&self, aor: &str) -> Result<(), Refusal> {
        let Some(index) = self.registrar_of(aor) else {
            return Ok(());
        };
        let registrar = &self.registrars[index];
        if !registrar.has_refusals.load(Ordering::Relaxed) {
            return Ok(());
        }
        let refusal = registrar.lock().table.refusal(self.clock.now(), aor);
        let Some(refusal) = refusal else {
            return Ok(());
        };
        let counters = &registrar.counters;
        match refusal {
            UpstreamRefusal::Full => counters.refused_full.increment(),
            _ => counters.telephones_refused.increment(),
        }
        match refusal {
            UpstreamRefusal::Refused(_) => {
                Err(Refusal::Forbidden("Refused By The Registrar Behind"))
            }
            UpstreamRefusal::Unavailable | UpstreamRefusal::Full => {
                Err(Refusal::Overloaded(RETRY_AFTER))
            }
        }
    }

    /// The address of record that a registrar behind calls by the contact that it was told.
    pub(in crate::server) fn called(&self, flow: Flow, called: &SipUri<'_>) -> Option<String> {
        let mut registrars = self.registrars.iter();
        registrars.find_map(|it| register_request::called_by(flow, called, it.config.address))
    }

    /// The way that requests of an address of record take to the registrar that has it, if that is at
    /// `remote`.
    pub(in crate::server) fn service_route(
        &self,
        aor: &str,
        remote: SocketAddr,
    ) -> Option<Arc<str>> {
        let registrar = &self.registrars[self.registrar_of(aor)?];
        let is_its = registrar.config.address == remote;
        let state = is_its.then(|| registrar.lock())?;
        state.table.service_route(self.clock.now(), aor)
    }

    /// A response, if it answers one of our registrations.
    pub(in crate::server) fn answered(
        self: &Arc<Self>,
        response: &Message<'_>,
        status: u16,
        flow: Flow,
    ) -> bool {
        if !self.is_used() {
            return false;
        }
        let Some((index, number)) = register_request::names_of(response) else {
            return false;
        };
        let registrar = self.registrars.get(index);
        let registrar = registrar.filter(|it| it.config.address == flow.remote);
        let Some(registrar) = registrar.filter(|_| status >= 200) else {
            return true;
        };
        let Some((aor, ask)) = registrar.lock().table.pending(number) else {
            return true;
        };
        let credentials = self.credentials(registrar, &aor, response, status);
        let answer = UpstreamAnswer {
            is_challenge: credentials.is_some(),
            ..register_request::read_answer(response, status, &aor)
        };
        let upstream = Arc::downgrade(self);
        let task = Task::labelled(&"answer", move || {
            if let Some(upstream) = upstream.upgrade() {
                upstream.conclude(index, (&aor, number, ask), &answer, credentials);
            }
        });
        // What finds no room is sent again.
        let _ = registrar.serializer.execute(task);
        true
    }

    pub(in crate::server) fn stats(&self) -> UpstreamStats {
        let mut stats = UpstreamStats {
            registrar_count: self.registrars.len() as u64,
            ..UpstreamStats::default()
        };
        for registrar in &self.registrars {
            let counters = &registrar.counters;
            let state = registrar.lock();
            stats.away_count += u64::from(state.table.is_away());
            stats.told_count += state.table.told_count() as u64;
            stats.failing_count += state.table.failing_count() as u64;
            stats.pending_count += state.table.pending_count() as u64;
            stats.sent += counters.sent.get();
            stats.retransmitted += counters.retransmitted.get();
            stats.answered += counters.answered.get();
            stats.challenged += counters.challenged.get();
            stats.refused += counters.refused.get();
            stats.went_away += counters.went_away.get();
            stats.forgot += counters.forgot.get();
            stats.telephones_refused += counters.telephones_refused.get();
            stats.refused_full += counters.refused_full.get();
        }
        stats
    }

    /// What waits for the serializers of registrars.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        let mut listing = self.kind.listing();
        for registrar in &self.registrars {
            listing.add(registrar.serializer.stats(), || {
                registrar.config.name.clone()
            });
        }
        listing
    }

    pub(in crate::server) fn list(&self) -> Vec<RegistrarView> {
        let now = self.clock.now();
        let view = |registrar: &Registrar| {
            let RegistrarInner { table, .. } = &*registrar.lock();
            RegistrarView {
                name: registrar.config.name.clone(),
                address: registrar.config.location(),
                state: if table.is_away() { "away" } else { "up" },
                told_count: table.told_count() as u64,
                failing_count: table.failing_count() as u64,
                pending_count: table.pending_count() as u64,
                sent: registrar.counters.sent.get(),
                answered: registrar.counters.answered.get(),
                refused: registrar.counters.refused.get(),
                next_in_ns: table.next_deadline().map(|due| nanos(due - now)),
            }
        };
        self.registrars.iter().map(view).collect()
    }

    fn registrar_of(&self, aor: &str) -> Option<usize> {
        match self.is_used() {
            true => self.by_domain.of(domain_of(aor)),
            false => None,
        }
    }

    /// Looks at what is due, in a turn of the serializer; at most one such turn waits.
    fn poll_soon(self: &Arc<Self>, index: usize) {
        let registrar = &self.registrars[index];
        if registrar.is_poll_waiting.swap(true, Ordering::AcqRel) {
            return;
        }
        let upstream = Arc::downgrade(self);
        let task = Task::labelled(&"poll", move || {
            if let Some(upstream) = upstream.upgrade() {
                upstream.poll(index);
            }
        });
        // It is refused only when the server ends.
        let _ = registrar.serializer.execute_unbounded(task);
    }

    /// Does what is due, and sets the alarm for what comes next. Runs on the serializer.
    fn poll(self: &Arc<Self>, index: usize) {
        let registrar = &self.registrars[index];
        registrar.is_poll_waiting.store(false, Ordering::Release);
        let steps = {
            let mut state = registrar.lock();
            let (now, unix) = (self.clock.now(), self.clock.unix_time());
            let steps = state.table.poll(now, unix);
            registrar.note(&mut state);
            steps
        };
        self.follow(index, steps);
        self.set_alarm(index);
    }

    fn set_alarm(self: &Arc<Self>, index: usize) {
        let registrar = &self.registrars[index];
        let mut state = registrar.lock();
        state.alarm.fired(self.clock.now());
        let Some(due) = state.table.next_deadline() else {
            return;
        };
        let upstream = Arc::downgrade(self);
        let ring = move || {
            if let Some(upstream) = upstream.upgrade() {
                upstream.poll(index);
            }
        };
        let (timers, serializer) = (self.runtime.timers(), &registrar.serializer);
        // Without a timer the next change of a telephone does it.
        let _ = state.alarm.set(due, ALARM, timers, serializer, ring);
    }

    /// The registrar has answered. Runs on the serializer.
    fn conclude(
        self: &Arc<Self>,
        index: usize,
        (aor, number, ask): (&Arc<str>, u64, UpstreamAsk),
        answer: &UpstreamAnswer,
        credentials: Option<(HeaderName, String)>,
    ) {
        let registrar = &self.registrars[index];
        let counters = &registrar.counters;
        let mut steps = Vec::new();
        let again = {
            let mut state = registrar.lock();
            if state.table.pending(number).is_none() {
                return;
            }
            let (now, unix) = (self.clock.now(), self.clock.unix_time());
            let table = &mut state.table;
            let again = table.answered(now, unix, number, answer, &mut steps);
            state.requests.remove(&number);
            registrar.note(&mut state);
            again
        };
        counters.answered.increment();
        match (answer.status, again) {
            (_, Some(_)) => counters.challenged.increment(),
            (200..300, None) => {}
            (status, None) => {
                counters.refused.increment();
                let name = registrar.config.name.as_str();
                tracing::warn!(
                    registrar = name,
                    aor = &**aor,
                    status,
                    "a registrar behind refuses an address"
                );
            }
        }
        if let Some(number) = again {
            self.send(index, aor, (number, ask), credentials);
        }
        self.follow(index, steps);
        // Answers that came together are followed by one look.
        self.poll_soon(index);
    }

    fn follow(self: &Arc<Self>, index: usize, steps: Vec<UpstreamStep>) {
        let registrar = &self.registrars[index];
        let (name, counters) = (registrar.config.name.as_str(), &registrar.counters);
        for step in steps {
            match step {
                UpstreamStep::Send {
                    aor,
                    number,
                    ask,
                    is_again: true,
                    ..
                } => self.send_again(index, &aor, (number, ask)),
                UpstreamStep::Send {
                    aor,
                    number,
                    ask,
                    first,
                    is_again: false,
                } => {
                    counters.sent.increment();
                    match first {
                        Some(row) => self.store_and_send(index, &aor, (number, ask), row),
                        None => self.send(index, &aor, (number, ask), None),
                    }
                }
                UpstreamStep::Store { aor, row } => {
                    let change = registrar.change(&aor, row);
                    // Without it the next start asks for what it knew.
                    let store = self.persistence.store();
                    let _ = store.commit(vec![change], Box::new(|_| ()));
                }
                UpstreamStep::Away => {
                    counters.went_away.increment();
                    tracing::warn!(registrar = name, "a registrar behind does not answer");
                }
                UpstreamStep::Back => {
                    tracing::info!(registrar = name, "a registrar behind answers again");
                }
                UpstreamStep::Forgotten { is_all } => {
                    counters.forgot.increment();
                    let then = match is_all {
                        true => "everything is told again",
                        false => "another address is asked about",
                    };
                    tracing::warn!(
                        registrar = name,
                        then,
                        "a registrar behind has lost a contact that it had accepted"
                    );
                }
            }
        }
    }

    /// What the registrar may have is durable before it can have it.
    fn store_and_send(
        self: &Arc<Self>,
        index: usize,
        aor: &Arc<str>,
        (number, ask): (u64, UpstreamAsk),
        row: UpstreamRow,
    ) {
        let registrar = &self.registrars[index];
        let waiting = WaitingRequest {
            message: None,
            sent_on: None,
            first: Some(row.clone()),
            is_committing: true,
        };
        registrar.lock().requests.insert(number, waiting);
        let (upstream, told) = (Arc::downgrade(self), aor.clone());
        let done = move |outcome: Result<(), _>| {
            let Some(upstream) = upstream.upgrade() else {
                return;
            };
            let of = Arc::downgrade(&upstream);
            let task = Task::labelled(&"stored", move || {
                if let Some(upstream) = of.upgrade() {
                    upstream.stored(index, &told, (number, ask), outcome.is_ok());
                }
            });
            let serializer = &upstream.registrars[index].serializer;
            // It is refused only when the server ends.
            let _ = serializer.execute_unbounded(task);
        };
        let change = registrar.change(aor, Some(row));
        let store = self.persistence.store();
        if store.commit(vec![change], Box::new(done)).is_err() {
            registrar.committed(number);
        }
    }

    fn stored(&self, index: usize, aor: &str, request: (u64, UpstreamAsk), is_stored: bool) {
        self.registrars[index].committed(request.0);
        if is_stored {
            self.send(index, aor, request, None);
        }
    }

    /// The credentials that answer a challenge: those of the registrar, or the account's own
    /// password, or its hash if the realm is the same. What a telephone sends here is good for this server only.
    fn credentials(
        &self,
        registrar: &Registrar,
        aor: &str,
        response: &Message<'_>,
        status: u16,
    ) -> Option<(HeaderName, String)> {
        if status != 401 && status != 407 {
            return None;
        }
        let account = self
            .accounts
            .directory
            .secret(self.accounts.account_of(aor));
        let (user, secret) = match &registrar.config.credentials {
            Some((user, password)) => (user.as_str(), Secret::plaintext(password.as_str())),
            None => (user_of(aor), account?.into_owned()),
        };
        let realm = self.accounts.tenants.realm_of(aor);
        let nonce = format!("{:x}", self.clock.unix_time().as_nanos());
        let who = (user, &secret, realm.as_str());
        register_request::credentials(response, status, who, (domain_of(aor), &nonce))
    }
}

impl Registrar {
    /// Taken under the lock of a device; no lock is taken under it.
    fn lock(&self) -> MutexGuard<'_, RegistrarInner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table has changed.
    fn note(&self, state: &mut RegistrarInner) {
        let RegistrarInner {
            table, requests, ..
        } = state;
        if requests.len() > table.pending_count() {
            requests.retain(|number, _| table.pending(*number).is_some());
        }
        let has_refusals = table.has_refusals();
        self.has_refusals.store(has_refusals, Ordering::Relaxed);
    }

    fn committed(&self, number: u64) {
        if let Some(waiting) = self.lock().requests.get_mut(&number) {
            waiting.is_committing = false;
        }
    }

    fn change(&self, aor: &str, row: Option<UpstreamRow>) -> Change {
        let kind = SettingKind::Registration;
        let name = format!("{}|{aor}", self.config.name);
        match row {
            Some(row) => Change::PutSetting {
                kind,
                name,
                value: write_row(&row),
            },
            None => Change::RemoveSetting { kind, name },
        }
    }
}

/// Requests to one registrar that wait for their answer.
const PENDING_MAX: usize = 256;
const RETRY_AFTER: Duration = Duration::from_secs(60);
const ALARM: ExpiryOptions = ExpiryOptions {
    label: "registrar",
    slack: Duration::from_millis(10),
};
const OPTIONS: KindOptions = KindOptions {
    name: "registrar",
    low: 256,
    high: 4096,
    unlabelled: "its timer",
};
