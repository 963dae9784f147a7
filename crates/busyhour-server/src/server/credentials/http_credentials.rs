//! The part of the server that asks a service for credentials, and has the requests that wait.

use super::{
    CredentialsConfig, CredentialsStats,
    credential_cache::{CacheLook, CacheTimes, CredentialCache},
    credential_request::{self, CredentialVerdict},
    service_breaker::{ServiceBreaker, ServiceOutcome},
    source_queues::SourceQueues,
};
use crate::server::{
    HttpAnswer, HttpClient, HttpFailure,
    load::shares::{Cells, Holder, Shares},
    server_clock::ServerClock,
    stats::counters::Counter,
};
use busyhour::{buffer::Buffer, clock::Instant, runtime::Runtime};
use busyhour_sip::{Flow, auth::Secret};
use busyhour_store::check_username;
use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// Asks for the credentials of users who have no account here.
pub(in crate::server) struct HttpCredentials {
    config: CredentialsConfig,
    http: Arc<dyn HttpClient>,
    runtime: Runtime,
    clock: Arc<ServerClock>,
    /// Requests that may wait.
    room: Arc<Shares>,
    hasher: FixedState,
    shards: Box<[Mutex<CredentialShard>]>,
    /// Locked under the lock of a shard or none; no lock is taken under it.
    service: Mutex<ServiceState>,
    resume: OnceLock<Resume>,
    account_gone: OnceLock<AccountGone>,
    counters: CredentialCounters,
}

/// Handles a request again that has waited; called under no lock.
pub(in crate::server) type Resume = Box<dyn Fn(Flow, &Buffer) + Send + Sync>;

/// Is told of a name that the service has no account of, and whether it had one before; called under no lock.
pub(in crate::server) type AccountGone = Box<dyn Fn(&str, bool) + Send + Sync>;

/// Whose credentials are asked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct CredentialOwner<'a> {
    /// As the directory names accounts: with the domain, if that has accounts of its own.
    pub(in crate::server) account: &'a str,
    pub(in crate::server) user: &'a str,
    pub(in crate::server) realm: &'a str,
    pub(in crate::server) domain: Option<&'a str>,
}

/// What is to become of a request.
#[derive(Debug)]
pub(in crate::server) enum Credentials {
    /// It is checked against this.
    Found(Secret),
    /// There is no such account.
    Missing,
    /// It goes on later; there is nothing to do.
    Awaited,
    /// It is to be tried again after this time.
    Unavailable(Duration),
}

struct CredentialShard {
    cache: CredentialCache,
    /// By the account that was asked for.
    waiting: HashMap<Box<str>, WaitingRequests, FixedState>,
}

/// The requests that wait for an answer about one account.
struct WaitingRequests {
    requests: Vec<HeldRequest>,
    /// The account was forgotten since the service was asked, whose answer may be older than that: it is asked again.
    is_outdated: bool,
}

struct HeldRequest {
    flow: Flow,
    datagram: Buffer,
    _place: HeldPlace,
}

struct HeldPlace(Arc<Shares>, Holder);

struct ServiceState {
    breaker: ServiceBreaker,
    questions: SourceQueues<CredentialQuery>,
    logged_at: Option<Instant>,
}

#[derive(Default)]
struct CredentialCounters {
    asked: Counter,
    found: Counter,
    missing: Counter,
    revoked: Counter,
    unusable: Counter,
    unanswered: Counter,
    cache_hits: Counter,
    stale_hits: Counter,
    waited: Counter,
    absorbed: Counter,
    refused_full: Counter,
    refused_failed: Counter,
}

/// What is asked, and for which source.
#[derive(Clone)]
struct CredentialQuery {
    account: Box<str>,
    user: String,
    realm: String,
    domain: Option<String>,
    source: Cells,
}

impl HttpCredentials {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        config: CredentialsConfig,
        http: Arc<dyn HttpClient>,
        (room, under_way_max, seed): (Shares, usize, u64),
        clock: Arc<ServerClock>,
    ) -> Self {
        let hasher = FixedState::with_seed(seed);
        let times = CacheTimes {
            found: config.cache,
            missing: config.missing,
            stale: config.stale,
        };
        let shard = || {
            Mutex::new(CredentialShard {
                cache: CredentialCache::new(
                    (FOUND_MAX / SHARDS, MISSING_MAX / SHARDS),
                    &hasher,
                    times,
                ),
                waiting: HashMap::with_hasher(hasher.clone()),
            })
        };
        Self {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            config,
            http,
            runtime: runtime.clone(),
            clock,
            room: Arc::new(room),
            hasher: hasher.clone(),
            service: Mutex::new(ServiceState {
                breaker: ServiceBreaker::new(),
                questions: SourceQueues::new(under_way_max, hasher.clone()),
                logged_at: None,
            }),
            resume: OnceLock::new(),
            account_gone: OnceLock::new(),
            counters: CredentialCounters::default(),
        }
    }

    /// Sets, once, what handles a request again.
    pub(in crate::server) fn resume_with(&self, resume: Resume) {
        // It is set once, at the start.
        let _ = self.resume.set(resume);
    }

    /// Sets, once, what hears of names that the service does not know.
    pub(in crate::server) fn tell_gone(&self, account_gone: AccountGone) {
        // It is set once, at the start.
        let _ = self.account_gone.set(account_gone);
    }

    /// Forgets what the service has said of an account, also what it says to a question that is under way. Whether it was
    /// an account.
    pub(in crate::server) fn forget(&self, account: &str) -> bool {
        let mut shard = self.shard(account);
        if let Some(waiting) = shard.waiting.get_mut(account) {
            waiting.is_outdated = true;
        }
        shard.cache.forget(account)
    }

    /// What an account had has ended.
    pub(in crate::server) fn count_revoked(&self) {
        self.counters.revoked.increment();
    }

    /// The credentials of an owner, if they are known; otherwise the service is asked, and the
    /// request waits.
    pub(in crate::server) fn find(
        self: &Arc<Self>,
        owner: CredentialOwner<'_>,
        (flow, datagram): (Flow, &Buffer),
        holder: Holder,
    ) -> Credentials {
        if check_username(owner.user).is_err() {
            return Credentials::Missing;
        }
        let now = self.clock.now();
        let mut shard = self.shard(owner.account);
        match shard.cache.look(owner.account, now) {
            CacheLook::Found(secret) => {
                self.counters.cache_hits.increment();
                return Credentials::Found(secret);
            }
            CacheLook::Missing => {
                self.counters.cache_hits.increment();
                return Credentials::Missing;
            }
            CacheLook::Failed(until) => {
                self.counters.refused_failed.increment();
                return Credentials::Unavailable(until - now);
            }
            CacheLook::Unknown => {}
        }
        if let Some(waiting) = shard.waiting.get_mut(owner.account) {
            return self.join(&mut waiting.requests, (flow, datagram), holder);
        }
        let Some(place) = self.place(holder) else {
            let refused = &self.counters.refused_full;
            return self.without_service(&mut shard, owner, refused, FAILED_FOR);
        };
        if let Err(until) = self.service().breaker.may_ask(holder.source(), now) {
            let refused = &self.counters.refused_failed;
            return self.without_service(&mut shard, owner, refused, until - now);
        }
        let waiting = WaitingRequests {
            requests: vec![HeldRequest::new(flow, datagram, place)],
            is_outdated: false,
        };
        shard.waiting.insert(owner.account.into(), waiting);
        drop(shard);
        self.counters.waited.increment();
        self.enter(CredentialQuery::new(owner, holder.source()));
        Credentials::Awaited
    }

    /// Asks a question when it is the turn of its source.
    fn enter(self: &Arc<Self>, question: CredentialQuery) {
        let question = self.service().questions.enter(question.source, question);
        if let Some(question) = question {
            self.ask(question);
        }
    }

    /// Puts a request to those that wait for the same account.
    fn join(
        &self,
        waiting: &mut Vec<HeldRequest>,
        (flow, datagram): (Flow, &Buffer),
        holder: Holder,
    ) -> Credentials {
        let is_repetition =
            |one: &HeldRequest| one.flow.remote == flow.remote && one.datagram[..] == datagram[..];
        if waiting.iter().any(is_repetition) {
            self.counters.absorbed.increment();
            return Credentials::Awaited;
        }
        let has_room = waiting.len() < WAITING_PER_ACCOUNT;
        let Some(place) = has_room.then(|| self.place(holder)).flatten() else {
            self.counters.refused_full.increment();
            return Credentials::Unavailable(FAILED_FOR);
        };
        self.counters.waited.increment();
        waiting.push(HeldRequest::new(flow, datagram, place));
        Credentials::Awaited
    }

    fn place(&self, holder: Holder) -> Option<HeldPlace> {
        let taken = self.room.take(holder, 1);
        taken.ok().map(|()| HeldPlace(self.room.clone(), holder))
    }

    /// The service is not asked now.
    fn without_service(
        &self,
        shard: &mut CredentialShard,
        owner: CredentialOwner<'_>,
        refused: &Counter,
        left: Duration,
    ) -> Credentials {
        match shard.cache.use_stale(owner.account, self.clock.now()) {
            Some(secret) => {
                self.counters.stale_hits.increment();
                Credentials::Found(secret)
            }
            None => {
                refused.increment();
                Credentials::Unavailable(left)
            }
        }
    }

    fn ask(self: &Arc<Self>, question: CredentialQuery) {
        self.counters.asked.increment();
        let question = Arc::new(question);
        let (part, asked) = (self.clone(), question.clone());
        let listener = Box::new(move |outcome| part.push_end(asked, outcome));
        let CredentialQuery {
            user,
            realm,
            domain,
            ..
        } = &*question;
        let sent = match self.config.request(user, realm, domain.as_deref()) {
            Some(request) => self.http.send(request, listener),
            None => Err(HttpFailure::Unavailable),
        };
        if let Err(failure) = sent {
            self.push_end(question, Err(failure));
        }
    }

    /// Ends the wait in a task of the pool, which takes none only when the server ends.
    fn push_end(
        self: &Arc<Self>,
        question: Arc<CredentialQuery>,
        outcome: Result<HttpAnswer, HttpFailure>,
    ) {
        let part = self.clone();
        let end = async move { part.end(&question, &outcome) };
        drop(self.runtime.pool().spawn(end));
    }

    fn end(
        self: &Arc<Self>,
        question: &CredentialQuery,
        outcome: &Result<HttpAnswer, HttpFailure>,
    ) {
        let now = self.clock.now();
        let next = self.service().questions.leave(question.source);
        if let Some(next) = next {
            self.ask(next);
        }
        let verdict = credential_request::verdict(outcome, &question.user, &question.realm);
        self.note(&verdict, question.source, now);
        let account = &question.account;
        let mut gone = None;
        let waiting = {
            let mut shard = self.shard(account);
            let CredentialShard { cache, waiting } = &mut *shard;
            let waits = waiting.get_mut(account);
            if waits.is_some_and(|it| std::mem::take(&mut it.is_outdated)) {
                drop(shard);
                return self.enter(CredentialQuery::clone(question));
            }
            match verdict {
                CredentialVerdict::Found(secret) => cache.keep_found(account, secret, now),
                CredentialVerdict::Missing => gone = Some(cache.keep_missing(account, now)),
                CredentialVerdict::Unusable(_)
                | CredentialVerdict::Unanswered(_)
                | CredentialVerdict::Late => match cache.use_stale(account, now) {
                    Some(_) => self.counters.stale_hits.increment(),
                    None => cache.keep_failed(account, now + FAILED_FOR),
                },
            }
            waiting.remove(account)
        };
        if let (Some(was_found), Some(account_gone)) = (gone, self.account_gone.get()) {
            account_gone(account, was_found);
        }
        let requests = waiting.map(|it| it.requests);
        for HeldRequest { flow, datagram, .. } in requests.into_iter().flatten() {
            if let Some(resume) = self.resume.get() {
                resume(flow, &datagram);
            }
        }
    }

    /// Counts what came of asking, tells the breaker, and logs what is wrong.
    fn note(&self, verdict: &CredentialVerdict, source: Cells, now: Instant) {
        let counters = &self.counters;
        let (counter, outcome, problem) = match verdict {
            CredentialVerdict::Found(_) => (&counters.found, ServiceOutcome::Answered, None),
            CredentialVerdict::Missing => (&counters.missing, ServiceOutcome::Answered, None),
            CredentialVerdict::Unusable(reason) => (
                &counters.unusable,
                ServiceOutcome::Answered,
                Some(reason.as_str()),
            ),
            CredentialVerdict::Unanswered(reason) => (
                &counters.unanswered,
                ServiceOutcome::Failed,
                Some(reason.as_str()),
            ),
            CredentialVerdict::Late => (&counters.unanswered, ServiceOutcome::Late, Some(TOO_LATE)),
        };
        counter.increment();
        let (was_open, is_open, is_told) = {
            let mut service = self.service();
            let was_open = service.breaker.is_open();
            service.breaker.report(source, outcome, now);
            let is_due = service.logged_at.is_none_or(|at| now >= at + LOG_PERIOD);
            let is_told = problem.is_some() && is_due;
            if is_told {
                service.logged_at = Some(now);
            }
            (was_open, service.breaker.is_open(), is_told)
        };
        let url = self.config.url.to_string();
        match (was_open, is_open, problem) {
            (false, true, Some(reason)) => tracing::warn!(
                url,
                reason,
                "the service for credentials does not answer; accounts in the cache are good meanwhile"
            ),
            (true, false, _) => tracing::info!(url, "the service for credentials answers again"),
            (_, _, Some(reason)) if is_told => tracing::warn!(
                url,
                reason,
                "the service for credentials has not answered a request as it should"
            ),
            _ => {}
        }
    }

    pub(in crate::server) fn stats(&self) -> CredentialsStats {
        let counters = &self.counters;
        let mut stats = CredentialsStats {
            asked: counters.asked.get(),
            found: counters.found.get(),
            missing: counters.missing.get(),
            revoked: counters.revoked.get(),
            unusable: counters.unusable.get(),
            unanswered: counters.unanswered.get(),
            cache_hits: counters.cache_hits.get(),
            stale_hits: counters.stale_hits.get(),
            waited: counters.waited.get(),
            absorbed: counters.absorbed.get(),
            refused_full: counters.refused_full.get(),
            refused_failed: counters.refused_failed.get(),
            breaker_open_count: self.service().breaker.is_open().into(),
            ..CredentialsStats::default()
        };
        for shard in &self.shards {
            let shard = lock(shard);
            stats.waiting_count += shard
                .waiting
                .values()
                .map(|it| it.requests.len() as u64)
                .sum::<u64>();
            stats.found_count += shard.cache.found_count() as u64;
            stats.missing_count += shard.cache.missing_count() as u64;
        }
        stats
    }

    fn shard(&self, account: &str) -> MutexGuard<'_, CredentialShard> {
        // The hash tables inside use the highest and the lowest bits; the shard uses others.
        let hash = self.hasher.hash_one(account);
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }

    fn service(&self) -> MutexGuard<'_, ServiceState> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialQuery {
    fn new(owner: CredentialOwner<'_>, source: Cells) -> Self {
        Self {
            account: owner.account.into(),
            user: owner.user.to_owned(),
            realm: owner.realm.to_owned(),
            domain: owner.domain.map(str::to_owned),
            source,
        }
    }
}

impl HeldRequest {
    fn new(flow: Flow, datagram: &Buffer, place: HeldPlace) -> Self {
        Self {
            flow,
            datagram: datagram.clone(),
            _place: place,
        }
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        self.0.give_back(self.1, 1);
    }
}

fn lock(shard: &Mutex<CredentialShard>) -> MutexGuard<'_, CredentialShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHARDS: usize = 16;
/// Accounts in the cache.
const FOUND_MAX: usize = 131_072;
/// Names without an account in the cache.
const MISSING_MAX: usize = 16_384;
/// Requests that may wait.
pub(in crate::server) const WAITING_MAX: usize = 256;
/// Of them for one account.
const WAITING_PER_ACCOUNT: usize = 8;
/// After a failure an account is not asked for again in this time.
const FAILED_FOR: Duration = Duration::from_secs(1);
/// Questions of one source under way: half of the connections that the HTTP client has by default.
pub(in crate::server) const UNDER_WAY_PER_SOURCE: usize = 4;
const TOO_LATE: &str = "no answer in time";
/// Between two lines in the log about single requests.
const LOG_PERIOD: Duration = Duration::from_secs(60);
