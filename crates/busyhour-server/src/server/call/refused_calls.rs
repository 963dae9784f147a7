//! Which of the calls that the server itself refuses get a record.
//!
//! Anybody can cause as many as he likes, and a record that is written takes the place of
//! the oldest one. So callers who have proved who they are have a number of records a second,
//! of which each has a share, and all others together some a minute: in thirty days they
//! write fewer than half of the records that are kept by default.

use crate::server::load::shares::{Holder, Parts, Shares};
use busyhour_sip::{HeaderName, Status};
use foldhash::fast::RandomState;
use std::{
    collections::{HashSet, VecDeque},
    hash::BuildHasher,
    sync::{Mutex, PoisonError},
};

/// Decides who gets a record.
pub(super) struct RefusedCalls {
    proven: Shares,
    strangers: Shares,
    /// The last calls that were recorded: a refusal is kept nowhere, so a repeated INVITE is
    /// refused again.
    last: Mutex<Recorded>,
    hasher: RandomState,
    sweeps: Mutex<u32>,
}

/// The last [`LAST_LEN`] calls that were recorded, as hashes of what tells them apart.
#[derive(Default)]
struct Recorded {
    hashes: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RefusedCalls {
    pub(super) fn new() -> Self {
        let part = |percent| Parts {
            by_source: percent,
            by_account: percent,
            by_domain: percent,
            least: 1,
        };
        Self {
            proven: Shares::new(PROVEN_PER_SECOND, part(20)),
            strangers: Shares::new(STRANGERS_PER_MINUTE, part(50)),
            last: Mutex::default(),
            hasher: RandomState::default(),
            sweeps: Mutex::default(),
        }
    }

    /// Whether the INVITE of a caller with these headers, as they are written, gets a record for
    /// its refusal with this status.
    pub(super) fn admit<'t>(
        &self,
        caller: Caller,
        header: impl Fn(HeaderName) -> &'t str,
        status: Status,
    ) -> RefusalRecord {
        let names = [HeaderName::CallId, HeaderName::From, HeaderName::CSeq].map(header);
        let hash = self.hasher.hash_one((names, status.code()));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is sent again takes nothing of what others have.
        if last.hashes.contains(&hash) {
            return RefusalRecord::Repeated;
        }
        let place = match caller {
            Caller::Proven(holder) => self.proven.take(holder, 1),
            Caller::Stranger(source) => self.strangers.take(source, 1),
        };
        if place.is_err() {
            return RefusalRecord::LeftOut;
        }
        last.note(hash);
        RefusalRecord::Written
    }

    /// Once a second.
    pub(super) fn sweep(&self) {
        self.proven.clear();
        let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        *sweeps = (*sweeps + 1) % 60;
        if *sweeps == 0 {
            self.strangers.clear();
        }
    }
}

impl Recorded {
    fn note(&mut self, hash: u64) {
        self.hashes.insert(hash);
        self.order.push_back(hash);
        if self.order.len() > LAST_LEN {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.hashes.remove(&oldest));
        }
    }
}

/// What becomes of the record of a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum RefusalRecord {
    Written,
    /// The same INVITE was recorded just now.
    Repeated,
    /// Its caller, or all, have had their records of this second or minute.
    LeftOut,
}

/// Who is refused.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) enum Caller {
    /// It has proved who it is, or nobody has to.
    Proven(Holder),
    /// Somebody at this source.
    Stranger(Holder),
}

const PROVEN_PER_SECOND: u64 = 20;
const STRANGERS_PER_MINUTE: u64 = 10;
/// More than are recorded while an INVITE is repeated.
const LAST_LEN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::Holders;

    fn admit(calls: &RefusedCalls, caller: Caller, call_id: &str) -> RefusalRecord {
        let header = |name| match name {
            HeaderName::CallId => call_id,
            _ => "the same",
        };
        calls.admit(caller, header, Status::NOT_FOUND)
    }

    fn holder() -> Holder {
        Holders::new(1).of("192.0.2.7".parse().expect("an address"), None)
    }

    #[test]
    fn an_invite_that_is_sent_again_takes_nothing_of_the_share() {
        let calls = RefusedCalls::new();
        let admit = |call_id| admit(&calls, Caller::Stranger(holder()), call_id);
        assert_eq!(admit("first"), RefusalRecord::Written);
        for _ in 0..20 {
            assert_eq!(admit("first"), RefusalRecord::Repeated);
        }
        // Half of ten in a minute.
        for call_id in ["second", "third", "fourth", "fifth"] {
            assert_eq!(admit(call_id), RefusalRecord::Written);
        }
        assert_eq!(admit("sixth"), RefusalRecord::LeftOut);
    }

    #[test]
    fn only_so_many_of_the_last_ones_are_known() {
        let calls = RefusedCalls::new();
        let admit = |call_id: usize| {
            calls.sweep();
            admit(&calls, Caller::Proven(holder()), &call_id.to_string())
        };
        for call_id in 0..LAST_LEN {
            assert_eq!(admit(call_id), RefusalRecord::Written);
        }
        assert_eq!(admit(0), RefusalRecord::Repeated, "the oldest");
        assert_eq!(admit(LAST_LEN), RefusalRecord::Written);
        assert_eq!(admit(0), RefusalRecord::Written, "it is forgotten");
        assert_eq!(admit(LAST_LEN), RefusalRecord::Repeated);
        let last = calls.last.lock().expect("no panic");
        assert_eq!((last.hashes.len(), last.order.len()), (LAST_LEN, LAST_LEN));
    }
}
