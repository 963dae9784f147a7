//! What the operator allows.

use crate::transaction::TransactionTimers;
use busyhour_registrar::Domains;
use busyhour_sip::{HeaderName, Message, unescape};
use std::{borrow::Cow, time::Duration};

/// The bounds and times of one table.
#[derive(Debug, Clone)]
pub struct Policy {
    /// T1, T2 and T4.
    pub timers: TransactionTimers,
    /// Timer C: how long an INVITE may ring without a further provisional response; more
    /// than 3 minutes (RFC 3261 §16.6, step 11).
    pub timer_c: Duration,
    /// Transactions at a time. The last eighth is kept for requests within dialogs.
    pub transactions_max: usize,
    /// Bytes of messages that transactions hold.
    pub bytes_max: u64,
    /// Branches of one request, all targets and fallbacks counted.
    pub branches_max: usize,
    /// Retry-After of a refusal because the table is full, in seconds.
    pub retry_after_s: u32,
    /// The session interval that the proxy asks for in seconds (RFC 4028 §8), 90 or more; 0
    /// asks for none.
    pub session_s: u32,
    /// Credentials of this realm are not forwarded.
    pub realm: Option<Box<str>>,
    /// Nor are those of the realms of these domains.
    pub domains: Domains,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            timers: TransactionTimers::default(),
            timer_c: Duration::from_secs(181),
            transactions_max: 65_536,
            bytes_max: 256 << 20,
            branches_max: 32,
            retry_after_s: 5,
            session_s: 0,
            realm: None,
            domains: Domains::default(),
        }
    }
}

impl Policy {
    /// The realms of ours for which the request has credentials.
    pub(super) fn realms_in(&self, message: &Message<'_>) -> Vec<Box<str>> {
        let credentials = message.credentials(HeaderName::ProxyAuthorization);
        let realms = credentials.filter_map(|one| Some(unescape(one.ok()?.realm)));
        let is_ours = |realm: &Cow<'_, str>| {
            self.realm.as_deref() == Some(&**realm) || self.domains.tenant_of_realm(realm).is_some()
        };
        realms.filter(is_ours).map(Box::from).collect()
    }

    /// How many transactions there may be when another one begins.
    pub(super) fn room(&self, is_in_dialog: bool) -> usize {
        match is_in_dialog {
            true => self.transactions_max,
            false => self.transactions_max - self.transactions_max / 8,
        }
    }

    /// How many bytes there may be then.
    pub(super) fn byte_room(&self, is_in_dialog: bool) -> u64 {
        match is_in_dialog {
            true => self.bytes_max,
            false => self.bytes_max - self.bytes_max / 8,
        }
    }
}
