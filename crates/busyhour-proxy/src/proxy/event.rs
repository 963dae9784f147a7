//! What happened to a request, for call records, counters and dialogs.

use super::TransactionId;
use busyhour_sip::Flow;
use std::time::Duration;

/// Something that happened to a request. If it came with a message, that is the one that
/// the table was given in the same step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The request.
    pub transaction: TransactionId,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// It was sent to a target.
    Forwarded {
        /// The branch, which later events name.
        branch: u16,
        /// The label of the target.
        label: u64,
        /// The way on which it went.
        flow: Flow,
    },
    /// A provisional response other than 100 was forwarded.
    Progress {
        /// The branch that it came from.
        branch: u16,
        /// 101 to 199.
        status: u16,
        /// Since the request came. With the first one of a request this is its post-dial
        /// delay.
        after: Duration,
        /// Whether it is the first one of the request.
        is_first: bool,
    },
    /// A 2xx was forwarded. Each 2xx to INVITE is told, its retransmissions too.
    Answered {
        /// The branch that it came from.
        branch: u16,
        /// The label of its target.
        label: u64,
        /// 200 to 299.
        status: u16,
        /// Since the request came.
        after: Duration,
        /// Whether it is the first final response of the request.
        is_first: bool,
        /// The session interval that the proxy has put into it, since who answered knows no
        /// session timers (RFC 4028 §8.2).
        session: Option<Duration>,
    },
    /// A branch ended without 2xx.
    Failed {
        /// The branch.
        branch: u16,
        /// The label of its target.
        label: u64,
        /// Of the response; 408, 480 or 503 if there was none.
        status: u16,
        /// Why.
        cause: FailureCause,
    },
    /// A way to a target has failed, and it was sent on the next one.
    FailedOver {
        /// The label of the target.
        label: u64,
        /// The way that has failed.
        from: Flow,
        /// The next one.
        to: Flow,
        /// Of the response; 408, 480 or 503 if there was none.
        status: u16,
        /// Why.
        cause: FailureCause,
    },
    /// The last way to a target has failed.
    Exhausted {
        /// The label of the target.
        label: u64,
        /// The last way.
        from: Flow,
        /// Of the response; 408, 480 or 503 if there was none.
        status: u16,
        /// Why.
        cause: FailureCause,
    },
    /// The caller cancelled it.
    Cancelled,
    /// A final response other than 2xx was sent.
    Refused {
        /// 300 to 699.
        status: u16,
        /// The branch that it came from; `None` for one of ours.
        branch: Option<u16>,
        /// Since the request came.
        after: Duration,
    },
    /// A request other than INVITE gets no response, since it would come too late
    /// (RFC 4320).
    Unanswered,
    /// No ACK came for the refusal.
    Unacknowledged,
    /// After its final response it keeps fewer bytes than before: a branch that lost has
    /// ended, too.
    Shrunk,
    /// Its last transaction has ended; the table has forgotten it.
    Ended,
}

/// Why a branch ended without 2xx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// A final response said so.
    Response,
    /// Nothing final came in time.
    Timeout,
    /// The message could not be sent.
    Transport,
}
