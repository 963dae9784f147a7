//! The lookups that wait for DNS, and its answers that are still valid.

use super::Resolver;
use crate::server::{
    load::shares::{Excess, Holder, Shares},
    server_clock::ServerClock,
    stats::{DnsStats, counters::Counter},
};
use busyhour_proxy::dns::{
    AnswerCache, DnsAnswer, HopName, Location, NotLocated, Question, Servers, Transports,
    TtlBounds, locate,
};
use busyhour_sip::Transport;
use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What the server asks of DNS.
pub(in crate::server) struct Lookups {
    counters: LookupCounters,
    clock: Arc<ServerClock>,
    resolver: Arc<dyn Resolver>,
    /// Lookups that wait.
    room: Shares,
    state: Mutex<LookupState>,
    hasher: FixedState,
    last_draw: AtomicU64,
}

/// Takes the servers of a name, or why there are none and for how long.
pub(in crate::server) type LocationListener =
    Box<dyn FnOnce(Result<Servers, (NotLocated, Duration)>) + Send>;

#[derive(Default)]
struct LookupCounters {
    lookups: Counter,
    /// Those that the kept answers were enough for.
    from_cache: Counter,
    questions: Counter,
    questions_failed: Counter,
    not_located: Counter,
    refused: Counter,
}

struct LookupState {
    cache: AnswerCache,
    waiting: HashMap<u64, Lookup, FixedState>,
    /// The lookups that wait for a question which was asked.
    asked: HashMap<Question, Vec<u64>, FixedState>,
    last: u64,
}

/// A lookup that waits.
struct Lookup {
    name: HopName,
    transports: Transports,
    /// What it has learned; it may be in the cache no more.
    answers: HashMap<Question, DnsAnswer, FixedState>,
    holder: Holder,
    listener: LocationListener,
}

/// A lookup that is over.
struct Finished {
    holder: Holder,
    listener: LocationListener,
    result: Result<Servers, (NotLocated, Duration)>,
}

impl Lookups {
    pub(in crate::server) fn new(
        seed: u64,
        room: Shares,
        clock: Arc<ServerClock>,
        resolver: Arc<dyn Resolver>,
    ) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            counters: LookupCounters::default(),
            clock,
            resolver,
            room,
            state: Mutex::new(LookupState {
                cache: AnswerCache::new(seed, CACHED_MAX, TtlBounds::default()),
                waiting: HashMap::with_hasher(hasher.clone()),
                asked: HashMap::with_hasher(hasher.clone()),
                last: 0,
            }),
            hasher,
            last_draw: AtomicU64::new(0),
        }
    }

    /// Finds the servers of a name for `holder`, and tells the listener: before it returns, if
    /// the kept answers are enough.
    ///
    /// # Errors
    ///
    /// When too many lookups wait; the listener is dropped.
    pub(in crate::server) fn locate(
        self: &Arc<Self>,
        name: HopName,
        transports: Transports,
        holder: Holder,
        listener: LocationListener,
    ) -> Result<(), Excess> {
        self.counters.lookups.increment();
        if let Some(result) = self.known(&name, transports) {
            self.counters.from_cache.increment();
            self.counters.not_located.add(u64::from(result.is_err()));
            listener(result);
            return Ok(());
        }
        let room = self.room.take(holder, 1);
        room.inspect_err(|_| self.counters.refused.increment())?;
        let lookup = Lookup {
            name,
            transports,
            answers: HashMap::with_hasher(self.hasher.clone()),
            holder,
            listener,
        };
        let mut state = self.lock();
        state.last += 1;
        let id = state.last;
        state.waiting.insert(id, lookup);
        let mut questions = Vec::new();
        let finished = self.step(&mut state, id, &mut questions);
        drop(state);
        self.conclude(finished.into_iter(), questions);
        Ok(())
    }

    /// The servers of a name, if the kept answers are enough to know.
    pub(in crate::server) fn known(
        &self,
        name: &HopName,
        transports: Transports,
    ) -> Option<Result<Servers, (NotLocated, Duration)>> {
        let (now, state) = (self.clock.now(), self.lock());
        result_of(locate(name, transports, |question| {
            state.cache.get(now, question)
        }))
        .ok()
    }

    /// The addresses of servers in the order in which one request tries them.
    pub(in crate::server) fn order(&self, servers: &Servers) -> Vec<(Transport, SocketAddr)> {
        servers.order(|| {
            let draw = self.last_draw.fetch_add(1, Ordering::Relaxed);
            self.hasher.hash_one(draw)
        })
    }

    pub(in crate::server) fn stats(&self) -> DnsStats {
        let state = self.lock();
        DnsStats {
            waiting_count: self.room.used(),
            answer_count: state.cache.len() as u64,
            lookups: self.counters.lookups.get(),
            from_cache: self.counters.from_cache.get(),
            questions: self.counters.questions.get(),
            questions_failed: self.counters.questions_failed.get(),
            not_located: self.counters.not_located.get(),
            refused: self.counters.refused.get(),
        }
    }

    fn answered(self: &Arc<Self>, question: Question, answer: DnsAnswer) {
        if answer == DnsAnswer::Failed {
            self.counters.questions_failed.increment();
        }
        let (mut finished, mut questions) = (Vec::new(), Vec::new());
        let mut state = self.lock();
        let now = self.clock.now();
        state.cache.put(now, question.clone(), answer.clone());
        // With the time that it is kept for, whatever it says itself.
        let kept = state.cache.get(now, &question).unwrap_or(answer);
        for id in state.asked.remove(&question).unwrap_or_default() {
            if let Some(lookup) = state.waiting.get_mut(&id) {
                lookup.answers.insert(question.clone(), kept.clone());
            }
            finished.extend(self.step(&mut state, id, &mut questions));
        }
        drop(state);
        self.conclude(finished.into_iter(), questions);
    }

    /// Lets a lookup go on by what is known; what nobody has asked yet goes to `questions`.
    fn step(
        &self,
        state: &mut LookupState,
        id: u64,
        questions: &mut Vec<Question>,
    ) -> Option<Finished> {
        let now = self.clock.now();
        let LookupState { cache, waiting, .. } = state;
        let lookup = waiting.get(&id)?;
        let known = |question: &Question| {
            let own = lookup.answers.get(question).cloned();
            own.or_else(|| cache.get(now, question))
        };
        match result_of(locate(&lookup.name, lookup.transports, known)) {
            Ok(result) => {
                let Lookup {
                    holder, listener, ..
                } = state.waiting.remove(&id)?;
                Some(Finished {
                    holder,
                    listener,
                    result,
                })
            }
            Err(wanted) => {
                for question in wanted {
                    let waiters = state.asked.entry(question.clone()).or_default();
                    if waiters.is_empty() {
                        questions.push(question);
                    }
                    if !waiters.contains(&id) {
                        waiters.push(id);
                    }
                }
                None
            }
        }
    }

    /// Asks and tells, with no lock held.
    fn conclude(
        self: &Arc<Self>,
        finished: impl Iterator<Item = Finished>,
        questions: Vec<Question>,
    ) {
        for Finished {
            holder,
            listener,
            result,
        } in finished
        {
            self.room.give_back(holder, 1);
            self.counters.not_located.add(u64::from(result.is_err()));
            listener(result);
        }
        for question in questions {
            self.counters.questions.increment();
            let (lookups, asked) = (Arc::downgrade(self), question.clone());
            let answered = move |answer| {
                if let Some(lookups) = lookups.upgrade() {
                    lookups.answered(asked, answer);
                }
            };
            self.resolver.ask(question, Box::new(answered));
        }
    }

    fn lock(&self) -> MutexGuard<'_, LookupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// # Errors
///
/// What has to be asked first.
fn result_of(location: Location) -> Result<Result<Servers, (NotLocated, Duration)>, Vec<Question>> {
    match location {
        Location::Found(servers) => Ok(Ok(servers)),
        Location::Not(reason, ttl) => Ok(Err((reason, ttl))),
        Location::Asks(questions) => Err(questions),
    }
}

/// Answers that are kept.
const CACHED_MAX: usize = 16_384;
/// Lookups that wait.
pub(in crate::server) const LOOKUPS_MAX: usize = 1_024;
