//! The calls of IAX2, in shards: frames in, frames and registrations out.
//!
//! All calls of one source are in one shard, so that the source's limit holds. The
//! bound of all calls holds for the whole server and not for a shard, so a source with
//! many calls takes no room from the other sources of its shard. A shard's lock is held
//! while a frame is processed, never while one is sent.

use crate::server::{
    expiry_timer::{ExpiryOptions, ExpiryTimer},
    server_clock::ServerClock,
    sip::responder::Responder,
    stats::{
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
};
use busyhour::{runtime::Runtime, serializer::Serializer, timer::Timers};
use busyhour_iax2::{
    Actions, CallId, Calls, Credentials, Iax2Stats, Keys, Login, Policy, Request, RequestOutcome,
};
use busyhour_sip::{Flow, source_of};
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
pub(in crate::server) struct Iax2Calls {
    pub(in crate::server) kind: SerializerKind,
    shards: Box<[CallShard]>,
    hasher: FixedState,
    /// Calls of all shards. Concurrent threads may exceed the bound by one call each.
    call_count: AtomicUsize,
    responder: Arc<Responder>,
    clock: Arc<ServerClock>,
    timers: Timers,
}

/// What a frame leads to beside the answers.
pub(in crate::server) struct Received {
    /// Users who are asked for a password now.
    pub(in crate::server) challenged: Vec<(Flow, Box<str>)>,
    /// Registrations by users who have proved who they are.
    pub(in crate::server) requests: Vec<Request>,
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
    /// What waits for the serializers of the calls' timers.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        let mut shards = self.kind.listing();
        for (number, shard) in self.shards.iter().enumerate() {
            shards.add(shard.serializer.stats(), || number.to_string());
        }
        shards
    }

    pub(in crate::server) fn new(
        runtime: &Runtime,
        responder: Arc<Responder>,
        clock: Arc<ServerClock>,
        (key, seed): ([u8; 32], u64),
        policy: &Policy,
    ) -> Self {
        let keys = Keys::new(key);
        let policy = of_shard(policy);
        let kind = SerializerKind::new(runtime, OPTIONS);
        let shard = |number| CallShard {
            state: Mutex::new(CallsInner {
                calls: Calls::new(keys.clone(), number, policy.clone()),
                expiry_timer: ExpiryTimer::default(),
            }),
            serializer: kind.ephemeral(),
        };
        Self {
            shards: (0..SHARDS as u16).map(shard).collect(),
            kind,
            hasher: FixedState::with_seed(seed),
            call_count: AtomicUsize::new(0),
            responder,
            clock,
            timers: runtime.timers().clone(),
        }
    }

    pub(in crate::server) fn stats(&self) -> Iax2Stats {
        let mut sum = Iax2Stats::default();
        for shard in &self.shards {
            sum += &shard.lock().calls.stats();
        }
        sum
    }

    /// Takes a frame; `check` says whether a device knows its password. Returns what it
    /// leads to beside the answers.
    pub(in crate::server) fn receive(
        self: &Arc<Self>,
        flow: Flow,
        datagram: &[u8],
        check: &dyn Fn(&Credentials<'_>) -> Login,
    ) -> Received {
        let at = self.clock.moment();
        self.with_calls(self.index(flow.remote.ip()), |calls, actions| {
            calls.receive(at, flow, datagram, check, actions);
        })
    }

    /// Tells a call what became of its request.
    pub(in crate::server) fn conclude(self: &Arc<Self>, call: &CallId, verdict: &RequestOutcome) {
        let at = self.clock.moment();
        self.with_calls(self.index(call.flow().remote.ip()), |calls, actions| {
            calls.conclude(at, call, verdict, actions);
        });
    }

    /// Runs `act` on a shard's calls, then sends their datagrams.
    fn with_calls(
        self: &Arc<Self>,
        index: usize,
        act: impl FnOnce(&mut Calls, &mut Actions),
    ) -> Received {
        with_actions(|actions| {
            let mut state = self.shards[index].lock();
            let (all, before) = (&self.call_count, state.calls.len());
            let others = all.load(Ordering::Relaxed).saturating_sub(before);
            state.calls.set_others(others);
            act(&mut state.calls, actions);
            let after = state.calls.len();
            match after >= before {
                true => all.fetch_add(after - before, Ordering::Relaxed),
                false => all.fetch_sub(before - after, Ordering::Relaxed),
            };
            self.set_alarm(index, &mut state);
            drop(state);
            for (flow, frame) in actions.frames() {
                if let Some(datagram) = self.responder.write(|out| out.extend_from_slice(frame)) {
                    self.responder.send(flow, datagram);
                }
            }
            Received {
                challenged: actions.take_challenged(),
                requests: actions.take_requests(),
            }
        })
    }

    fn set_alarm(self: &Arc<Self>, index: usize, state: &mut CallsInner) {
        let Some(deadline) = state.calls.next_deadline() else {
            return;
        };
        let calls = Arc::downgrade(self);
        let fire = move || {
            if let Some(calls) = calls.upgrade() {
                calls.ring(index);
            }
        };
        let serializer = &self.shards[index].serializer;
        let timer = &mut state.expiry_timer;
        let set = timer.set(deadline, EXPIRY, &self.timers, serializer, fire);
        if set.is_err() {
            self.responder.traffic.refused_table_full.increment();
        }
    }

    fn ring(self: &Arc<Self>, index: usize) {
        let now = self.clock.now();
        self.shards[index].lock().expiry_timer.fired(now);
        self.with_calls(index, |calls, actions| calls.expire(now, actions));
    }

    fn index(&self, source: IpAddr) -> usize {
        self.hasher.hash_one(source_of(source)) as usize % SHARDS
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

/// A shard has one timer.
const OPTIONS: KindOptions = KindOptions {
    name: "iax2",
    low: 1,
    high: 4,
    unlabelled: "timer of calls",
};
/// More than threads, so that two threads seldom wait for each other.
const SHARDS: usize = 16;

const EXPIRY: ExpiryOptions = ExpiryOptions {
    label: "iax2",
    slack: Duration::ZERO,
};
