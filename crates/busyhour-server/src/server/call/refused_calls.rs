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

    /// Whether there is room for the record of a caller; `holder` has proved itself, or there
    /// is only a `source`.
    pub(super) fn admit(&self, caller: Caller) -> bool {
        match caller {
            Caller::Proven(holder) => self.proven.take(holder, 1).is_ok(),
            Caller::Stranger(source) => self.strangers.take(source, 1).is_ok(),
        }
    }

    /// Whether the same INVITE was recorded just now.
    pub(super) fn is_repeated(&self, record: &CallRecord, cseq: u32) -> bool {
        let names = (record.names.call_id(), record.caller(), cseq, record.status);
        let hash = self.hasher.hash_one(names);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = last.contains(&hash);
        if !is_known {
            last.push_back(hash);
            if last.len() > LAST_LEN {
                last.pop_front();
            }
        }
        is_known
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
