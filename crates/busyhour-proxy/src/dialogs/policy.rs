//! What the operator allows, and how long nothing may be heard of a dialog.

use busyhour::bus::Name;
use std::{collections::HashMap, time::Duration};

/// Bounds and times of the dialogs of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogPolicy {
    /// Calls at a time, of all tables of a server.
    pub calls_max: usize,
    /// Calls at a time in one table from one IPv4 address or IPv6 network of 64 bits.
    pub calls_per_source_max: usize,
    /// Calls at a time in one table of one account.
    pub calls_per_account_max: usize,
    /// Calls at a time in one table of each of these peers; of another one as many as of a
    /// source.
    pub calls_per_peer_max: HashMap<Name, usize>,
    /// Dialogs that one INVITE may lead to.
    pub dialogs_per_call_max: usize,
    /// Ended calls whose late messages are recognised, in one table.
    pub lingering_max: usize,
    /// How long an INVITE may take without a provisional response: longer than the proxy's
    /// timer C (RFC 3261 §16.6, step 11), which ends it first.
    pub setup_max: Duration,
    /// How long a 2xx may wait for its ACK (RFC 3261 §13.3.1.4: 64·T1).
    pub ack_max: Duration,
    /// How long a session may outlive its interval (RFC 4028 §10): the time of a last BYE.
    pub session_slack: Duration,
    /// After this time without a message, a dialog without a session timer is probed.
    pub quiet_max: Duration,
    /// How long the answer to a probe may take.
    pub probe_max: Duration,
    /// A device whose flow ended is probed after this time, when it may have a new one.
    pub flow_grace: Duration,
    /// A dialog that cannot be probed, and of which nothing was heard for so long, ends.
    pub silence_max: Duration,
    /// How long an ended call is remembered, for late messages: 64·T1.
    pub linger: Duration,
}

impl Default for DialogPolicy {
    fn default() -> Self {
        Self {
            calls_max: 65_536,
            calls_per_source_max: 4_096,
            calls_per_account_max: 64,
            calls_per_peer_max: HashMap::new(),
            dialogs_per_call_max: 32,
            lingering_max: 16_384,
            setup_max: Duration::from_secs(200) + TRANSACTION_MAX,
            ack_max: TRANSACTION_MAX + Duration::from_secs(1),
            session_slack: TRANSACTION_MAX,
            quiet_max: Duration::from_secs(15 * 60),
            probe_max: TRANSACTION_MAX + Duration::from_secs(3),
            flow_grace: TRANSACTION_MAX,
            silence_max: Duration::from_secs(4 * 60 * 60),
            linger: TRANSACTION_MAX,
        }
    }
}

impl DialogPolicy {
    pub(super) fn calls_of_peer_max(&self, peer: &Name) -> usize {
        let own = self.calls_per_peer_max.get(peer).copied();
        own.unwrap_or(self.calls_per_source_max)
    }
}

/// 64·T1 (RFC 3261 §17.1.1.1).
const TRANSACTION_MAX: Duration = Duration::from_secs(32);
