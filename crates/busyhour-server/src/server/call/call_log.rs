//! Records of calls on their way to the store.
//!
//! A record is one change of the store's next group commit, and no message waits for it. One
//! batch at a time is with the store; what ends meanwhile waits here and goes with the next
//! one, so that records never take more than a small part of the store's queue. A batch that
//! could not be stored is tried again a second later; beyond a bound, new records are lost,
//! and counted.

use super::super::{
    nanos,
    persistence::Persistence,
    server_clock::ServerClock,
    stats::{CallOutcomeStats, CallRecordStats, counters::Counter, histogram::Histogram},
};
use super::refused_calls::{Caller, RefusalRecord, RefusedCalls};
use crate::lock::lock;
use crate::server::CallConfig;
use busyhour::clock::Instant;
use busyhour_proxy::dialogs::{CALL_ID_LEN_MAX, CallOutcome, CallRecord, Party, Role};
use busyhour_sip::{Flow, HeaderName, Message, Status};
use busyhour_store::{
    CallRecordLimits, CallRecordQuery, CallRecordRow, Change, CommitError, Refused, StoreError,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Takes the records of calls that ended.
pub(in crate::server) struct CallLog {
    state: Mutex<State>,
    outcomes: [Counter; CallOutcome::ALL.len()],
    post_dial_delay: Histogram,
    stored: Counter,
    lost: Counter,
    refused: RefusedCalls,
    /// Calls that the server refused, without a record.
    left_out: Counter,
    days_max: AtomicU32,
    count_max: AtomicU64,
    persistence: Arc<Persistence>,
    clock: Arc<ServerClock>,
}

struct State {
    waiting: VecDeque<CallRecordRow>,
    waiting_high_water: usize,
    /// Records that the store has and has not answered for.
    committing_len: usize,
    /// The store did not take the last batch.
    is_resting: bool,
    /// The store is about to be closed, and no sweep comes any more.
    is_finishing: bool,
    next_id: u64,
    removal_at: Instant,
}

impl CallLog {
    pub(in crate::server) fn new(
        config: &CallConfig,
        last_id: u64,
        persistence: Arc<Persistence>,
        clock: Arc<ServerClock>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                waiting_high_water: 0,
                committing_len: 0,
                is_resting: false,
                is_finishing: false,
                next_id: last_id + 1,
                removal_at: clock.now(),
            }),
            outcomes: Default::default(),
            post_dial_delay: Histogram::default(),
            stored: Counter::default(),
            lost: Counter::default(),
            refused: RefusedCalls::new(),
            left_out: Counter::default(),
            days_max: AtomicU32::new(config.records_days),
            count_max: AtomicU64::new(config.records_max),
            persistence,
            clock,
        }
    }

    /// From now on so many records are kept, and for so long.
    pub(in crate::server) fn keep(&self, days_max: u32, count_max: u64) {
        self.days_max.store(days_max, Ordering::Relaxed);
        self.count_max.store(count_max, Ordering::Relaxed);
    }

    /// Counts calls that ended, and gives their records to the store.
    pub(super) fn note(self: &Arc<Self>, records: Vec<CallRecord>) {
        let mut state = lock(&self.state);
        for record in records {
            self.outcomes[record.outcome() as usize].increment();
            if let Some(delay) = record.post_dial_delay {
                self.post_dial_delay.record(delay);
            }
            self.queue(&mut state, &record);
        }
        let batch = state.take_batch();
        drop(state);
        self.commit(batch);
    }

    /// The server refuses an INVITE with this status before it is a call. `party` is the
    /// caller, as far as that is known.
    pub(super) fn note_refused(
        self: &Arc<Self>,
        message: &Message<'_>,
        (flow, status): (Flow, Status),
        caller: Caller,
        party: Option<&Party>,
    ) {
        if self.admits_refused(caller, |name| message.header(name).unwrap_or(""), status) {
            self.note_admitted(message, (flow, status), party);
        }
    }

    /// Whether a call with these headers that is refused has a record; counted if not. Most have
    /// none, so it is asked before anything is made.
    pub(super) fn admits_refused<'t>(
        &self,
        caller: Caller,
        header: impl Fn(HeaderName) -> &'t str,
        status: Status,
    ) -> bool {
        // It would have no record, and takes no place of one.
        if header(HeaderName::CallId).len() > CALL_ID_LEN_MAX {
            return false;
        }
        let admitted = self.refused.admit(caller, header, status);
        if admitted == RefusalRecord::LeftOut {
            self.left_out.increment();
        }
        admitted == RefusalRecord::Written
    }

    /// As [`note_refused`](Self::note_refused), for one that has a record.
    pub(super) fn note_admitted(
        self: &Arc<Self>,
        message: &Message<'_>,
        (flow, status): (Flow, Status),
        party: Option<&Party>,
    ) {
        let at = self.clock.moment().unix;
        let record = CallRecord::refused(at, message, party, (flow, status.code()));
        self.note(record.into_iter().collect());
    }

    fn queue(&self, state: &mut State, record: &CallRecord) {
        if self.count_max.load(Ordering::Relaxed) == 0 {
            return;
        }
        if state.waiting.len() >= WAITING_MAX {
            return self.lost.increment();
        }
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.push_back(row(id, record));
        let len = state.waiting.len();
        state.waiting_high_water = state.waiting_high_water.max(len);
    }

    /// Hands a batch over; what ended meanwhile follows when the store has answered.
    fn commit(self: &Arc<Self>, batch: Vec<CallRecordRow>) {
        if batch.is_empty() {
            return;
        }
        let change = |row: &CallRecordRow| Change::PutCallRecord(Box::new(row.clone()));
        let changes = batch.iter().map(change).collect();
        let batch = Arc::new(Mutex::new(batch));
        let (log, kept) = (Arc::downgrade(self), batch.clone());
        let done = move |outcome: Result<(), CommitError>| {
            if let Some(log) = log.upgrade() {
                let batch = std::mem::take(&mut *lock(&kept));
                log.committed(batch, outcome.is_ok());
            }
        };
        match self.persistence.store().commit(changes, Box::new(done)) {
            Ok(()) => {}
            Err(Refused::Full) => self.put_back(std::mem::take(&mut *lock(&batch))),
            // Nothing is stored any more.
            Err(Refused::Closed | Refused::Overtaken) => self.lose(lock(&batch).len()),
        }
    }

    fn committed(self: &Arc<Self>, batch: Vec<CallRecordRow>, is_stored: bool) {
        if !is_stored {
            return self.put_back(batch);
        }
        self.stored.add(batch.len() as u64);
        let mut state = lock(&self.state);
        state.committing_len = 0;
        let next = state.take_batch();
        drop(state);
        self.commit(next);
    }

    /// They are tried again at the next sweep, if there is one; else they are lost. A record
    /// that was stored nevertheless is not stored twice, since it keeps its id.
    fn put_back(&self, batch: Vec<CallRecordRow>) {
        let mut state = lock(&self.state);
        if state.is_finishing {
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            return self.lose(batch.len() + waiting.len());
        }
        state.committing_len = 0;
        state.is_resting = true;
        for row in batch.into_iter().rev() {
            state.waiting.push_front(row);
        }
    }

    fn lose(&self, len: usize) {
        self.lost.add(len as u64);
        lock(&self.state).committing_len = 0;
    }

    /// Once a second: tries again what was not stored, and lets the store remove what is
    /// old.
    pub(in crate::server) fn sweep(self: &Arc<Self>) {
        self.refused.sweep();
        let now = self.clock.now();
        let mut state = lock(&self.state);
        state.is_resting = false;
        let batch = state.take_batch();
        let is_due = now >= state.removal_at;
        if is_due {
            state.removal_at = now + REMOVAL_PERIOD;
        }
        drop(state);
        self.commit(batch);
        if is_due {
            let unix = self.clock.moment().unix.as_nanos();
            let days = self.days_max.load(Ordering::Relaxed);
            let age_max = Duration::from_secs(u64::from(days) * DAY_SECONDS).as_nanos();
            let age_max = u64::try_from(age_max).unwrap_or(u64::MAX);
            let ended_before = busyhour::clock::UnixTime::from_nanos(unix.saturating_sub(age_max));
            let store = self.persistence.store();
            store.remove_old_call_records(CallRecordLimits {
                ended_before,
                count_max: self.count_max.load(Ordering::Relaxed),
            });
        }
    }

    /// Hands over all that waits, before the store is closed. What it does not take is lost.
    pub(in crate::server) fn finish(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.is_finishing = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.commit(waiting.into());
    }

    /// Reads from the store; it may block for long.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub(in crate::server) fn read(
        &self,
        query: &CallRecordQuery,
    ) -> Result<Vec<CallRecordRow>, StoreError> {
        self.persistence.store().call_records(query)
    }

    pub(in crate::server) fn outcome_stats(&self) -> CallOutcomeStats {
        let count = |outcome: CallOutcome| self.outcomes[outcome as usize].get();
        CallOutcomeStats {
            answered: count(CallOutcome::Answered),
            busy: count(CallOutcome::Busy),
            no_answer: count(CallOutcome::NoAnswer),
            cancelled: count(CallOutcome::Cancelled),
            unavailable: count(CallOutcome::Unavailable),
            refused: count(CallOutcome::Refused),
            failed: count(CallOutcome::Failed),
        }
    }

    pub(in crate::server) fn post_dial_delay(&self) -> &Histogram {
        &self.post_dial_delay
    }

    pub(in crate::server) fn stats(&self) -> CallRecordStats {
        let state = lock(&self.state);
        CallRecordStats {
            waiting_len: (state.waiting.len() + state.committing_len) as u64,
            waiting_high_water: state.waiting_high_water as u64,
            waiting_capacity: WAITING_MAX as u64,
            stored: self.stored.get(),
            lost: self.lost.get(),
            refused_left_out: self.left_out.get(),
        }
    }
}

impl State {
    /// Empty while the store has a batch, or after it refused one.
    fn take_batch(&mut self) -> Vec<CallRecordRow> {
        if self.committing_len > 0 || self.is_resting {
            return Vec::new();
        }
        let len = self.waiting.len().min(BATCH_LEN);
        self.committing_len = len;
        self.waiting.drain(..len).collect()
    }
}

fn row(id: u64, record: &CallRecord) -> CallRecordRow {
    CallRecordRow {
        id,
        call_id: record.names.call_id().into(),
        from: record.caller().into(),
        to: record.callee().into(),
        caller: record.caller_device.as_deref().map(Into::into),
        answered_by: record.answered_by.as_deref().map(Into::into),
        began_at_ns: record.began.as_nanos(),
        rang_at_ns: record.rang.map(|at| at.as_nanos()),
        answered_at_ns: record.answered.map(|at| at.as_nanos()),
        ended_at_ns: record.ended.as_nanos(),
        post_dial_delay_ns: record.post_dial_delay.map(nanos),
        talk_time_ns: record.talk_time.map(nanos),
        outcome: record.outcome().as_str().into(),
        status: record.status,
        end: record.end.as_str().into(),
        ended_by: record.ended_by.map(|role| match role {
            Role::Caller => "caller".into(),
            Role::Callee => "callee".into(),
        }),
        caller_flow: record.caller_flow.clone(),
        callee_flow: record.callee_flow.clone(),
        media_failure: record.media_failure.map(|failure| failure.as_str().into()),
    }
}

/// A small part of the store's queue, and of the time of a transaction.
const BATCH_LEN: usize = 256;
/// They take about 16 MB.
const WAITING_MAX: usize = 16_384;
const REMOVAL_PERIOD: Duration = Duration::from_secs(60);
const DAY_SECONDS: u64 = 24 * 60 * 60;
