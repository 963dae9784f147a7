//! The part of the server that has telephones woken, and knows which calls wait for them.

use super::{
    access_token,
    push_config::{PushConfig, PushService},
    push_request::{PushVerdict, WakeReason, token_in, token_request, wake_request},
    push_target::{PushTarget, provider_of},
    service_token::ServiceToken,
    wake_budgets::{MayWake, WakeBudgets, WokenFor},
};
use crate::server::{
    HttpAnswer, HttpClient, HttpFailure, HttpRequest,
    load::shares::{Holder, Shares},
    server_clock::ServerClock,
    stats::counters::Counter,
};
use busyhour::{
    bus::Name,
    clock::Instant,
    runtime::Runtime,
    timer::{TimerHandle, Timers},
};
use busyhour_proxy::{Late, TransactionId};
use busyhour_registrar::{Binding, BindingId, Contact};
use serde::Serialize;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::oneshot;

/// The services that wake telephones, and what waits for them.
pub(in crate::server) struct Pushes {
    services: Box<[WakingService]>,
    runtime: Runtime,
    timers: Timers,
    clock: Arc<ServerClock>,
    http: Arc<dyn HttpClient>,
    /// Calls that may wait.
    room: Arc<Shares>,
    budgets: WakeBudgets,
    state: Mutex<PushesInner>,
    neighbours: OnceLock<PushNeighbours>,
    counters: PushCounters,
    last_id: AtomicU64,
}

/// The parts of the server that are told; called under no lock.
pub(in crate::server) struct PushNeighbours {
    /// A telephone that a call waits for has registered this contact.
    pub(in crate::server) woken: TellWoken,
    /// A telephone that a call waits for will not come.
    pub(in crate::server) missed: TellMissed,
    /// Removes a contact.
    pub(in crate::server) remove: RemoveContact,
    /// The contacts of an address of record.
    pub(in crate::server) bindings: FindBindings,
}

type TellWoken = Box<dyn Fn(&WaitingCall, &Name, &Contact) + Send + Sync>;
type TellMissed = Box<dyn Fn(&WaitingCall, &'static str) + Send + Sync>;
type RemoveContact = Box<dyn Fn(&str, &str) + Send + Sync>;
type FindBindings = Box<dyn Fn(&str) -> Vec<Binding> + Send + Sync>;

/// A call that waits, by its shard and its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct WaitingCall {
    pub(in crate::server) shard: usize,
    pub(in crate::server) transaction: TransactionId,
}

/// A telephone that is asleep.
#[derive(Debug, Clone)]
pub(in crate::server) struct Sleeper {
    target: PushTarget,
    service: usize,
}

/// A telephone that will be woken for a call.
#[derive(Debug)]
pub(in crate::server) struct Waking {
    sleeper: Sleeper,
    /// For whom; `None` if it was woken just now for another call.
    woken_for: Option<Holder>,
    place: WaitingPlace,
}

struct WaitingPlace(Arc<Shares>, Holder);

struct WakingService {
    config: PushConfig,
    token: ServiceToken,
}

#[derive(Default)]
struct PushesInner {
    waiting: HashMap<Name, Vec<Waiter>>,
    refreshes: HashMap<BindingId, (Instant, TimerHandle)>,
}

struct Waiter {
    call: WaitingCall,
    target: PushTarget,
    _place: WaitingPlace,
}

#[derive(Default)]
struct PushCounters {
    sent: Counter,
    accepted: Counter,
    failed: Counter,
    retried: Counter,
    unregistered: Counter,
    refreshes: Counter,
    limited: Counter,
    refused_full: Counter,
    woken: Counter,
    not_woken: Counter,
    unsupported: Counter,
}

/// Telephones that were woken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PushStats {
    /// Requests to services.
    pub sent: u64,
    /// Those that the service has taken.
    pub accepted: u64,
    /// Telephones that no service could be had to wake.
    pub failed: u64,
    /// Requests that were sent again.
    pub retried: u64,
    /// Contacts removed because their service does not know them any more.
    pub unregistered: u64,
    /// Telephones woken so that they refresh their registration.
    pub refreshes: u64,
    /// Telephones not woken because they were too often.
    pub limited: u64,
    /// Calls that found no place to wait.
    pub refused_full: u64,
    /// Telephones that registered while a call waited for them.
    pub woken: u64,
    /// Telephones that did not.
    pub not_woken: u64,
    /// Registrations refused because their service is not known here (555).
    pub unsupported: u64,
    /// Telephones that calls wait for now.
    pub waiting_count: u64,
    /// Contacts whose telephones will be woken before their registrations end.
    pub refresh_count: u64,
}

impl Pushes {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        configs: &[PushConfig],
        http: Arc<dyn HttpClient>,
        room: Shares,
        clock: Arc<ServerClock>,
    ) -> Self {
        let service = |config: &PushConfig| WakingService {
            config: config.clone(),
            token: ServiceToken::default(),
        };
        Self {
            services: configs.iter().map(service).collect(),
            runtime: runtime.clone(),
            timers: runtime.timers().clone(),
            clock,
            http,
            room: Arc::new(room),
            budgets: WakeBudgets::new(),
            state: Mutex::default(),
            neighbours: OnceLock::new(),
            counters: PushCounters::default(),
            last_id: AtomicU64::new(0),
        }
    }

    /// Who is told. It is set once.
    pub(in crate::server) fn tell(&self, neighbours: PushNeighbours) {
        let _ = self.neighbours.set(neighbours);
    }

    pub(in crate::server) fn is_used(&self) -> bool {
        !self.services.is_empty()
    }

    /// What a REGISTER with these contacts is told of their services (RFC 8599 §5.3): the value of
    /// Feature-Caps, if it names one.
    ///
    /// # Errors
    ///
    /// When it names one that is not known here.
    pub(in crate::server) fn capabilities<'c>(
        &self,
        contacts: impl Iterator<Item = &'c str>,
    ) -> Result<Option<String>, UnknownService> {
        let mut caps = None;
        for contact in contacts.filter(|_| self.is_used()) {
            let Some(provider) = provider_of(contact) else {
                continue;
            };
            if self.service(&provider).is_none() {
                self.counters.unsupported.increment();
                return Err(UnknownService);
            }
            let refresh = REFRESHED_BEFORE.as_secs();
            caps = Some(format!(
                "*;+sip.pns=\"{provider}\";+sip.pnsreg=\"{refresh}\""
            ));
        }
        Ok(caps)
    }

    /// Parts contacts in those that a request reaches, and those that have to be woken.
    pub(in crate::server) fn sort(&self, bindings: Vec<Binding>) -> (Vec<Binding>, Vec<Sleeper>) {
        if !self.is_used() {
            return (bindings, Vec::new());
        }
        let now = self.clock.now();
        let (mut awake, mut asleep) = (Vec::new(), Vec::<Sleeper>::new());
        for binding in bindings {
            let target = PushTarget::of(&binding.contact);
            let known = target.and_then(|target| {
                let service = self.service(&target.provider)?;
                Some(Sleeper { target, service })
            });
            match known.filter(|known| !self.is_awake(&binding, known.service, now)) {
                None => awake.push(binding),
                Some(sleeper) if asleep.iter().all(|it| it.target != sleeper.target) => {
                    asleep.push(sleeper);
                }
                Some(_) => {}
            }
        }
        // The same telephone may have registered another contact, over which it is awake.
        let is_same = |sleeper: &Sleeper, one: &Binding| {
            PushTarget::of(&one.contact).is_some_and(|it| it == sleeper.target)
        };
        asleep.retain(|sleeper| !awake.iter().any(|one| is_same(sleeper, one)));
        (awake, asleep)
    }

    /// Those of an address that may be woken for a call of this holder, and how long it waits for
    /// them; or why none may. None is woken before [`begin`](Self::begin).
    pub(in crate::server) fn admit(
        &self,
        aor: &Name,
        asleep: Vec<Sleeper>,
        holder: Holder,
    ) -> Result<(Vec<Waking>, Option<Late>), &'static str> {
        let now = self.clock.now();
        let mut refused = None;
        let mut admitted = Vec::new();
        for sleeper in asleep {
            if self.room.take(holder, 1).is_err() {
                self.counters.refused_full.increment();
                refused = Some("Too Many Calls Wait");
                continue;
            }
            let place = WaitingPlace(self.room.clone(), holder);
            let hourly_max = self.services[sleeper.service].config.hourly_max;
            let caller = WokenFor::Caller(holder);
            let may = (self.budgets).look(aor, &sleeper.target, caller, (hourly_max, now));
            if may == MayWake::TooOften {
                self.counters.limited.increment();
                refused = Some("Woken Too Often");
                continue;
            }
            admitted.push(Waking {
                sleeper,
                woken_for: (may == MayWake::Yes).then_some(holder),
                place,
            });
        }
        let waits = admitted.iter();
        let waits = waits.map(|it| self.services[it.sleeper.service].config.wait);
        let late = waits.max().map(|within| Late {
            count: admitted.len() as u32,
            within,
            reason: NOT_WOKEN,
        });
        match (late, refused) {
            (None, Some(reason)) => Err(reason),
            (late, _) => Ok((admitted, late)),
        }
    }

    /// A call waits for these telephones from now on.
    pub(in crate::server) fn begin(
        self: &Arc<Self>,
        aor: &Name,
        (kind, call_id): (&'static str, &str),
        call: WaitingCall,
        wakings: Vec<Waking>,
    ) {
        let mut longest = Duration::ZERO;
        for Waking {
            sleeper,
            woken_for,
            place,
        } in wakings
        {
            longest = longest.max(self.services[sleeper.service].config.wait);
            let waiter = Waiter {
                call,
                target: sleeper.target.clone(),
                _place: place,
            };
            self.lock()
                .waiting
                .entry(aor.clone())
                .or_default()
                .push(waiter);
            let reason = WakeReason {
                kind,
                aor: aor.as_str().to_owned(),
                call_id: call_id.to_owned(),
            };
            if let Some(holder) = woken_for {
                let caller = WokenFor::Caller(holder);
                (self.budgets).spend(aor, &sleeper.target, caller, self.clock.now());
                self.spawn_wake(sleeper, reason);
            }
        }
        let (pushes, aor) = (Arc::downgrade(self), aor.clone());
        let timer = self.timers.timer().label("push").after(longest);
        // If the runtime takes no timers, the places stay taken until the telephones register.
        let _ = timer.on(self.runtime.pool()).run(move || {
            if let Some(pushes) = pushes.upgrade() {
                let missed = pushes.lock().take(&aor, |waiter| waiter.call == call);
                pushes.counters.not_woken.add(missed.len() as u64);
            }
        });
    }

    /// The contacts of an address of record have changed; before, it had those of these ids. Called
    /// under the lock of its device.
    pub(in crate::server) fn registered(
        self: &Arc<Self>,
        aor: &str,
        before: impl Iterator<Item = BindingId>,
        bindings: &[Binding],
    ) {
        let sleeps = |one: &Binding| PushTarget::of(&one.contact).is_some();
        let stays = |id: &BindingId| bindings.iter().any(|one| one.id == *id && sleeps(one));
        self.forget_refreshes(before.filter(|id| !stays(id)));
        let mut news = Vec::new();
        for binding in bindings {
            let Some(target) = PushTarget::of(&binding.contact) else {
                continue;
            };
            self.plan_refresh(aor, binding, &target);
            news.push((target, binding));
        }
        if news.is_empty() || self.lock().waiting.is_empty() {
            return;
        }
        let (name, now) = (Name::new(aor), self.clock.now());
        for (target, binding) in news {
            let service = self.service(&target.provider);
            if service.is_some_and(|service| !self.is_awake(binding, service, now)) {
                continue;
            }
            let woken = self.lock().take(&name, |waiter| waiter.target == target);
            if woken.is_empty() {
                continue;
            }
            self.counters.woken.increment();
            let (pushes, name) = (self.clone(), name.clone());
            let contact = binding.contact.clone();
            drop(self.runtime.pool().spawn(async move {
                if let Some(neighbours) = pushes.neighbours.get() {
                    for waiter in &woken {
                        (neighbours.woken)(&waiter.call, &name, &contact);
                    }
                }
            }));
        }
    }

    /// A telephone that sleeps is woken before its registration ends.
    fn plan_refresh(self: &Arc<Self>, aor: &str, binding: &Binding, target: &PushTarget) {
        let Some(service) = self.service(&target.provider) else {
            return;
        };
        let (id, expires_at, now) = (binding.id, binding.expires_at, self.clock.now());
        let mut state = self.lock();
        match state.refreshes.get(&id) {
            Some((planned, _)) if *planned == expires_at => return,
            Some((_, timer)) => {
                // One that runs already sees that the binding has changed.
                let _ = self.timers.cancel(timer);
            }
            None => {}
        }
        let life = expires_at - now;
        let before = REFRESHED_BEFORE.min(life / 2);
        let sleeper = Sleeper {
            target: target.clone(),
            service,
        };
        let (pushes, aor) = (Arc::downgrade(self), aor.to_owned());
        let timer = self.timers.timer().label("push").after(life - before);
        let timer = timer.on(self.runtime.pool()).run(move || {
            if let Some(pushes) = pushes.upgrade() {
                pushes.refresh(&aor, id, expires_at, sleeper);
            }
        });
        match timer {
            Ok(timer) => drop(state.refreshes.insert(id, (expires_at, timer))),
            Err(_) => drop(state.refreshes.remove(&id)),
        }
    }

    /// These contacts are gone, so nobody has to be woken for them.
    fn forget_refreshes(&self, gone: impl Iterator<Item = BindingId>) {
        for id in gone {
            let planned = self.lock().refreshes.remove(&id);
            if let Some((_, timer)) = planned {
                // One that runs already sees that the binding is gone.
                let _ = self.timers.cancel(&timer);
            }
        }
    }

    fn refresh(self: &Arc<Self>, aor: &str, id: BindingId, expires_at: Instant, sleeper: Sleeper) {
        self.lock().refreshes.remove(&id);
        let bindings = self.neighbours.get().map(|it| (it.bindings)(aor));
        let is_same = |it: &Binding| it.id == id && it.expires_at == expires_at;
        if !bindings.iter().flatten().any(is_same) {
            return;
        }
        let hourly_max = self.services[sleeper.service].config.hourly_max;
        let (name, now) = (Name::new(aor), self.clock.now());
        let target = &sleeper.target;
        match (self.budgets).look(&name, target, WokenFor::Refresh, (hourly_max, now)) {
            MayWake::Yes => {
                (self.budgets).spend(&name, target, WokenFor::Refresh, now);
                self.counters.refreshes.increment();
                let reason = WakeReason {
                    kind: "refresh",
                    aor: aor.to_owned(),
                    call_id: String::new(),
                };
                self.spawn_wake(sleeper, reason);
            }
            MayWake::NotNeeded => {}
            MayWake::TooOften => self.counters.limited.increment(),
        }
    }

    fn spawn_wake(self: &Arc<Self>, sleeper: Sleeper, reason: WakeReason) {
        let pushes = self.clone();
        let wake = async move { pushes.wake(sleeper, reason).await };
        drop(self.runtime.pool().spawn(wake));
    }

    async fn wake(self: Arc<Self>, sleeper: Sleeper, reason: WakeReason) {
        let mut delay = RETRY_DELAY;
        for attempt in 1..=ATTEMPTS_MAX {
            let verdict = self.ask(&sleeper, &reason).await;
            let said = match verdict {
                PushVerdict::Accepted => return self.counters.accepted.increment(),
                PushVerdict::Unregistered => return self.unregister(&sleeper.target, &reason.aor),
                PushVerdict::NewToken => "no valid token".to_owned(),
                PushVerdict::Again(said) => said,
                PushVerdict::Refused(said) => {
                    return self.fail(&sleeper.target, &reason.aor, &said);
                }
            };
            if attempt == ATTEMPTS_MAX {
                return self.fail(&sleeper.target, &reason.aor, &said);
            }
            self.counters.retried.increment();
            self.timers.sleep(delay).await;
            delay *= 2;
        }
    }

    async fn ask(&self, sleeper: &Sleeper, reason: &WakeReason) -> PushVerdict {
        let service = &self.services[sleeper.service];
        let token = match self.token(service).await {
            Ok(token) => token,
            Err(said) => return PushVerdict::Again(said),
        };
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("push-{:x}-{id}", self.clock.unix_time().as_nanos());
        let at = (self.unix_seconds(), token.as_str());
        let request = wake_request(&service.config, &sleeper.target, reason, &id, at);
        let Some(request) = request else {
            return PushVerdict::Refused("it cannot be written".to_owned());
        };
        self.counters.sent.increment();
        let outcome = self.post(request).await;
        let verdict = PushVerdict::of(&service.config.service, &outcome);
        if verdict == PushVerdict::NewToken {
            let youngest = service.config.service.token_age_min();
            let now = self.clock.now();
            service.token.refused(&token, now, youngest).await;
        }
        verdict
    }

    /// What says to a service who we are; nothing for a webhook.
    async fn token(&self, service: &WakingService) -> Result<String, String> {
        if matches!(service.config.service, PushService::Webhook(_)) {
            return Ok(String::new());
        }
        let make = self.new_token(&service.config.service);
        service.token.get(self.clock.now(), make).await
    }

    /// With how long it is good.
    async fn new_token(&self, service: &PushService) -> Result<(String, Duration), String> {
        match service {
            PushService::Webhook(_) => Ok((String::new(), Duration::ZERO)),
            PushService::Apns(key) => {
                let token = access_token::of_apple(key, self.unix_seconds());
                Ok((token.ok_or("the key signs nothing")?, APPLE_TOKEN_LIFE))
            }
            PushService::Fcm(account) => {
                let request = token_request(account, self.unix_seconds());
                let answer = self.post(request.ok_or("the key signs nothing")?).await;
                let answer = answer.map_err(|failure| failure.to_string())?;
                let token = token_in(&answer);
                let (token, seconds) =
                    token.ok_or_else(|| format!("no token: {}", answer.status))?;
                Ok((token, Duration::from_secs(seconds.saturating_sub(60))))
            }
        }
    }

    async fn post(&self, request: HttpRequest) -> Result<HttpAnswer, HttpFailure> {
        let (told, outcome) = oneshot::channel();
        self.http
            .send(request, Box::new(move |outcome| drop(told.send(outcome))))?;
        outcome.await.unwrap_or(Err(HttpFailure::Stopped))
    }

    /// The telephone has no application any more: its contacts end (RFC 8599 §5.6.1.1).
    fn unregister(&self, target: &PushTarget, aor: &str) {
        self.counters.unregistered.increment();
        tracing::info!(
            aor,
            provider = &*target.provider,
            "a sleeping telephone is gone"
        );
        if let Some(neighbours) = self.neighbours.get() {
            for binding in (neighbours.bindings)(aor) {
                if PushTarget::of(&binding.contact).is_some_and(|it| it == *target) {
                    (neighbours.remove)(aor, binding.contact.uri());
                }
            }
        }
        self.miss(target, aor, "Device Is Gone");
    }

    fn fail(&self, target: &PushTarget, aor: &str, said: &str) {
        self.counters.failed.increment();
        let provider = &*target.provider;
        tracing::warn!(aor, provider, reason = said, "a telephone cannot be woken");
        self.miss(target, aor, "Device Cannot Be Woken");
    }

    /// Calls do not wait for this telephone any more.
    fn miss(&self, target: &PushTarget, aor: &str, reason: &'static str) {
        let missed = self
            .lock()
            .take(&Name::new(aor), |waiter| waiter.target == *target);
        self.counters.not_woken.add(missed.len() as u64);
        if let Some(neighbours) = self.neighbours.get() {
            missed
                .iter()
                .for_each(|it| (neighbours.missed)(&it.call, reason));
        }
    }

    pub(in crate::server) fn stats(&self) -> PushStats {
        let (counters, state) = (&self.counters, self.lock());
        PushStats {
            sent: counters.sent.get(),
            accepted: counters.accepted.get(),
            failed: counters.failed.get(),
            retried: counters.retried.get(),
            unregistered: counters.unregistered.get(),
            refreshes: counters.refreshes.get(),
            limited: counters.limited.get(),
            refused_full: counters.refused_full.get(),
            woken: counters.woken.get(),
            not_woken: counters.not_woken.get(),
            unsupported: counters.unsupported.get(),
            waiting_count: state.waiting.values().map(|it| it.len() as u64).sum(),
            refresh_count: state.refreshes.len() as u64,
        }
    }

    fn service(&self, provider: &str) -> Option<usize> {
        let is_it = |it: &WakingService| it.config.provider.eq_ignore_ascii_case(provider);
        self.services.iter().position(is_it)
    }

    /// Its connection stands, or it has just registered. The connection of a proxy between us says
    /// nothing of it.
    fn is_awake(&self, binding: &Binding, service: usize, now: Instant) -> bool {
        let contact = &binding.contact;
        let granted = Duration::from_secs(binding.lease().granted_s.into());
        let registered_ago = granted.saturating_sub(binding.expires_at - now);
        let is_connected = contact.transport().is_reliable() && contact.path().is_empty();
        let awake_for = self.services[service].config.awake_for;
        contact.is_reachable() && (is_connected || registered_ago < awake_for)
    }

    fn unix_seconds(&self) -> u64 {
        self.clock.unix_time().as_nanos() / 1_000_000_000
    }

    /// Taken under the lock of a device; no lock is taken under it.
    fn lock(&self) -> MutexGuard<'_, PushesInner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registration names a service that is not known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct UnknownService;

impl PushesInner {
    fn take(&mut self, aor: &Name, is_wanted: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let Some(waiting) = self.waiting.get_mut(aor) else {
            return Vec::new();
        };
        let taken = waiting.extract_if(.., |waiter| is_wanted(waiter)).collect();
        if waiting.is_empty() {
            self.waiting.remove(aor);
        }
        taken
    }
}

impl fmt::Debug for WaitingPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WaitingPlace")
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.0.give_back(self.1, 1);
    }
}

const NOT_WOKEN: &str = "Device Did Not Wake Up";
/// Before the end of its registration a telephone is woken to refresh it; what `sip.pnsreg` says.
const REFRESHED_BEFORE: Duration = Duration::from_secs(120);
const ATTEMPTS_MAX: u32 = 3;
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Apple wants no token that is older than an hour.
const APPLE_TOKEN_LIFE: Duration = Duration::from_secs(45 * 60);
