//! Recently failed registrations: when, from where and why, so that administrators can
//! find out why a device does not register. Devices that did not answer a challenge
//! have a separate table, since every successful registration is in it for a moment.
//!
//! Anybody can cause failures, under any name. So the table is bounded, a source has
//! its share of it and a user a few places; one more entry replaces the oldest. The
//! same failure again only raises a count.

use crate::server::load::shares::{Holder, Holders, Shares};
use busyhour::{clock::UnixTime, runtime::Runtime};
use busyhour_sip::{Flow, Transport, source_of};
use foldhash::quality::FixedState;
use serde::Serialize;
use std::{
    borrow::Cow,
    hash::BuildHasher,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Registrations that failed, and devices that were asked for a password and have not
/// answered.
pub(in crate::server) struct FailureNotes {
    failures: Failures,
    unanswered: Failures,
    /// The same of users without an account. It is never shown: it is kept so that how
    /// long an answer takes does not say who has an account.
    unanswered_by_nobody: Failures,
    runtime: Runtime,
    holders: Holders,
}

/// The recent failures, in shards with a lock each.
pub(in crate::server) struct Failures {
    shards: Box<[Mutex<Vec<Noted>>]>,
    hasher: FixedState,
    shares: Shares,
}

/// A noted failure, and how often it happened.
struct Noted {
    user: Box<str>,
    holder: Holder,
    failure: Failed,
    count: u64,
}

/// What failed, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Failed {
    pub(in crate::server) remote: SocketAddr,
    pub(in crate::server) transport: Transport,
    pub(in crate::server) protocol: &'static str,
    pub(in crate::server) reason: Cow<'static, str>,
    pub(in crate::server) at: UnixTime,
}

/// A failed registration as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureView {
    /// The user who was to be registered, as the request has it.
    pub user: String,
    /// When it was the last time, in seconds since 1970.
    pub at_unix_seconds: u64,
    /// The address and port that it came from.
    pub source: String,
    /// UDP, TCP or TLS.
    pub transport: String,
    /// `sip` or `iax2`.
    pub protocol: &'static str,
    /// Why it failed.
    pub reason: String,
    /// How often it failed so from that address.
    pub count: u64,
}

impl FailureNotes {
    pub(in crate::server) fn new(
        runtime: Runtime,
        holders: Holders,
        [failures, unanswered, unanswered_by_nobody]: [Failures; 3],
    ) -> Self {
        Self {
            failures,
            unanswered,
            unanswered_by_nobody,
            runtime,
            holders,
        }
    }

    /// Remembers why a registration of `user` failed.
    pub(in crate::server) fn note(
        &self,
        user: &str,
        flow: Flow,
        protocol: &'static str,
        reason: Cow<'static, str>,
    ) {
        let failure = self.failed(flow, protocol, reason);
        let holder = self.holders.of(flow.remote.ip(), None);
        let _last_time = self.failures.note(user, holder, failure);
    }

    /// Remembers that a device was asked for its password, until it
    /// [answers](Self::challenge_answered). A user who is not `is_known` is never shown,
    /// but takes as long. Whether it had been asked before, and sends something new, not only the
    /// same request again.
    pub(in crate::server) fn note_challenge(
        &self,
        user: &str,
        flow: Flow,
        protocol: &'static str,
        reason: &'static str,
        is_known: bool,
    ) -> bool {
        let failure = self.failed(flow, protocol, reason.into());
        let holder = self.holders.of(flow.remote.ip(), None);
        // Of a device that answers something else now, what it did before is not true.
        let table = match is_known {
            true => &self.unanswered,
            false => &self.unanswered_by_nobody,
        };
        table.forget(user, |noted| failure.is_of_other_reason(noted));
        let now = failure.at;
        let before = table.note(user, holder, failure);
        before.is_some_and(|before| now.as_nanos() >= before.as_nanos() + ASKED_AGAIN_NS)
    }

    /// A device has answered, rightly or not.
    pub(in crate::server) fn challenge_answered(
        &self,
        user: &str,
        flow: Flow,
        protocol: &'static str,
    ) {
        let remote = flow.remote.ip();
        self.unanswered
            .forget(user, |noted| noted.is_from(remote, protocol));
    }

    fn failed(&self, flow: Flow, protocol: &'static str, reason: Cow<'static, str>) -> Failed {
        Failed {
            remote: flow.remote,
            transport: flow.transport,
            protocol,
            reason,
            at: self.runtime.clock().unix_time(),
        }
    }

    /// What failed of a user, the last one first.
    pub(in crate::server) fn of(&self, user: &str) -> Vec<FailureView> {
        let Self {
            failures,
            unanswered,
            ..
        } = self;
        newest_first([failures.of(user), unanswered.of(user)].concat())
    }

    /// The last failures of all users, `limit` at most.
    pub(in crate::server) fn all(&self, limit: usize) -> Vec<FailureView> {
        let Self {
            failures,
            unanswered,
            ..
        } = self;
        let mut all = newest_first([failures.all(limit), unanswered.all(limit)].concat());
        all.truncate(limit);
        all
    }
}

impl Failures {
    /// `shares` are those of [`CAPACITY`] entries.
    pub(in crate::server) fn new(seed: u64, shares: Shares) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: FixedState::with_seed(seed),
            shares,
        }
    }

    /// A registration of `user` failed; `holder` is the source. When it did so the last time, if
    /// that is known.
    pub(in crate::server) fn note(
        &self,
        user: &str,
        holder: Holder,
        failure: Failed,
    ) -> Option<UnixTime> {
        if user.is_empty() || user.len() > USER_LEN_MAX {
            return None;
        }
        let new = Noted {
            user: user.into(),
            holder,
            failure,
            count: 1,
        };
        let mut shard = self.shard(user);
        if let Some(noted) = shard.iter_mut().find(|noted| noted.is(user, &new.failure)) {
            noted.count += 1;
            return Some(std::mem::replace(&mut noted.failure, new.failure).at);
        }
        if self.find_place(&mut shard, user, holder) {
            shard.push(new);
        }
        None
    }

    /// Makes room for one more entry of `user` and `holder`, and charges `holder` for
    /// it. Charges first: an entry that is refused must not replace one of others.
    fn find_place(&self, shard: &mut Vec<Noted>, user: &str, holder: Holder) -> bool {
        let of_user = |noted: &Noted| *noted.user == *user;
        let is_charged = self.shares.take(holder, 1).is_ok()
            || self.charge_instead(shard, holder, |noted| noted.holder == holder)
            || self.charge_instead(shard, holder, |_| true);
        if !is_charged {
            return false;
        }
        if shard.iter().filter(|noted| of_user(noted)).count() >= BY_USER_MAX {
            self.drop_oldest(shard, of_user);
        } else if shard.len() >= SHARD_LEN_MAX {
            self.drop_oldest(shard, |_| true);
        }
        true
    }

    /// Charges `holder` for the place of the oldest of those, which leaves if `holder`
    /// may have it.
    fn charge_instead(
        &self,
        shard: &mut Vec<Noted>,
        holder: Holder,
        is_one: impl Fn(&Noted) -> bool,
    ) -> bool {
        let Some(index) = oldest(shard, is_one) else {
            return false;
        };
        let before = shard[index].holder;
        self.shares.give_back(before, 1);
        let is_charged = self.shares.take(holder, 1).is_ok();
        match is_charged {
            true => drop(shard.swap_remove(index)),
            false => self.shares.take_anyway(before, 1),
        }
        is_charged
    }

    fn drop_oldest(&self, shard: &mut Vec<Noted>, is_one: impl Fn(&Noted) -> bool) {
        if let Some(index) = oldest(shard, is_one) {
            let noted = shard.swap_remove(index);
            self.shares.give_back(noted.holder, 1);
        }
    }

    /// Drops those failures of a user.
    fn forget(&self, user: &str, is_one: impl Fn(&Failed) -> bool) {
        if self.shares.used() == 0 {
            return;
        }
        let is_dropped = |noted: &mut Noted| *noted.user == *user && is_one(&noted.failure);
        for noted in self.shard(user).extract_if(.., is_dropped) {
            self.shares.give_back(noted.holder, 1);
        }
    }

    /// Those of a user, the last one first.
    pub(in crate::server) fn of(&self, user: &str) -> Vec<FailureView> {
        let shard = self.shard(user);
        let of_user = shard.iter().filter(|noted| *noted.user == *user);
        newest_first(of_user.map(Noted::view).collect())
    }

    /// The last ones of all users, `limit` at most.
    pub(in crate::server) fn all(&self, limit: usize) -> Vec<FailureView> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(lock(shard).iter().map(Noted::view));
        }
        let mut all = newest_first(all);
        all.truncate(limit);
        all
    }

    fn shard(&self, user: &str) -> MutexGuard<'_, Vec<Noted>> {
        lock(&self.shards[self.hasher.hash_one(user) as usize % SHARDS])
    }
}

impl Failed {
    /// Whether it came by this protocol from the source of this address.
    fn is_from(&self, remote: IpAddr, protocol: &str) -> bool {
        self.protocol == protocol && source_of(self.remote.ip()) == source_of(remote)
    }

    /// Whether `earlier` is from the same source, but for another reason.
    fn is_of_other_reason(&self, earlier: &Self) -> bool {
        earlier.is_from(self.remote.ip(), self.protocol) && earlier.reason != self.reason
    }
}

impl Noted {
    /// Whether it is the same failure, at any time and port.
    fn is(&self, user: &str, failure: &Failed) -> bool {
        *self.user == *user
            && (self.failure).is_from(failure.remote.ip(), failure.protocol)
            && self.failure.reason == failure.reason
    }

    fn view(&self) -> FailureView {
        let Failed {
            remote,
            transport,
            protocol,
            reason,
            at,
        } = &self.failure;
        FailureView {
            user: self.user.to_string(),
            at_unix_seconds: at.as_secs(),
            source: SocketAddr::new(remote.ip().to_canonical(), remote.port()).to_string(),
            transport: transport.to_string(),
            protocol,
            reason: reason.to_string(),
            count: self.count,
        }
    }
}

fn oldest(shard: &[Noted], is_one: impl Fn(&Noted) -> bool) -> Option<usize> {
    let ones = shard.iter().enumerate().filter(|(_, noted)| is_one(noted));
    let oldest = ones.min_by_key(|(_, noted)| noted.failure.at);
    oldest.map(|(index, _)| index)
}

fn newest_first(mut views: Vec<FailureView>) -> Vec<FailureView> {
    views.sort_unstable_by_key(|view| std::cmp::Reverse(view.at_unix_seconds));
    views
}

fn lock(shard: &Mutex<Vec<Noted>>) -> MutexGuard<'_, Vec<Noted>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a device is in the table of those that were asked and have not answered.
pub(in crate::server) const NEVER_ANSWERED: &str = "asked for a password, never answered";
/// The same of one that answers, but only challenges that are too old.
pub(in crate::server) const ANSWERS_OLD_NONCE: &str =
    "asked again since its nonce was too old, never answered that";
/// A request is sent again within 4 s (T2, RFC 3261 §17.1.2.1).
const ASKED_AGAIN_NS: u64 = 5_000_000_000;
/// Entries in all.
pub(in crate::server) const CAPACITY: usize = 8192;
const SHARDS: usize = 128;
/// A look at all of a shard is soon done.
const SHARD_LEN_MAX: usize = CAPACITY / SHARDS;
/// Different failures of one user.
const BY_USER_MAX: usize = 4;
/// As long as the name of an account may be.
const USER_LEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::{self, Holders};
    use std::net::Ipv4Addr;

    fn failures() -> Failures {
        let parts = shares::Parts {
            by_source: 10,
            by_account: 100,
            by_domain: 100,
            least: 1,
        };
        Failures::new(1, Shares::new(CAPACITY as u64, parts))
    }

    fn forget(failures: &Failures, user: &str, remote: IpAddr, protocol: &str) {
        failures.forget(user, |noted| noted.is_from(remote, protocol));
    }

    fn fail(failures: &Failures, user: &str, host: u32, reason: &'static str, second: u64) {
        note(failures, user, Ipv4Addr::from(host).into(), reason, second);
    }

    fn note(failures: &Failures, user: &str, source: IpAddr, reason: &'static str, second: u64) {
        let failure = Failed {
            remote: (source, 5060).into(),
            transport: Transport::Udp,
            protocol: "sip",
            reason: reason.into(),
            at: UnixTime::from_secs(second),
        };
        failures.note(user, Holders::new(1).of(source, None), failure);
    }

    #[test]
    fn the_last_failures_of_a_user_are_listed_and_repeated_ones_counted() {
        let failures = failures();
        for second in 1..=3 {
            fail(&failures, "bob", 1, "wrong password", second);
        }
        fail(&failures, "bob", 1, "unknown account", 4);
        fail(&failures, "alice", 1, "wrong password", 5);
        let told = failures.of("bob");
        assert_eq!(told.len(), 2);
        assert_eq!((&*told[0].reason, told[0].count), ("unknown account", 1));
        assert_eq!((told[1].count, told[1].at_unix_seconds), (3, 3));
        for host in 2..20 {
            fail(
                &failures,
                "bob",
                host,
                "wrong password",
                u64::from(host) + 10,
            );
        }
        let told = failures.of("bob");
        assert_eq!(told.len(), BY_USER_MAX);
        assert_eq!(told[0].source, "0.0.0.19:5060");
        assert_eq!(failures.all(1)[0], told[0]);
    }

    #[test]
    fn failures_of_a_user_at_one_address_are_removed() {
        let failures = failures();
        for (user, host) in [("bob", 1), ("bob", 2), ("alice", 1)] {
            fail(&failures, user, host, NEVER_ANSWERED, 1);
        }
        forget(&failures, "bob", Ipv4Addr::from(2).into(), "iax2");
        assert_eq!(failures.of("bob").len(), 2, "by SIP it has not answered");
        forget(&failures, "bob", Ipv4Addr::from(1).into(), "sip");
        let told = failures.of("bob");
        assert_eq!((told.len(), &*told[0].source), (1, "0.0.0.2:5060"));
        assert_eq!(failures.of("alice").len(), 1);
        assert_eq!(failures.shares.used(), 2);
    }

    #[test]
    fn addresses_of_one_source_count_as_one() {
        let failures = failures();
        for (second, address) in [
            "2001:db8::1",
            "2001:db8::2",
            "192.0.2.1",
            "::ffff:192.0.2.1",
        ]
        .into_iter()
        .enumerate()
        {
            note(
                &failures,
                "bob",
                address.parse().unwrap(),
                NEVER_ANSWERED,
                second as u64,
            );
        }
        let told = failures.of("bob").into_iter().map(|view| view.count);
        assert_eq!(told.collect::<Vec<_>>(), [2, 2]);
        for address in ["2001:db8::3", "192.0.2.1"] {
            forget(&failures, "bob", address.parse().unwrap(), "sip");
        }
        assert_eq!(failures.of("bob"), []);
    }

    /// Both kinds of users take the same way, and only one is shown.
    #[test]
    fn users_without_an_account_are_noted_and_never_shown() {
        let runtime = Runtime::simulated(1);
        let tables = [failures(), failures(), failures()];
        let notes = FailureNotes::new(runtime, Holders::new(1), tables);
        let flow = Flow::udp(
            (Ipv4Addr::LOCALHOST, 5060).into(),
            (Ipv4Addr::LOCALHOST, 5061).into(),
        );
        for (user, is_known) in [("nobody", false), ("bob", true), ("nobody", false)] {
            notes.note_challenge(user, flow, "sip", NEVER_ANSWERED, is_known);
        }
        let told = notes.all(10);
        assert_eq!((told.len(), &*told[0].user), (1, "bob"));
        assert_eq!(notes.of("nobody"), []);
        assert_eq!(notes.unanswered_by_nobody.of("nobody")[0].count, 2);
    }

    #[test]
    fn a_failure_that_is_refused_replaces_no_other() {
        let parts = shares::Parts {
            by_source: 10,
            by_account: 100,
            by_domain: 100,
            least: 1,
        };
        let failures = Failures::new(1, Shares::new(20, parts));
        fail(&failures, "alice", 1, "wrong password", 1);
        fail(&failures, "carol", 1, "wrong password", 2);
        for host in 2..6 {
            fail(&failures, "bob", host, "wrong password", u64::from(host));
        }
        let before = failures.of("bob");
        fail(&failures, "bob", 1, "wrong password", 9);
        assert_eq!(failures.of("bob"), before, "host 1 has its share");
        assert_eq!(failures.shares.used(), 6);
        fail(&failures, "alice", 1, "unknown account", 10);
        let told = failures.of("alice");
        assert_eq!((told.len(), &*told[0].reason), (1, "unknown account"));
        assert_eq!(failures.of("carol").len(), 1);
    }

    #[test]
    fn failures_of_one_source_and_of_all_are_bounded() {
        let failures = failures();
        for number in 0..20_000 {
            fail(
                &failures,
                &format!("u{number}"),
                1,
                "wrong password",
                number,
            );
        }
        let held = failures.shares.used();
        assert!(held <= CAPACITY as u64 / 10, "{held}");
        for number in 0..100_000 {
            let host = number as u32 + 2;
            fail(
                &failures,
                &format!("v{number}"),
                host,
                "wrong password",
                number,
            );
        }
        let len = failures.all(usize::MAX).len();
        assert!(len <= CAPACITY, "{len}");
        assert_eq!(failures.shares.used(), len as u64);
        fail(&failures, "bob", 7, "wrong password", 1 << 40);
        assert_eq!(failures.of("bob").len(), 1, "there is room for the next");
    }
}
