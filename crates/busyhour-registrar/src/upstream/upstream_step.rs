//! What goes into a table of addresses, and what comes out.

use busyhour::clock::UnixTime;
use std::{sync::Arc, time::Duration};

/// How a registrar is asked.
#[derive(Debug, Clone)]
pub struct UpstreamPolicy {
    /// The lifetime that is asked for, in seconds.
    pub expires_s: u32,
    /// Requests that wait for their answer at a time.
    pub pending_max: usize,
    /// New requests a second; those of a tenth of a second may leave together.
    pub rate: u32,
    /// Addresses of record.
    pub entries_max: usize,
    /// How long an address may have a telephone, and not be known to be registered there, before
    /// [`UpstreamTable::refusal`](super::UpstreamTable::refusal) says so.
    pub patience: Duration,
}

/// What is asked of the registrar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamAsk {
    /// To have the contact for so many seconds.
    Register(u32),
    /// To have it no more.
    End,
    /// Which contacts it has (RFC 3261 §10.2.3).
    Query,
}

/// What is stored of an address of record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRow {
    /// The registrar has it until then for sure.
    pub sure_until: Option<UnixTime>,
    /// It may have it until then.
    pub may_until: UnixTime,
    /// The Service-Route of its last 200, while the registrar has the address for sure.
    pub service_route: Option<Arc<str>>,
}

/// What the part that has the network and the store does, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamStep {
    /// Sends a REGISTER.
    Send {
        /// For this address of record.
        aor: Arc<str>,
        /// Names the request; the same number means the same message again.
        number: u64,
        /// What is asked.
        ask: UpstreamAsk,
        /// It is to be durable before the request leaves.
        first: Option<UpstreamRow>,
        /// It was sent before.
        is_again: bool,
    },
    /// Stores what is known of an address; `None`: nothing any more.
    Store {
        /// The address of record.
        aor: Arc<str>,
        /// What is known.
        row: Option<UpstreamRow>,
    },
    /// The registrar does not answer any more.
    Away,
    /// It was away, and is back: everything is told again.
    Back,
    /// It has not the contact of an address any more that it has accepted, so that one is told again.
    Forgotten {
        /// That is so of two addresses: everything is told again.
        is_all: bool,
    },
}

/// A final answer of the registrar.
#[derive(Debug, Clone)]
pub struct UpstreamAnswer {
    /// Its status.
    pub status: u16,
    /// Our contact is among those that it lists.
    pub is_listed: bool,
    /// The lifetime that it has granted, in seconds.
    pub expires_s: Option<u32>,
    /// Of a 423, in seconds.
    pub min_expires_s: Option<u32>,
    /// Of a 503, in seconds.
    pub retry_after_s: Option<u32>,
    /// It is a challenge that can be answered.
    pub is_challenge: bool,
    /// Its Service-Route (RFC 3608): the values of Route for requests of the address.
    pub service_route: Option<Arc<str>>,
}

/// Why telephones of an address are not to be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamRefusal {
    /// The registrar has refused it with this status.
    Refused(u16),
    /// The registrar could not be told for longer than [`UpstreamPolicy::patience`].
    Unavailable,
    /// There is no room for more addresses.
    Full,
}

impl UpstreamAnswer {
    /// There was none.
    pub(super) const NONE: Self = Self {
        status: 0,
        is_listed: false,
        expires_s: None,
        min_expires_s: None,
        retry_after_s: None,
        is_challenge: false,
        service_route: None,
    };
}
