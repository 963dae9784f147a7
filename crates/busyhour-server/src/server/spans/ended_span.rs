//! A request that is over, with the times of its steps.

use busyhour_sip::Flow;

/// Which way a request goes, and by which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanKind {
    /// A SIP request that came.
    Received,
    /// A SIP request of ours.
    Sent,
    /// A registration by IAX2, which has no status but an answer.
    Iax2,
}

/// What the collector is told of a request. Times are nanoseconds since 1970.
#[derive(Debug)]
pub(super) struct EndedSpan {
    pub(super) trace_id: u128,
    pub(super) id: u64,
    pub(super) kind: SpanKind,
    /// The method, or the frame of IAX2.
    pub(super) name: &'static str,
    pub(super) began_unix_ns: u64,
    pub(super) ended_unix_ns: u64,
    /// Empty for IAX2.
    pub(super) call_id: Box<str>,
    /// Whose registration or state it is, or who is called.
    pub(super) aor: Box<str>,
    pub(super) flow: Flow,
    /// Of the final response; `None` if there was none.
    pub(super) status: Option<u16>,
    pub(super) steps: Vec<EndedStep>,
}

/// What one part did with it.
#[derive(Debug)]
pub(super) struct EndedStep {
    pub(super) name: &'static str,
    pub(super) began_unix_ns: u64,
    pub(super) ended_unix_ns: u64,
    /// Where a branch of a call went, and what came back.
    pub(super) branch: Option<EndedBranch>,
}

/// A branch of a call.
#[derive(Debug)]
pub(super) struct EndedBranch {
    pub(super) flow: Flow,
    /// The first provisional response, and when it came.
    pub(super) progress: Option<(u16, u64)>,
    pub(super) status: Option<u16>,
    /// The call had its answer before.
    pub(super) is_cancelled: bool,
}
