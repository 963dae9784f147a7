//! Probes whether devices are still there: which flows to probe, and which have failed.
//! Pure: time and received messages go in, actions come out.
//!
//! Each flow has its own moment in every interval, by its hash, so the probes are
//! spread evenly even if many devices register at once. A flow that received something
//! within half an interval is not probed. An unanswered probe is repeated twice, two
//! seconds apart; after the third one the flow is down, and is probed once in each
//! interval until something arrives.

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
/// use busyhour_registrar::{Probe, Probes};
/// use std::time::Duration;
///
/// let flow = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
/// let mut probes = Probes::new(Duration::from_secs(60));
/// probes.watch(flow, 0, Instant::ZERO);
/// let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
/// assert_eq!(probes.poll(at(59)), None, "its moment has not come");
/// assert_eq!(probes.poll(at(60)), Some(Probe::Ask(flow)));
/// assert_eq!(probes.poll(at(62)), Some(Probe::Ask(flow)));
/// assert_eq!(probes.poll(at(64)), Some(Probe::Ask(flow)));
/// assert_eq!(probes.poll(at(66)), Some(Probe::Down(flow)));
/// assert!(probes.heard(&flow, at(70)), "it is back");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct Probes {
    interval: Duration,
    flows: HashMap<Flow, Probed>,
    moments: TimerQueue<Flow>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Ask the device at the other end of this flow.
    Ask(Flow),
    /// Nobody has answered.
    Down(Flow),
}

#[derive(Debug)]
struct Probed {
    hash: u64,
    heard_at: Instant,
    /// Questions that were not answered.
    asked: u8,
    is_down: bool,
    moment: QueueHandle,
}

impl Probes {
    /// Without flows; each flow will be probed once in `interval`, which must not be
    /// zero.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval: interval.max(RETRY),
            flows: HashMap::new(),
            moments: TimerQueue::new(),
        }
    }

    /// Adds a flow, on which something arrived just now.
    pub fn watch(&mut self, flow: Flow, hash: u64, now: Instant) {
        if self.flows.contains_key(&flow) {
            return;
        }
        let moment = self.moments.add(self.next_moment(hash, now), flow);
        let probed = Probed {
            hash,
            heard_at: now,
            asked: 0,
            is_down: false,
            moment,
        };
        self.flows.insert(flow, probed);
    }

    /// From now on does not.
    pub fn forget(&mut self, flow: &Flow) {
        if let Some(probed) = self.flows.remove(flow) {
            self.moments.cancel(probed.moment);
        }
    }

    /// Notes that something arrived on this flow; returns whether the flow was down.
    pub fn heard(&mut self, flow: &Flow, now: Instant) -> bool {
        let Some(probed) = self.flows.get_mut(flow) else {
            return false;
        };
        probed.heard_at = now;
        probed.asked = 0;
        std::mem::take(&mut probed.is_down)
    }

    /// The next action that is due; call again until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<Probe> {
        while let Some((_, flow)) = self.moments.pop_due(now) {
            let Some(probed) = self.flows.get_mut(&flow) else {
                continue;
            };
            let is_fresh = probed.asked == 0 && now - probed.heard_at < self.interval / 2;
            let probe = match probed.asked {
                _ if is_fresh => None,
                // A flow that is down is probed once, and may answer within the whole
                // interval.
                ATTEMPTS.. if probed.is_down => {
                    probed.asked = ATTEMPTS;
                    Some(Probe::Ask(flow))
                }
                ATTEMPTS.. => {
                    probed.is_down = true;
                    Some(Probe::Down(flow))
                }
                _ => {
                    probed.asked += 1;
                    Some(Probe::Ask(flow))
                }
            };
            let waits = matches!(probe, Some(Probe::Ask(_))) && !probed.is_down;
            let hash = probed.hash;
            let next = match waits {
                true => now + RETRY,
                false => self.next_moment(hash, now),
            };
            let moment = self.moments.add(next, flow);
            if let Some(probed) = self.flows.get_mut(&flow) {
                probed.moment = moment;
            }
            if probe.is_some() {
                return probe;
            }
        }
        None
    }

    /// The next moment of a flow after `now`.
    fn next_moment(&self, hash: u64, now: Instant) -> Instant {
        let interval_ns = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        let phase = hash % interval_ns;
        let into = (now.as_nanos() % interval_ns + interval_ns - phase) % interval_ns;
        now + Duration::from_nanos(interval_ns - into)
    }
}

const ATTEMPTS: u8 = 3;
/// Longer than a round trip; three of them are shorter than any interval.
const RETRY: Duration = Duration::from_secs(2);
