//! Media relays as the command line and HTTP see them.

use crate::server::nanos;
use busyhour::clock::Instant;
use busyhour_media::RelayState;
use serde::Serialize;

/// One media relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelayView {
    /// Where it takes commands.
    pub address: String,
    /// How many new calls it gets beside the others.
    pub weight: u32,
    /// `up` or `down`. One that was not asked yet is believed to be up.
    pub state: &'static str,
    /// For how long, in nanoseconds.
    pub since_ns: u64,
    /// From the last ping to its answer.
    pub round_trip_ns: Option<u64>,
    /// Since it answered last.
    pub last_answer_ns: Option<u64>,
    /// Calls that it got.
    pub calls: u64,
    /// Questions and pings that it left unanswered.
    pub failures: u64,
}

impl RelayView {
    pub(super) fn new(state: &RelayState, now: Instant) -> Self {
        Self {
            address: state.config.address.to_string(),
            weight: state.config.weight,
            state: if state.is_up { "up" } else { "down" },
            since_ns: nanos(now - state.since),
            round_trip_ns: state.round_trip.map(nanos),
            last_answer_ns: state.last_answer.map(|at| nanos(now - at)),
            calls: state.calls,
            failures: state.failures,
        }
    }
}
