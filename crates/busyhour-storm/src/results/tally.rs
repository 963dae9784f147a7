//! The counts of a phase.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The counts of one phase; the counts of several threads can be added.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Registrations begun.
    pub sent: u64,
    /// Registrations that ended with a valid 200 or REGACK.
    pub acknowledged: u64,
    /// Datagrams that were sent again.
    pub retransmitted: u64,
    /// Challenges that were answered.
    pub challenged: u64,
    /// Registrations that failed, by reason.
    pub failed: BTreeMap<Failure, u64>,
    /// Answers to a transaction that was over.
    pub late: u64,
    /// Datagrams that answer no request of this run.
    pub unexpected: u64,
    /// Sends and receives that the system refused.
    pub socket_errors: u64,
    /// Latency from due to acknowledged, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Present once the last registration has begun.
    pub offering: Option<Offering>,
}

/// The part of a phase in which registrations began. What an overloaded
/// server acknowledges later does not count, since the server does not
/// sustain that rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offering {
    /// How long this part was.
    pub took: Duration,
    /// Registrations that were acknowledged in this part.
    pub acknowledged: u64,
}

/// Why a registration failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// No final answer in time.
    Timeout,
    /// A 200 without the device's contact, or a REGACK without user name,
    /// lifetime or address.
    NotListed,
    /// The server sent a challenge, and there is no password to answer it
    /// with.
    Unanswerable,
    /// REGREJ, with its cause code.
    Rejected(u32),
    /// INVAL: the server does not know the call.
    Invalid,
    /// All call numbers were in use.
    NoCall,
    /// Any other final status.
    Status(u16),
}

impl Failure {
    /// For a table: `timeout`, `answer without the contact`, `403`.
    pub fn name(self) -> String {
        match self {
            Self::Timeout => "timeout".into(),
            Self::NotListed => "answer without the contact".into(),
            Self::Unanswerable => "challenge without a password".into(),
            Self::Rejected(code) => format!("REGREJ {code}"),
            Self::Invalid => "INVAL".into(),
            Self::NoCall => "no call number".into(),
            Self::Status(status) => status.to_string(),
        }
    }
}

impl Tally {
    /// What to do about refused registrations; empty if the reason is
    /// unknown.
    pub fn advice(&self, has_password: bool) -> &'static str {
        use Failure::{Rejected, Status, Unanswerable};
        let is_refused =
            |one: &Failure| matches!(one, Rejected(_) | Status(401 | 403) | Unanswerable);
        match self.failed.keys().any(is_refused) {
            true if has_password => UNKNOWN_ACCOUNTS,
            true => NO_PASSWORD,
            false => "",
        }
    }

    pub fn new() -> Self {
        Self {
            sent: 0,
            acknowledged: 0,
            retransmitted: 0,
            challenged: 0,
            failed: BTreeMap::new(),
            late: 0,
            unexpected: 0,
            socket_errors: 0,
            latency_ns: Histogram::new(SIGNIFICANT_DIGITS)
                .unwrap_or_else(|_| unreachable!("3 digits are allowed")),
            offering: None,
        }
    }

    /// Notes that no more registrations will begin, and how long after the
    /// first one was due. Only the first call counts.
    pub fn end_offering(&mut self, took: Duration) {
        let acknowledged = self.acknowledged;
        self.offering.get_or_insert(Offering { took, acknowledged });
    }

    pub fn fail(&mut self, failure: Failure) {
        *self.failed.entry(failure).or_default() += 1;
    }

    pub fn acknowledge(&mut self, latency: Duration) {
        self.acknowledged += 1;
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        // The histogram grows as needed, so every value fits.
        let _ = self.latency_ns.record(nanos);
    }

    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    pub fn finished(&self) -> u64 {
        self.acknowledged + self.failures()
    }

    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.retransmitted += other.retransmitted;
        self.challenged += other.challenged;
        self.late += other.late;
        self.unexpected += other.unexpected;
        self.socket_errors += other.socket_errors;
        other
            .failed
            .iter()
            .for_each(|(failure, count)| *self.failed.entry(*failure).or_default() += count);
        self.offering = Offering::sum(self.offering, other.offering);
        // Both histograms grow as needed, so adding one to the other can't fail.
        let _ = self.latency_ns.add(&other.latency_ns);
    }
}

impl Offering {
    /// Adds the parts of threads that offered registrations at the same time.
    fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (one, other) else {
            return one.or(other);
        };
        Some(Self {
            took: one.took.max(other.took),
            acknowledged: one.acknowledged + other.acknowledged,
        })
    }

    /// Converts a count in this part into a rate a second.
    pub fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Latencies are kept to a thousandth of their value.
const SIGNIFICANT_DIGITS: u8 = 3;

const NO_PASSWORD: &str = "\nthe server asks for passwords: start one for load tests with \
    `busyhour serve --sip-auth open`, or give accounts that it has: --auth USER:PASSWORD";
const UNKNOWN_ACCOUNTS: &str = "\nthe server refuses these accounts: its configuration needs an \
    [[account_range]] for them (`busyhour serve --print-config` shows one), or start a server for \
    load tests with `busyhour serve --sip-auth open`; if it has them, the contacts of an earlier \
    storm may be too many, and its log says so";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_after_the_last_offer_do_not_count_as_goodput() {
        let mut tally = Tally::new();
        tally.acknowledge(Duration::from_millis(1));
        tally.end_offering(Duration::from_secs(2));
        tally.acknowledge(Duration::from_secs(9));
        tally.end_offering(Duration::from_secs(10));
        let mut sum = Tally::new();
        sum.merge(&tally);
        sum.merge(&tally);
        assert_eq!(sum.acknowledged, 4);
        let offering = sum.offering.unwrap();
        assert_eq!(offering.per_s(offering.acknowledged), 1.0);
    }
}
