//! The relays that there are, and whether they answer.

use crate::command;
use busyhour::clock::Instant;
use foldhash::quality::FixedState;
use serde::Serialize;
use std::{
    hash::BuildHasher,
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// An rtpengine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayConfig {
    /// Where it takes commands (`--listen-ng`).
    pub address: SocketAddr,
    /// How many new calls it gets beside the others.
    pub weight: u32,
}

/// All relays; each is shared by all tables.
#[derive(Debug)]
pub struct Relays {
    relays: Vec<Relay>,
    hasher: FixedState,
    /// Ends each cookie.
    run: u64,
    last_ping: AtomicU64,
    /// What all tables count together.
    pub counters: MediaCounters,
}

#[derive(Debug)]
struct Relay {
    config: RelayConfig,
    state: Mutex<State>,
    calls: AtomicU64,
    failures: AtomicU64,
}

#[derive(Debug)]
struct State {
    is_up: bool,
    since: Instant,
    /// The ping that was not answered yet.
    asked: Option<(u64, Instant)>,
    next_ping: Instant,
    round_trip: Option<Duration>,
    last_answer: Option<Instant>,
}

/// What is known of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayState {
    /// Where it is.
    pub config: RelayConfig,
    /// It answers. One that was not asked yet is believed to.
    pub is_up: bool,
    /// Since when.
    pub since: Instant,
    /// From the last ping to its answer.
    pub round_trip: Option<Duration>,
    /// When it answered last.
    pub last_answer: Option<Instant>,
    /// Calls that it got.
    pub calls: u64,
    /// Questions and pings that it left unanswered.
    pub failures: u64,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What was asked of relays, and what became of it.
        #[derive(Debug, Default)]
        pub struct MediaCounters { $($(#[$doc])* pub(crate) $name: AtomicU64),+ }

        /// The same at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct MediaStats { $($(#[$doc])* pub $name: u64),+ }

        impl MediaCounters {
            /// Reads them.
            pub fn stats(&self) -> MediaStats {
                MediaStats { $($name: self.$name.load(Ordering::Relaxed)),+ }
            }
        }
    };
}

counters! {
    /// Calls that began to use a relay.
    calls,
    /// Calls that use one now.
    call_count,
    /// Offers and answers that were rewritten.
    rewritten,
    /// Questions sent again.
    resent,
    /// Questions that a relay did not answer.
    unanswered,
    /// Questions that a relay answered with an error.
    errors,
    /// New calls that went to another relay because the first did not take them.
    failed_over,
    /// Messages that left with the description as it came, since no relay answered.
    passed,
    /// Messages that did not leave for that reason.
    refused,
    /// Offers whose media cannot flow from end to end, while no relay is configured.
    obstructed,
    /// Calls without a place in the table.
    left_out,
}

impl MediaCounters {
    /// An offer left whose media cannot flow.
    pub fn obstructed(&self) {
        Self::add(&self.obstructed);
    }

    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Relays {
    /// These, of which nothing is known yet; they are pinged from `now` on. Each run of a process
    /// must have another `seed`: relays keep their answers by the cookies of the questions for
    /// some seconds, and give them to whoever asks with the same cookie.
    pub fn new(configs: &[RelayConfig], seed: u64, now: Instant) -> Self {
        let relay = |config: &RelayConfig| Relay {
            config: *config,
            state: Mutex::new(State {
                is_up: true,
                since: now,
                asked: None,
                next_ping: now,
                round_trip: None,
                last_answer: None,
            }),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        };
        let hasher = FixedState::with_seed(seed);
        Self {
            relays: configs.iter().map(relay).collect(),
            run: hasher.hash_one("the cookies of this run"),
            hasher,
            last_ping: AtomicU64::new(0),
            counters: MediaCounters::default(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.relays.is_empty()
    }

    /// Whether one of them is at this address.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.relays.iter().any(|it| it.config.address == address)
    }

    /// All of them.
    pub fn states(&self) -> Vec<RelayState> {
        self.relays.iter().map(Relay::state).collect()
    }

    /// The relay for a new call: those that are up share calls by their weights. `None` if none
    /// is up but those in `but`.
    pub(crate) fn choose(&self, call_id: &str, but: &[usize]) -> Option<usize> {
        let mut places = self.all_up();
        places.retain(|place| !but.contains(place));
        let weight = |place: &usize| u64::from(self.relays[*place].config.weight);
        let sum: u64 = places.iter().map(weight).sum();
        let mut drawn = self.hasher.hash_one(call_id).checked_rem(sum)?;
        places.into_iter().find(|place| {
            let weight = weight(place);
            let is_it = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            is_it
        })
    }

    /// Those that are up.
    pub(crate) fn all_up(&self) -> Vec<usize> {
        let places = 0..self.relays.len();
        places
            .filter(|place| self.relays[*place].lock().is_up)
            .collect()
    }

    pub(crate) fn address(&self, place: usize) -> SocketAddr {
        self.relays[place].config.address
    }

    pub(crate) fn got_call(&self, place: usize) {
        self.relays[place].calls.fetch_add(1, Ordering::Relaxed);
    }

    /// It has answered something.
    pub(crate) fn heard(&self, place: usize, now: Instant) {
        self.relays[place].turn(true, now);
        self.relays[place].lock().last_answer = Some(now);
    }

    /// It has left a question unanswered.
    pub(crate) fn silent(&self, place: usize, now: Instant) {
        self.relays[place].failures.fetch_add(1, Ordering::Relaxed);
        self.relays[place].turn(false, now);
    }

    /// The cookie of a table's question.
    pub(crate) fn cookie(&self, shard: u16, number: u64) -> String {
        format!("{shard:x}_{number:x}_{:x}", self.run)
    }

    /// The number of a question, by what comes after the shard in its cookie; `None` if it is not
    /// of this run.
    pub(crate) fn number_of(&self, name: &str) -> Option<u64> {
        let (number, run) = name.split_once('_')?;
        let is_ours = u64::from_str_radix(run, 16) == Ok(self.run);
        u64::from_str_radix(number, 16).ok().filter(|_| is_ours)
    }

    /// The pings that are due. Call it every second.
    pub fn ping(&self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut pings = Vec::new();
        for relay in &self.relays {
            let mut state = relay.lock();
            if now < state.next_ping {
                continue;
            }
            if let Some((_, since)) = state.asked
                && now >= since + PING_ANSWER
            {
                drop(state);
                relay.failures.fetch_add(1, Ordering::Relaxed);
                relay.turn(false, now);
                state = relay.lock();
            }
            let number = self.last_ping.fetch_add(1, Ordering::Relaxed) + 1;
            state.asked = Some((number, now));
            state.next_ping = now + PING_PERIOD;
            let cookie = format!("{PING_COOKIE}{number:x}_{:x}", self.run);
            pings.push((relay.config.address, command::ping(&cookie)));
        }
        pings
    }

    /// Takes the answer to a ping; `false` if it is no such answer.
    pub fn take_pong(&self, from: SocketAddr, datagram: &[u8], now: Instant) -> bool {
        let cookie = command::cookie_of(datagram);
        let Some(name) = cookie.and_then(|cookie| cookie.strip_prefix(PING_COOKIE)) else {
            return false;
        };
        let Some((_, reply)) = command::read(datagram) else {
            return false;
        };
        let place = self.relays.iter().position(|it| it.config.address == from);
        if let (Some(place), Ok(command::Reply::Pong)) = (place, reply) {
            let mut state = self.relays[place].lock();
            let answers = |(asked, _): &(u64, Instant)| self.number_of(name) == Some(*asked);
            if let Some((_, since)) = state.asked.take_if(|asked| answers(asked)) {
                state.round_trip = Some(now - since);
                drop(state);
                self.heard(place, now);
            }
        }
        true
    }
}

impl Relay {
    fn state(&self) -> RelayState {
        let state = self.lock();
        RelayState {
            config: self.config,
            is_up: state.is_up,
            since: state.since,
            round_trip: state.round_trip,
            last_answer: state.last_answer,
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    fn turn(&self, is_up: bool, now: Instant) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_up, is_up) != is_up {
            state.since = now;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins the cookie of each ping; those of tables begin with a digit.
const PING_COOKIE: &str = "p";
const PING_PERIOD: Duration = Duration::from_secs(2);
/// How long a ping may stay unanswered.
const PING_ANSWER: Duration = Duration::from_secs(2);
