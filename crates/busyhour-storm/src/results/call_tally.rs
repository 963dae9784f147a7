//! The counts of calls and of lamps.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The counts of all calls of a run, of both sides.
#[derive(Clone, Debug)]
pub(crate) struct CallTally {
    /// Calls begun.
    pub begun: u64,
    /// Calls that did not begin when they were due, since their device was still in a
    /// call, or its lamp was still lit.
    pub skipped: u64,
    /// Calls that were answered and ended by a BYE with its 200.
    pub answered: u64,
    /// Calls that were given up and ended by a 487.
    pub given_up: u64,
    /// Contacts that rang, and whose INVITE the server cancelled.
    pub cancelled_contacts: u64,
    /// Messages of the storm that were sent again.
    pub retransmitted: u64,
    /// Messages of the server that came again.
    pub repeated: u64,
    /// Challenges that were answered.
    pub challenged: u64,
    /// What went wrong, by reason.
    pub failed: BTreeMap<CallFailure, u64>,
    /// Answers to a transaction that was over.
    pub late: u64,
    /// Messages that belong to no call of this run.
    pub unexpected: u64,
    /// Sends and receives that the system refused.
    pub socket_errors: u64,
    /// From when a call was due until its 200.
    pub answer_ns: Histogram<u64>,
    /// From when a call was due until its 180: the post-dial delay.
    pub ringing_ns: Histogram<u64>,
}

/// What went wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallFailure {
    /// INVITE had no final answer in time.
    InviteTimeout,
    /// BYE had no final answer in time.
    ByeTimeout,
    /// INVITE had this final answer.
    Invite(u16),
    /// BYE had this final answer.
    Bye(u16),
    /// A call that its caller gave up was answered.
    AnsweredAfterAll,
    /// Two contacts' answers reached the caller.
    AnsweredTwice,
    /// A 200 without a Contact or a tag.
    Unusable,
    /// A contact got the same call twice, by two branches.
    CalledTwice,
    /// A contact's 200 or 487 was never acknowledged.
    Unacknowledged,
    /// A contact was never told that its call is over.
    NeverEnded,
    /// The server cancelled a contact that had answered.
    CancelledAfterAnswer,
}

impl CallFailure {
    /// Whether the call had begun: its caller was not just refused, or left without an answer
    /// to its INVITE.
    pub fn is_drop(self) -> bool {
        !matches!(self, Self::InviteTimeout | Self::Invite(_))
    }

    /// For a table: `no answer`, `INVITE 503`.
    pub fn name(self) -> String {
        match self {
            Self::InviteTimeout => "INVITE without an answer".into(),
            Self::ByeTimeout => "BYE without an answer".into(),
            Self::Invite(status) => format!("INVITE {status}"),
            Self::Bye(status) => format!("BYE {status}"),
            Self::AnsweredAfterAll => "answered although given up".into(),
            Self::AnsweredTwice => "answered twice".into(),
            Self::Unusable => "200 without Contact or tag".into(),
            Self::CalledTwice => "called twice".into(),
            Self::Unacknowledged => "contact without ACK".into(),
            Self::NeverEnded => "contact whose call never ended".into(),
            Self::CancelledAfterAnswer => "contact cancelled after its answer".into(),
        }
    }
}

impl CallTally {
    pub fn new() -> Self {
        Self {
            begun: 0,
            skipped: 0,
            answered: 0,
            given_up: 0,
            cancelled_contacts: 0,
            retransmitted: 0,
            repeated: 0,
            challenged: 0,
            failed: BTreeMap::new(),
            late: 0,
            unexpected: 0,
            socket_errors: 0,
            answer_ns: histogram(),
            ringing_ns: histogram(),
        }
    }

    pub fn fail(&mut self, failure: CallFailure) {
        *self.failed.entry(failure).or_default() += 1;
    }

    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// What went wrong with calls that had begun.
    pub fn drops(&self) -> u64 {
        let drops = self.failed.iter().filter(|(failure, _)| failure.is_drop());
        drops.map(|(_, count)| count).sum()
    }

    pub fn merge(&mut self, other: &Self) {
        self.begun += other.begun;
        self.skipped += other.skipped;
        self.answered += other.answered;
        self.given_up += other.given_up;
        self.cancelled_contacts += other.cancelled_contacts;
        self.retransmitted += other.retransmitted;
        self.repeated += other.repeated;
        self.challenged += other.challenged;
        self.late += other.late;
        self.unexpected += other.unexpected;
        self.socket_errors += other.socket_errors;
        for (failure, count) in &other.failed {
            *self.failed.entry(*failure).or_default() += count;
        }
        // The histograms grow as needed, so adding one to another can't fail.
        let _ = self.answer_ns.add(&other.answer_ns);
        let _ = self.ringing_ns.add(&other.ringing_ns);
    }
}

/// An empty histogram of nanoseconds that grows as needed.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_DIGITS).unwrap_or_else(|_| unreachable!("3 digits are allowed"))
}

/// Notes a latency.
pub(crate) fn note(histogram: &mut Histogram<u64>, latency: Duration) {
    let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    // The histogram grows as needed, so every value fits.
    let _ = histogram.record(nanos);
}

/// Latencies are kept to a thousandth of their value.
const SIGNIFICANT_DIGITS: u8 = 3;
