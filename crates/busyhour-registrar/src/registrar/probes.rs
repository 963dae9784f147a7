//! Whether devices are still there: who has to be asked, and what follows when
//! nobody answers. Pure: time and signs of life in, actions out.
//!
//! Each flow has a moment of its own in every interval, by its hash, so however
//! many devices come at once, they are asked evenly. A device that was heard of within
//! half an interval is not asked. What is not answered is asked again twice, two
//! seconds apart; after the third time the flow is down, and is asked once in each
//! interval until something is heard of it.

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
    /// None yet; each will be asked once in `interval`, which is not zero.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval: interval.max(RETRY),
            flows: HashMap::new(),
            moments: TimerQueue::new(),
        }
    }

    /// From now on asks this flow, which was heard of just now.
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

    /// Something came over this flow; whether it was down before.
    pub fn heard(&mut self, flow: &Flow, now: Instant) -> bool {
        let Some(probed) = self.flows.get_mut(flow) else {
            return false;
        };
        probed.heard_at = now;
        probed.asked = 0;
        std::mem::take(&mut probed.is_down)
    }

    /// One thing that is to be done by now; ask again until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<Probe> {
        while let Some((_, flow)) = self.moments.pop_due(now) {
            let Some(probed) = self.flows.get_mut(&flow) else {
                continue;
            };
            let is_fresh = probed.asked == 0 && now - probed.heard_at < self.interval / 2;
            let probe = match probed.asked {
                _ if is_fresh => None,
                // One that is down is asked once, and has its whole interval to answer.
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
/// Longer than a round trip, and three of them shorter than any interval.
const RETRY: Duration = Duration::from_secs(2);
