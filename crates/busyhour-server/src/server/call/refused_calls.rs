//! Which of the calls that the server itself refuses get a record.
//!
//! Anybody can cause as many as he likes, and a record that is written takes the place of
//! the oldest one. So callers who have proved who they are have a number of records a second,
//! of which each has a share, and all others together some a minute: in thirty days they
//! write fewer than half of the records that are kept by default.

use crate::server::load::shares::{Holder, Parts, Shares};
use busyhour_proxy::dialogs::CallRecord;
use foldhash::fast::RandomState;
use std::{
    collections::VecDeque,
    hash::BuildHasher,
    sync::{Mutex, PoisonError},
};

/// Decides who gets a record.
pub(super) struct RefusedCalls {
    proven: Shares,
    strangers: Shares,
    /// The last calls that were recorded: a refusal is kept nowhere, so a repeated INVITE is
    /// refused again.
    last: Mutex<VecDeque<u64>>,
    hasher: RandomState,
    sweeps: Mutex<u32>,
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

    /// Whether the INVITE of a caller, with this CSeq, gets this record.
    pub(super) fn admit(&self, caller: Caller, record: &CallRecord, cseq: u32) -> RefusalRecord {
        let names = (record.names.call_id(), record.caller(), cseq, record.status);
        let hash = self.hasher.hash_one(names);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is sent again takes nothing of what others have.
        if last.contains(&hash) {
            return RefusalRecord::Repeated;
        }
        let place = match caller {
            Caller::Proven(holder) => self.proven.take(holder, 1),
            Caller::Stranger(source) => self.strangers.take(source, 1),
        };
        if place.is_err() {
            return RefusalRecord::LeftOut;
        }
        last.push_back(hash);
        if last.len() > LAST_LEN {
            last.pop_front();
        }
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
    use busyhour::clock::UnixTime;
    use busyhour_sip::{Flow, Message};

    fn record(call_id: &str) -> CallRecord {
        let text = format!(
            "INVITE sip:bob@example.com SIP/2.0\r\nFrom: <sip:a@example.com>;tag=1\r\n\
             To: <sip:bob@example.com>\r\nCall-ID: {call_id}\r\nCSeq: 1 INVITE\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes()).expect("a message");
        let address = "192.0.2.7:5060".parse().expect("an address");
        let at = (Flow::udp(address, address), 404);
        CallRecord::refused(UnixTime::from_secs(1), &message, None, at).expect("its names")
    }

    #[test]
    fn an_invite_that_is_sent_again_takes_nothing_of_the_share() {
        let calls = RefusedCalls::new();
        let source = "192.0.2.7".parse().expect("an address");
        let holder = Holders::new(1).of(source, None);
        let admit = |call_id| calls.admit(Caller::Stranger(holder), &record(call_id), 1);
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
}
