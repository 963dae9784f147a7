//! IAX2 on the network's threads: calls in shards, and their requests on the way to
//! devices.
//!
//! All calls of one source are in one shard, so that the source's limit holds. The
//! bound of all calls holds for the whole server and not for a shard, so a source with
//! many calls takes no room from the other sources of its shard. A shard's lock is held
//! while a frame is processed, never while one is sent.

use super::{
    access::admission::why_wrong,
    config::Limits,
    core::Core,
    device::{
        device_request::{DeviceRequest, Iax2InboundRequest},
        expiry_timer::ExpiryTimer,
        flows::ack_of_pong,
    },
};
use busyhour::{buffer::Buffer, runtime::Runtime, serializer::Serializer};
use busyhour_iax2::{
    Actions, CallId, Calls, Credentials, Iax2Stats, Keys, Login, Policy, Request, RequestKind,
    RequestOutcome,
};
use busyhour_registrar::{Iax2Registration, Refusal, address_of_record};
use busyhour_sip::{Flow, Uri, source_of};
use foldhash::quality::FixedState;
use std::{
    cell::RefCell,
    hash::BuildHasher,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Every call of the server.
pub(super) struct Iax2Calls {
    shards: Box<[CallShard]>,
    hasher: FixedState,
    /// Calls of all shards. Concurrent threads may exceed the bound by one call each.
    call_count: AtomicUsize,
}

struct CallShard {
    state: Mutex<CallsInner>,
    /// Where the expiry timer of the shard fires.
    serializer: Serializer,
}

struct CallsInner {
    calls: Calls,
    expiry_timer: ExpiryTimer,
}

impl Iax2Calls {
    pub(super) fn new(runtime: &Runtime, key: [u8; 32], seed: u64, policy: &Policy) -> Self {
        let keys = Keys::new(key);
        let policy = of_shard(policy);
        let shard = |number| CallShard {
            state: Mutex::new(CallsInner {
                calls: Calls::new(keys.clone(), number, policy.clone()),
                expiry_timer: ExpiryTimer::default(),
            }),
            serializer: runtime.pool().ephemeral(),
        };
        Self {
            shards: (0..SHARDS as u16).map(shard).collect(),
            hasher: FixedState::with_seed(seed),
            call_count: AtomicUsize::new(0),
        }
    }

    pub(super) fn stats(&self) -> Iax2Stats {
        let mut sum = Iax2Stats::default();
        for shard in &self.shards {
            sum += &shard.lock().calls.stats();
        }
        sum
    }

    fn index(&self, source: IpAddr) -> usize {
        self.hasher.hash_one(source_of(source)) as usize % SHARDS
    }
}

impl Core {
    /// Takes a datagram of IAX2.
    pub(super) fn receive_iax2(self: &Arc<Self>, flow: Flow, datagram: &Buffer) {
        let traffic = &self.traffic();
        traffic.received.increment();
        traffic.received_bytes.add(datagram.len() as u64);
        if self.is_closing.load(Ordering::Acquire) {
            return traffic.dropped_shutdown.increment();
        }
        self.note_life(flow);
        if self.flows().is_probing()
            && let Some(ack) = ack_of_pong(datagram)
        {
            self.flows().counters.probes_answered.increment();
            let ack = self.responder().write(|out| ack.write(out));
            return ack.map_or((), |ack| self.responder().send(flow, ack));
        }
        let at = self.moment();
        let check = |credentials: &Credentials<'_>| self.login(credentials, flow);
        let index = self.iax2().index(flow.remote.ip());
        self.with_calls(index, |calls, actions| {
            calls.receive(at, flow, datagram, &check, actions);
        });
    }

    /// Tells a call what became of its request.
    pub(super) fn conclude_iax2(self: &Arc<Self>, call: &CallId, verdict: &RequestOutcome) {
        let at = self.moment();
        let index = self.iax2().index(call.flow().remote.ip());
        self.with_calls(index, |calls, actions| {
            calls.conclude(at, call, verdict, actions);
        });
    }

    /// Whether a device knows its password. Without an account the check takes as long;
    /// the credentials of a client that failed too often are not checked.
    fn login(&self, credentials: &Credentials<'_>, flow: Flow) -> Login {
        self.log()
            .failures
            .challenge_answered(credentials.username, flow, "iax2");
        if self.login_pause(credentials.username, flow).is_some() {
            let reason = Refusal::LoginPaused(Duration::ZERO).reason().to_owned();
            self.log()
                .failures
                .note(credentials.username, flow, "iax2", reason.into());
            return Login::Paused;
        }
        let secret = self.parts.accounts.directory.secret(credentials.username);
        let expected = secret.and_then(|secret| secret.challenge_response(credentials.challenge));
        let decoy = || busyhour_sip::auth::challenge_response(credentials.challenge, "");
        let is_known = expected.is_some();
        let proves = credentials.proves(&expected.unwrap_or_else(decoy)) && is_known;
        let (source, username) = (flow.remote.ip(), credentials.username);
        if proves {
            self.parts.logins.succeeded(source, username);
            return Login::Accepted;
        }
        self.login_failed(flow, username, "iax2", why_wrong(is_known));
        Login::Refused
    }

    /// Runs `act` on a shard's calls, then sends their datagrams and passes on their
    /// requests.
    fn with_calls(self: &Arc<Self>, index: usize, act: impl FnOnce(&mut Calls, &mut Actions)) {
        let requests = with_actions(|actions| {
            let shard = &self.iax2().shards[index];
            let mut state = shard.lock();
            let (all, before) = (&self.iax2().call_count, state.calls.len());
            let others = all.load(Ordering::Relaxed).saturating_sub(before);
            state.calls.set_others(others);
            act(&mut state.calls, actions);
            let after = state.calls.len();
            match after >= before {
                true => all.fetch_add(after - before, Ordering::Relaxed),
                false => all.fetch_sub(before - after, Ordering::Relaxed),
            };
            self.set_calls_alarm(index, &mut state);
            drop(state);
            for (flow, frame) in actions.frames() {
                if let Some(datagram) = self.responder().write(|out| out.extend_from_slice(frame)) {
                    self.responder().send(flow, datagram);
                }
            }
            for (flow, username) in actions.take_challenged() {
                self.note_challenge(&username, flow, "iax2", false);
            }
            actions.take_requests()
        });
        for request in requests {
            self.register_by_iax2(request);
        }
    }

    fn set_calls_alarm(self: &Arc<Self>, index: usize, state: &mut CallsInner) {
        let Some(deadline) = state.calls.next_deadline() else {
            return;
        };
        let core = Arc::downgrade(self);
        let fire = move || {
            if let Some(core) = core.upgrade() {
                core.ring_calls(index);
            }
        };
        let (timers, serializer) = (
            self.runtime().timers(),
            &self.iax2().shards[index].serializer,
        );
        let set = state
            .expiry_timer
            .set(deadline, "iax2", timers, serializer, fire);
        if set.is_err() {
            self.traffic().refused_table_full.increment();
        }
    }

    fn ring_calls(self: &Arc<Self>, index: usize) {
        let now = self.now();
        self.iax2().shards[index].lock().expiry_timer.fired(now);
        self.with_calls(index, |calls, actions| calls.expire(now, actions));
    }

    fn register_by_iax2(self: &Arc<Self>, request: Request) {
        let call = request.call;
        match self.iax2_registration(request) {
            Ok(registration) => self.push_registration(call, registration),
            Err(_) => {
                self.log()
                    .iax2_forbidden("", call.flow(), "Not A User Of This Server");
                self.conclude_iax2(&call, &RequestOutcome::Forbidden);
            }
        }
    }

    fn push_registration(self: &Arc<Self>, call: CallId, registration: Iax2Registration) {
        // It was challenged, where anybody is.
        let proves = || self.parts.authenticator.is_some();
        let aor = registration.aor.as_str();
        if (self.load()).sheds(|| !proves() && self.devices().find(aor).is_none()) {
            return self.conclude_iax2(&call, &RequestOutcome::Failed);
        }
        let flow = registration.flow;
        let holder = self.holder(flow, Some(&registration.username));
        match self.devices().open(&registration.aor, holder, self) {
            Ok(device) => {
                let arrived_at = self.now();
                let inbound = Iax2InboundRequest {
                    registration,
                    call,
                    arrived_at,
                };
                self.push_to_device(&device, DeviceRequest::Iax2(Box::new(inbound)));
            }
            Err(excess) => {
                self.responder()
                    .count_excess(excess, flow, Some(&registration.username));
                self.conclude_iax2(&call, &RequestOutcome::Failed);
            }
        }
    }

    /// IAX2 names no domain: we take our first domain, or the address that the frame
    /// came to.
    fn iax2_registration(&self, request: Request) -> Result<Iax2Registration, Refusal> {
        let flow = request.call.flow();
        let domain = match self.config().domains.first() {
            Some(domain) => domain.clone(),
            None => host(flow.local.ip()),
        };
        let uri = format!("sip:{}@{domain}", request.username);
        let uri = Uri::parse(&uri).ok_or(Refusal::NotFound)?;
        let named = uri.as_sip().and_then(|uri| uri.user);
        if named != Some(&*request.username) {
            return Err(Refusal::NotFound);
        }
        Ok(Iax2Registration {
            aor: address_of_record(&uri, &self.parts.domains)?.into(),
            username: request.username,
            refresh_s: match request.wish {
                RequestKind::Register { refresh_s } => Some(refresh_s),
                RequestKind::Release => None,
            },
            flow,
        })
    }
}

impl CallShard {
    fn lock(&self) -> MutexGuard<'_, CallsInner> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The limits of one shard. Addresses are spread over the shards by a hash, and each of
/// them must get its full limit.
fn of_shard(policy: &Policy) -> Policy {
    let share = |whole: usize| whole.div_ceil(SHARDS).max(policy.calls_per_source_max);
    Policy {
        records_max: share(policy.records_max).min(policy.records_max),
        ..policy.clone()
    }
}

/// The policy of a server: what the configuration says of it.
pub(super) fn policy(tokens: busyhour_iax2::CallTokens, is_open: bool, limits: &Limits) -> Policy {
    Policy {
        call_tokens: tokens,
        is_open,
        calls_max: limits.iax2_calls_max,
        calls_per_source_max: limits.iax2_calls_per_source_max,
        records_max: limits.iax2_records_max,
    }
}

fn host(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Lends the thread's room for actions, empty.
fn with_actions<R>(use_actions: impl FnOnce(&mut Actions) -> R) -> R {
    thread_local! {
        static ACTIONS: RefCell<Actions> = RefCell::new(Actions::default());
    }
    ACTIONS.with(|actions| match actions.try_borrow_mut() {
        Ok(mut actions) => {
            actions.clear();
            use_actions(&mut actions)
        }
        // Already lent further up this thread's stack.
        Err(_) => use_actions(&mut Actions::default()),
    })
}

/// More than threads, so that two threads seldom wait for each other.
const SHARDS: usize = 16;
