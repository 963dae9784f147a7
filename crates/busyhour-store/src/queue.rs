//! The bounded queue in front of a store's writer, and its accounting.
//!
//! Producers push under a short lock, and the writer takes everything that has arrived
//! at once. This is group commit: while one transaction goes to the disk, the next
//! group collects here.

use super::{
    CallRecordLimits, Change, CommitError, Completion, EndListener, Refused, StoreStats,
    call_records::OldCallRecords, expired_rows::ExpiredRows,
};
use busyhour::pool::TaskPool;
use busyhour_cluster::Grant;
use busyhour_registrar::EndedBinding;
use std::{
    sync::{Condvar, Mutex, MutexGuard, OnceLock},
    time::{Duration, Instant},
};

/// Changes that become durable together, and whom to tell.
pub(super) struct Batch {
    /// Without it they may not be written, in a cluster.
    pub(super) grant: Option<Grant>,
    pub(super) changes: Vec<Change>,
    pub(super) done: Completion,
}

impl Batch {
    /// Changes that belong to no partition, or to a server alone.
    pub(super) fn of(changes: Vec<Change>, done: Completion) -> Self {
        Self {
            grant: None,
            changes,
            done,
        }
    }
}

/// Batches that wait for the writer.
pub(super) struct Queue {
    state: Mutex<State>,
    /// How long batches may wait behind the group on its way.
    commit_timeout: Duration,
    arrived: Condvar,
    emptied: Condvar,
    ended: Condvar,
    /// The pool whose tasks the writer runs between commits, once it is set.
    pool: OnceLock<TaskPool>,
}

/// What a writer finds when it looks.
pub(super) enum Taken {
    /// Everything that has arrived.
    Group(Vec<Batch>),
    /// Rows to be removed, for which nobody waits.
    Ended(Vec<EndedBinding>),
    /// Old records of calls are to be removed, for which nobody waits either.
    OldCallRecords(CallRecordLimits),
    /// Nothing arrived in time.
    Nothing,
    /// Nothing is left, and nothing will come.
    Closed,
}

struct State {
    waiting: Vec<Batch>,
    /// When the first of those that wait has come.
    arrived_at: Option<Instant>,
    /// The same of the group on its way.
    group_arrived_at: Option<Instant>,
    ended_rows: ExpiredRows,
    old_call_records: OldCallRecords,
    /// When the group on its way was taken.
    taken_at: Option<Instant>,
    /// What was taken is to be removed, and groups wait for that.
    removes_in_turn: bool,
    /// Why the current group is not written yet, if the writer knows.
    last_error: Option<CommitError>,
    closed: bool,
    /// The writer is gone.
    ended: bool,
    /// Called if the writer ends before the queue is closed.
    end_listener: Option<EndListener>,
    /// Set with `closed`: after this time nobody waits for the rest.
    give_up_at: Option<Instant>,
    stats: StoreStats,
}

impl Queue {
    /// Room for `capacity` changes. `commit_timeout` has an effect only if a thread
    /// runs [`watchdog`](Self::watchdog).
    pub(super) fn new(capacity: usize, commit_timeout: Duration) -> Self {
        let stats = StoreStats::of_queue(capacity as u64);
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                arrived_at: None,
                group_arrived_at: None,
                ended_rows: ExpiredRows::new(),
                old_call_records: OldCallRecords::default(),
                taken_at: None,
                removes_in_turn: false,
                last_error: None,
                closed: false,
                ended: false,
                end_listener: None,
                give_up_at: None,
                stats,
            }),
            commit_timeout,
            arrived: Condvar::new(),
            emptied: Condvar::new(),
            ended: Condvar::new(),
            pool: OnceLock::new(),
        }
    }

    pub(super) fn push(&self, batch: Batch) -> Result<(), Refused> {
        let mut state = self.lock();
        state.admit(batch.changes.len() as u64)?;
        let was_empty = state.waiting.is_empty();
        if was_empty {
            state.arrived_at = Some(Instant::now());
        }
        state.waiting.push(batch);
        drop(state);
        if was_empty {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Queues ended rows; if there is no room they are dropped, and counted.
    pub(super) fn purge(&self, ended: &[EndedBinding]) {
        // The writer is not woken for them: it checks soon enough.
        self.lock().ended_rows.push(ended);
    }

    /// As [`purge`](Self::purge), for records of calls.
    pub(super) fn remove_old_call_records(&self, limits: CallRecordLimits) {
        self.lock().old_call_records.want(limits);
    }

    pub(super) fn lend_to(&self, pool: &TaskPool) {
        let _only_the_first_counts = self.pool.set(pool.clone());
    }

    pub(super) fn pool(&self) -> Option<&TaskPool> {
        self.pool.get()
    }

    /// Waits for work, but no longer than `commit_timeout`.
    pub(super) fn take(&self, commit_timeout: Duration) -> Taken {
        let state = self.lock();
        let idle = |state: &mut State| {
            state.waiting.is_empty()
                && !state.ended_rows.is_due()
                && !state.old_call_records.is_due()
                && !state.closed
        };
        let waited = self.arrived.wait_timeout_while(state, commit_timeout, idle);
        let (mut state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.take()
    }

    /// As [`take`](Self::take), but never what is to be removed, which another thread
    /// [takes](Self::take_removal).
    pub(super) fn take_changes(&self, timeout: Duration) -> Taken {
        let state = self.lock();
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let waited = self.arrived.wait_timeout_while(state, timeout, idle);
        let (mut state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.take_group()
    }

    /// A batch of what is to be removed, if there is one.
    pub(super) fn take_removal(&self) -> Option<Taken> {
        self.lock().take_old()
    }

    /// Refuses the changes that wait behind a group which takes longer than the commit
    /// timeout, until the writer ends. The commit timeout holds only while some thread
    /// runs this. What waits was never sent to the database, so it is certainly not
    /// stored. The group may have been stored, so it is kept.
    pub(super) fn watchdog(&self) {
        let mut reported = None;
        let mut state = self.lock();
        while !state.ended {
            let rest = match state.overdue(self.commit_timeout) {
                Some(age) => {
                    let error = state.stall(age);
                    let is_new = reported != state.taken_at;
                    reported = state.taken_at;
                    drop(state);
                    if is_new {
                        tracing::error!(%error, "changes that waited too long for the database are refused");
                    }
                    self.fail_waiting(&error);
                    state = self.lock();
                    STALL_PERIOD
                }
                None => state
                    .commit_time_left(self.commit_timeout)
                    .min(WATCHDOG_PERIOD),
            };
            let waited = self
                .ended
                .wait_timeout_while(state, rest, |state| !state.ended);
            (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Notes why the group on its way is still there.
    pub(super) fn note_trouble(&self, error: CommitError) {
        self.lock().last_error = Some(error);
    }

    /// Notes a batch of all accounts that was read.
    pub(super) fn note_portion(&self, len: usize) {
        let stats = &mut self.lock().stats;
        stats.account_portions += 1;
        stats.account_portion_len_max = stats.account_portion_len_max.max(len as u64);
    }

    /// Notes how far apart groups begin.
    pub(super) fn note_commit_delay(&self, apart: Duration) {
        self.lock().stats.commit_delay_ns = nanos(apart);
    }

    /// Notes why nothing can be stored for now; empty when it can.
    pub(super) fn note_lost(&self, reason: &str) {
        self.lock().stats.lost = reason.to_owned();
    }

    /// Fails what waits and was not yet taken.
    fn fail_waiting(&self, error: &CommitError) {
        let group = self.lock().take_waiting();
        if group.is_empty() {
            return;
        }
        let changes = group.iter().map(|batch| batch.changes.len() as u64).sum();
        let outcome = Err(error.clone());
        self.record(&mut self.lock(), changes, Duration::ZERO, &outcome);
        for batch in group {
            (batch.done)(outcome.clone());
        }
    }

    /// Waits before another try; `false` once nobody waits for the outcome.
    pub(super) fn pause(&self, rest: Duration) -> bool {
        let wake_at = Instant::now() + rest;
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if state.give_up_at.is_some_and(|give_up_at| give_up_at <= now) {
                return false;
            }
            if wake_at <= now {
                return true;
            }
            let until = state.give_up_at.map_or(wake_at, |at| at.min(wake_at));
            state = self
                .arrived
                .wait_timeout(state, until - now)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    /// Accounts for the group that was taken. Completions run after this.
    pub(super) fn finish(&self, changes: u64, took: Duration, outcome: &Result<(), CommitError>) {
        let mut state = self.lock();
        state.taken_at = None;
        state.group_arrived_at = None;
        state.last_error = None;
        self.record(&mut state, changes, took, outcome);
    }

    /// Accounts for some of the group that was taken, which will not be written. The others
    /// are still on their way.
    pub(super) fn refuse(&self, changes: u64, outcome: &Result<(), CommitError>) {
        self.record(&mut self.lock(), changes, Duration::ZERO, outcome);
    }

    /// Accounts for the batch that was taken, and keeps it where it failed.
    pub(super) fn finish_ended(&self, batch: &[EndedBinding], is_removed: bool) {
        let mut state = self.lock();
        state.end_turn();
        match is_removed {
            true => state.ended_rows.count_removed(),
            false => state.ended_rows.put_back(batch),
        }
    }

    /// Accounts for a batch of old records: how many were removed, unless that failed.
    pub(super) fn finish_call_records(&self, removed: Option<usize>) {
        let mut state = self.lock();
        state.end_turn();
        state.old_call_records.finish(removed);
    }

    fn record(
        &self,
        state: &mut State,
        changes: u64,
        took: Duration,
        outcome: &Result<(), CommitError>,
    ) {
        state.stats.record(changes, took, outcome);
        if state.stats.queued_len == 0 {
            self.emptied.notify_all();
        }
    }

    /// Refuses whatever comes later and waits until all that came earlier is done.
    pub(super) fn close(&self, deadline: Duration) -> bool {
        let give_up_at = Instant::now() + deadline;
        let mut state = self.lock();
        state.closed = true;
        let earlier = state.give_up_at.unwrap_or(give_up_at);
        state.give_up_at = Some(earlier.min(give_up_at));
        self.arrived.notify_all();
        while state.stats.queued_len > 0 {
            let left = give_up_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .emptied
                .wait_timeout(state, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        true
    }

    /// The writer is gone: what waits fails, and nothing is taken any more.
    pub(super) fn end(&self, error: &CommitError) {
        let mut state = self.lock();
        let listener = state.end_listener.take();
        let listener = listener.filter(|_| !state.closed);
        state.closed = true;
        state.ended = true;
        drop(state);
        self.ended.notify_all();
        self.fail_waiting(error);
        if let Some(tell) = listener {
            tell(error.clone());
        }
    }

    /// What the server needs cannot be read: it is told so, as if the writer had ended, and ends as it would then.
    pub(super) fn tell_end(&self, error: &CommitError) {
        let listener = self.lock().end_listener.take();
        if let Some(tell) = listener {
            tell(error.clone());
        }
    }

    /// Sets the `listener` to call if the writer ends before the queue is closed.
    pub(super) fn watch_end(&self, listener: EndListener) {
        self.lock().end_listener = Some(listener);
    }

    /// Waits until the writer is gone; `false` when the time passed first.
    pub(super) fn wait_for_end(&self, commit_timeout: Duration) -> bool {
        let waited = self
            .ended
            .wait_timeout_while(self.lock(), commit_timeout, |state| !state.ended);
        let (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.ended
    }

    pub(super) fn stats(&self) -> StoreStats {
        let state = self.lock();
        let stalled = state.overdue(self.commit_timeout).unwrap_or_default();
        let mut stats = StoreStats {
            stalled_ns: nanos(stalled),
            oldest_waiting_ns: age_ns(state.group_arrived_at.or(state.arrived_at)),
            running_for_ns: age_ns(state.taken_at),
            ..state.stats.clone()
        };
        state.ended_rows.tell(&mut stats);
        stats.call_records_removed = state.old_call_records.removed();
        stats
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn take(&mut self) -> Taken {
        let Some(old) = self.take_old() else {
            return self.take_group();
        };
        self.taken_at = Some(Instant::now());
        self.removes_in_turn = true;
        old
    }

    fn take_group(&mut self) -> Taken {
        match (self.waiting.is_empty(), self.closed) {
            (true, true) => return Taken::Closed,
            (true, false) => return Taken::Nothing,
            _ => {}
        }
        self.ended_rows.request_yield(&self.waiting);
        self.old_call_records.request_yield();
        self.group_arrived_at = self.arrived_at;
        self.taken_at = Some(Instant::now());
        Taken::Group(self.take_waiting())
    }

    /// Something was removed, or not. Where that is not in turn with groups, a group may be on its way.
    fn end_turn(&mut self) {
        if std::mem::take(&mut self.removes_in_turn) {
            self.taken_at = None;
        }
    }

    /// Takes a batch of what is to be removed only if no changes wait, or after a group.
    fn take_old(&mut self) -> Option<Taken> {
        if self.closed {
            return None;
        }
        let is_free = self.waiting.is_empty();
        let rows = &mut self.ended_rows;
        if rows.is_its_turn() || is_free && rows.is_due() {
            // A change that waits has waited for one batch, of either kind.
            self.old_call_records.skip_turn();
            return Some(Taken::Ended(rows.take()));
        }
        let records = &mut self.old_call_records;
        let is_next = records.is_its_turn() || is_free && records.is_due();
        is_next.then(|| records.take())?.map(Taken::OldCallRecords)
    }

    fn take_waiting(&mut self) -> Vec<Batch> {
        self.arrived_at = None;
        std::mem::take(&mut self.waiting)
    }

    /// How long the current group has been in progress, if that is too long.
    fn overdue(&self, commit_timeout: Duration) -> Option<Duration> {
        let age = self.taken_at?.elapsed();
        (age >= commit_timeout).then_some(age)
    }

    /// The time until the current group is overdue; unlimited if there is none.
    fn commit_time_left(&self, commit_timeout: Duration) -> Duration {
        let left = |taken_at: Instant| commit_timeout.saturating_sub(taken_at.elapsed());
        self.taken_at.map_or(Duration::MAX, left)
    }

    /// What those who wait are told.
    fn stall(&self, age: Duration) -> CommitError {
        let silent = || CommitError::new(format!("no answer for {} s", age.as_secs()));
        self.last_error.clone().unwrap_or_else(silent)
    }

    fn admit(&mut self, changes: u64) -> Result<(), Refused> {
        let stats = &mut self.stats;
        let queued_len = stats.queued_len + changes;
        let refusal = match queued_len > stats.queue_capacity {
            _ if self.closed => Some(Refused::Closed),
            true => Some(Refused::Full),
            false => None,
        };
        if let Some(refusal) = refusal {
            stats.refused += 1;
            return Err(refusal);
        }
        stats.set_queued_len(queued_len);
        Ok(())
    }
}

impl StoreStats {
    /// Takes a group out of the queue's account and into the totals.
    pub(super) fn record(
        &mut self,
        changes: u64,
        took: Duration,
        outcome: &Result<(), CommitError>,
    ) {
        self.set_queued_len(self.queued_len.saturating_sub(changes));
        match outcome {
            Ok(()) => self.record_success(changes, took),
            Err(error) => {
                self.failed += changes;
                self.last_error = error.to_string();
            }
        }
    }

    fn record_success(&mut self, changes: u64, took: Duration) {
        let took_ns = nanos(took);
        self.committed += changes;
        self.transactions += 1;
        self.transaction_len_max = self.transaction_len_max.max(changes);
        self.transaction_ns_total = self.transaction_ns_total.saturating_add(took_ns);
        self.transaction_ns_max = self.transaction_ns_max.max(took_ns);
    }
}

fn age_ns(since: Option<Instant>) -> u64 {
    since.map_or(0, |since| nanos(since.elapsed()))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How often the guard looks when nothing is overdue, and when something is.
const WATCHDOG_PERIOD: Duration = Duration::from_secs(1);
const STALL_PERIOD: Duration = Duration::from_millis(250);
/// How often a writer looks for accounts that another program changed.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::clock::UnixTime;

    /// However many old records there are, a change waits for one batch of them at most.
    #[test]
    fn groups_and_batches_of_old_records_take_turns() {
        let queue = Queue::new(8, Duration::MAX);
        let push = || {
            let done = Box::new(|_| ());
            queue.push(Batch::of(Vec::new(), done)).unwrap();
        };
        let take = || match queue.take(Duration::ZERO) {
            Taken::Group(_) => "group",
            Taken::OldCallRecords(_) => "records",
            Taken::Ended(_) => "rows",
            Taken::Nothing => "nothing",
            Taken::Closed => "closed",
        };
        queue.remove_old_call_records(CallRecordLimits {
            ended_before: UnixTime::from_secs(1),
            count_max: 1,
        });
        push();
        assert_eq!(take(), "group");
        for _ in 0..3 {
            push();
            assert_eq!(take(), "records");
            queue.finish_call_records(Some(crate::call_records::BATCH_LEN));
            assert_eq!(take(), "group");
        }
        assert_eq!(take(), "records", "nothing else is there");
        queue.finish_call_records(Some(1));
        assert_eq!(take(), "nothing");
    }
}
