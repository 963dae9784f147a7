//! Probes whether devices are still there: which flows to probe, and which have failed.
//! Pure: time and received messages go in, actions come out.
//!
//! Each flow has its own moment in every half of an interval, by its hash, so the probes are
//! spread over at least half of the interval even if many devices register at once. At its moment
//! a flow is probed, unless something arrived on it within half an interval. So whatever arrives
//! when, nobody is silent for longer than an interval without being asked, and one that answers is
//! asked once in an interval. An unanswered probe is repeated twice, two seconds apart; after the
//! third one the flow is down, and is probed once in each interval until something arrives.
//!
//! A flow may have keep-alives besides, which nobody answers, each in an interval of its own: they keep
//! an address translation open that counts what comes from outside, and cost less than a question. At
//! its moment nothing leaves if something arrived within half of that interval.
//!
//! A flow of a restored contact has not been heard yet. It is asked at its own moment of a
//! time that is given for all of them, however recently it was added.

use busyhour::{
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};
use busyhour_sip::Flow;
use std::{collections::HashMap, time::Duration};

/// The flows of some devices.
///
/// ```
/// use busyhour::clock::Instant;
/// use busyhour_sip::Flow;
/// use busyhour_registrar::{Pace, Probe, Probes};
/// use std::time::Duration;
///
/// let flow = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
/// let mut probes = Probes::default();
/// probes.watch(flow, 0, Pace::every(Duration::from_secs(60)), Instant::ZERO);
/// let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
/// assert_eq!(probes.poll(at(30)), None, "it was heard half an interval ago");
/// assert_eq!(probes.poll(at(59)), None, "its moment has not come");
/// assert_eq!(probes.poll(at(60)), Some(Probe::Ask(flow)));
/// assert_eq!(probes.poll(at(62)), Some(Probe::Ask(flow)));
/// assert_eq!(probes.poll(at(64)), Some(Probe::Ask(flow)));
/// assert_eq!(probes.poll(at(66)), Some(Probe::Down(flow)));
/// assert!(probes.heard(&flow, at(70)), "it is back");
/// assert_eq!(probes.poll(at(120)), Some(Probe::Ask(flow)));
/// probes.answered(&flow, at(121));
/// assert_eq!(probes.latency(&flow), Some(Duration::from_secs(1)));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Default)]
pub struct Probes {
    flows: HashMap<Flow, Probed>,
    moments: TimerQueue<(Flow, Due)>,
}

/// What a moment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Ask,
    KeepAlive,
}

/// How often a flow is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Once in so long; `None`: only until it has been heard.
    pub every: Option<Duration>,
    /// Nothing was heard on it yet, and it is asked within this time.
    pub verify_within: Option<Duration>,
    /// A keep-alive leaves once in so long.
    pub keep_alive: Option<Duration>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Ask the device at the other end of this flow.
    Ask(Flow),
    /// Nobody has answered.
    Down(Flow),
    /// Send a keep-alive on this flow.
    KeepAlive(Flow),
}

#[derive(Debug)]
struct Probed {
    hash: u64,
    every: Option<Duration>,
    /// `None` if nothing was heard since it is watched, nor right before.
    heard_at: Option<Instant>,
    /// Questions that were not answered.
    asked: u8,
    is_down: bool,
    /// When the one question was asked whose answer tells the latency: of two nobody knows which one an answer is for.
    awaited_since: Option<Instant>,
    latency: Option<Duration>,
    moment: Option<QueueHandle>,
    keep_alive: Option<(Duration, QueueHandle)>,
}

impl Pace {
    /// Once in an interval; shorter ones than an answer may take count as that.
    pub fn every(interval: Duration) -> Self {
        Self {
            every: Some(interval.max(RETRY)),
            verify_within: None,
            keep_alive: None,
        }
    }
}

impl Probes {
    /// Adds a flow, on which something arrived just now unless its pace says otherwise. One that
    /// is watched already keeps its pace.
    pub fn watch(&mut self, flow: Flow, hash: u64, pace: Pace, now: Instant) {
        if self.flows.contains_key(&flow) {
            return;
        }
        let every = pace.every.map(|every| every.max(RETRY));
        let first = match pace.verify_within {
            Some(within) => Some(now + part(within, hash)),
            None => every.map(|every| next_moment(every / 2, hash, now)),
        };
        let probed = Probed {
            hash,
            every,
            heard_at: pace.verify_within.is_none().then_some(now),
            asked: 0,
            is_down: false,
            awaited_since: None,
            latency: None,
            moment: first.map(|at| self.moments.add(at, (flow, Due::Ask))),
            keep_alive: pace.keep_alive.map(|every| {
                let every = every.max(RETRY);
                let at = next_moment(every, hash, now);
                (every, self.moments.add(at, (flow, Due::KeepAlive)))
            }),
        };
        self.flows.insert(flow, probed);
    }

    /// From now on does not.
    pub fn forget(&mut self, flow: &Flow) {
        let Some(probed) = self.flows.remove(flow) else {
            return;
        };
        let keep_alive = probed.keep_alive.map(|(_, moment)| moment);
        for moment in [probed.moment, keep_alive].into_iter().flatten() {
            self.moments.cancel(moment);
        }
    }

    /// Notes that something arrived on this flow; returns whether that is news: the flow was down,
    /// or had never been heard.
    pub fn heard(&mut self, flow: &Flow, now: Instant) -> bool {
        let Some(probed) = self.flows.get_mut(flow) else {
            return false;
        };
        let is_first = probed.heard_at.replace(now).is_none();
        probed.asked = 0;
        std::mem::take(&mut probed.is_down) || is_first
    }

    /// Notes an answer to a question on this flow.
    pub fn answered(&mut self, flow: &Flow, now: Instant) {
        if let Some(probed) = self.flows.get_mut(flow)
            && let Some(since) = probed.awaited_since.take()
        {
            probed.latency = Some(now - since);
        }
    }

    /// How long the last answer took to a question that was asked once.
    pub fn latency(&self, flow: &Flow) -> Option<Duration> {
        self.flows.get(flow)?.latency
    }

    /// The next action that is due; call again until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<Probe> {
        while let Some((_, (flow, due))) = self.moments.pop_due(now) {
            let Some(probed) = self.flows.get_mut(&flow) else {
                continue;
            };
            if let (Due::KeepAlive, Some((every, _))) = (due, probed.keep_alive) {
                let at = next_moment(every, probed.hash, now);
                probed.keep_alive = Some((every, self.moments.add(at, (flow, due))));
                if probed.has_been_silent(every / 2, now) {
                    return Some(Probe::KeepAlive(flow));
                }
                continue;
            }
            let probe = probed.next(flow, now);
            let waits = matches!(probe, Some(Probe::Ask(_))) && !probed.is_down;
            let next = match (waits, probed.every) {
                (true, _) => Some(now + RETRY),
                (false, Some(every)) if probed.is_down => {
                    Some(next_moment(every, probed.hash, now))
                }
                (false, Some(every)) => Some(next_moment(every / 2, probed.hash, now)),
                // It was verified, or it was not: it is not asked again.
                (false, None) => None,
            };
            probed.moment = next.map(|at| self.moments.add(at, (flow, due)));
            if probe.is_some() {
                return probe;
            }
        }
        None
    }

    /// When the next action may be due; `None` while nothing is watched.
    pub fn next_due(&self) -> Option<Instant> {
        self.moments.next_deadline()
    }

    /// How many flows are watched.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether none is watched.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
}

impl Probed {
    /// What its moment brings.
    fn next(&mut self, flow: Flow, now: Instant) -> Option<Probe> {
        if self.asked == 0 && self.is_fresh(now) {
            return None;
        }
        if self.asked < ATTEMPTS {
            self.asked += 1;
            self.awaited_since = (self.asked == 1).then_some(now);
            return Some(Probe::Ask(flow));
        }
        // A flow that is down is probed once, and may answer within the whole interval.
        if self.is_down {
            self.awaited_since = Some(now);
            return Some(Probe::Ask(flow));
        }
        self.is_down = true;
        Some(Probe::Down(flow))
    }

    fn has_been_silent(&self, period: Duration, now: Instant) -> bool {
        self.heard_at.is_none_or(|heard_at| now - heard_at > period)
    }

    /// Whether what was heard makes a question needless.
    fn is_fresh(&self, now: Instant) -> bool {
        self.heard_at
            .is_some_and(|heard_at| self.every.is_none_or(|every| now - heard_at <= every / 2))
    }
}

/// The next moment of a flow after `now`.
fn next_moment(every: Duration, hash: u64, now: Instant) -> Instant {
    let interval_ns = nanoseconds(every);
    let phase = hash % interval_ns;
    let into = (now.as_nanos() % interval_ns + interval_ns - phase) % interval_ns;
    now + Duration::from_nanos(interval_ns - into)
}

/// A part of this time, by the hash.
fn part(whole: Duration, hash: u64) -> Duration {
    Duration::from_nanos(hash % nanoseconds(whole))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos())
        .unwrap_or(u64::MAX)
        .max(1)
}

const ATTEMPTS: u8 = 3;
/// Longer than a round trip; three of them are shorter than any interval.
const RETRY: Duration = Duration::from_secs(2);
