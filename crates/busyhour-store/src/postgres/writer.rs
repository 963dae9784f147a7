//! The one thread that writes: it takes the changes that have arrived, writes them in
//! one transaction, and calls their completions. When the database is away, it keeps
//! the group and reconnects.

use super::{
    PostgresOptions,
    fencing_token::FencingToken,
    options::reason,
    session::{Outcome, Session},
};
use crate::{
    Account, CallRecordLimits, CommitError, StoreError,
    completion_notifier::CompletionNotifier,
    outside_changes::OutsideChanges,
    queue::{Batch, Queue, Taken},
};
use busyhour_cluster::Grant;
use busyhour_registrar::EndedBinding;
use postgres::error::SqlState;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Owns the session.
pub(super) struct PostgresWriter {
    session: Option<Session>,
    fencing_token: FencingToken,
    options: PostgresOptions,
    queue: Arc<Queue>,
    outside_changes: OutsideChanges,
    /// Why nothing can be written any more.
    over: Option<CommitError>,
}

/// Why a group is not written, and whether another session could.
enum Failed {
    /// The database said no, and holds nothing of it.
    Refused(CommitError),
    /// The session broke; perhaps it was written.
    Lost(String),
    /// Another server has the database.
    TakenOver,
}

impl PostgresWriter {
    pub(super) fn new(
        session: Session,
        fencing_token: FencingToken,
        options: PostgresOptions,
        queue: Arc<Queue>,
        outside_changes: OutsideChanges,
    ) -> Self {
        Self {
            session: Some(session),
            fencing_token,
            options,
            queue,
            outside_changes,
            over: None,
        }
    }

    pub(super) fn run(mut self) {
        let mut notifier = CompletionNotifier::default();
        while self.over.is_none() {
            let next_look = self.outside_changes.account_looks.rest();
            match self.queue.take(self.outside_changes.rest(next_look)) {
                Taken::Group(group) => self.write(group, &mut notifier),
                Taken::Ended(batch) => self.purge(&batch),
                Taken::OldCallRecords(limits) => self.remove_old_call_records(limits),
                Taken::Nothing => {}
                Taken::Closed => return,
            }
            if self.outside_changes.is_scanning() {
                self.go_on_with_scan();
            } else if self.outside_changes.account_looks.is_due() {
                self.look_at_accounts();
            }
        }
    }

    fn write(&mut self, group: Vec<Batch>, notifier: &mut CompletionNotifier) {
        let begun = Instant::now();
        let outcome = self.transact(&group);
        if let Ok(Outcome::NotOurs(grants)) = &outcome {
            let grants = grants.clone();
            return self.write_rest(group, &grants, begun, notifier);
        }
        let changes = || group.iter().flat_map(|batch| &batch.changes);
        match outcome {
            Ok(Outcome::Written(Some(revisions))) => {
                self.tell_of_accounts(&group, Some(revisions));
            }
            Ok(Outcome::WrittenBefore) => self.tell_of_accounts(&group, None),
            _ => {}
        }
        let outcome = outcome.map(drop);
        self.queue
            .finish(changes().count() as u64, begun.elapsed(), &outcome);
        notifier.tell(&self.queue, group, &outcome);
    }

    /// Refuses the batches whose partitions other nodes have, and writes the others.
    fn write_rest(
        &mut self,
        group: Vec<Batch>,
        grants: &[Grant],
        begun: Instant,
        notifier: &mut CompletionNotifier,
    ) {
        let is_lost = |batch: &Batch| batch.grant.is_some_and(|grant| grants.contains(&grant));
        let (lost, rest): (Vec<_>, Vec<_>) = group.into_iter().partition(is_lost);
        let outcome = Err(CommitError::new(NOT_OURS));
        let changes = lost.iter().map(|batch| batch.changes.len() as u64).sum();
        match rest.is_empty() {
            true => self.queue.finish(changes, begun.elapsed(), &outcome),
            false => self.queue.refuse(changes, &outcome),
        }
        notifier.tell(&self.queue, lost, &outcome);
        if !rest.is_empty() {
            self.write(rest, notifier);
        }
    }

    /// Runs until the group is certainly written or refused, or the store stops.
    fn transact(&mut self, group: &[Batch]) -> Result<Outcome, CommitError> {
        let mut outage: Option<Outage> = None;
        loop {
            let reason = match self.attempt(group) {
                Ok(outcome) => {
                    if let Some(outage) = outage {
                        outage.over(self.options.shown());
                    }
                    return Ok(outcome);
                }
                Err(Failed::Refused(error)) => return Err(error),
                Err(Failed::TakenOver) => return Err(self.give_up()),
                Err(Failed::Lost(reason)) => reason,
            };
            let outage = outage.get_or_insert_with(|| Outage::begin(self.options.shown(), &reason));
            self.queue.note_trouble(CommitError::new(reason.as_str()));
            if !self.queue.pause(outage.next_rest()) {
                return Err(CommitError::new(reason));
            }
        }
    }

    fn attempt(&mut self, group: &[Batch]) -> Result<Outcome, Failed> {
        let session = open(&mut self.session, &self.options, &self.fencing_token)?;
        match transact(session, group, &mut self.fencing_token) {
            Ok(Outcome::TakenOver) => Err(Failed::TakenOver),
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// One try, since nobody waits for this.
    fn purge(&mut self, batch: &[EndedBinding]) {
        let outcome = self.remove(|session, token| {
            let outcome = session.purge(batch, token)?;
            Ok((outcome, batch.len()))
        });
        self.queue.finish_ended(batch, outcome.is_some());
    }

    /// One try, as for ended rows.
    fn remove_old_call_records(&mut self, limits: CallRecordLimits) {
        let removed = self.remove(|session, token| session.remove_old_call_records(limits, token));
        self.queue.finish_call_records(removed);
    }

    /// Removes rows that nobody needs: how many they were, unless it failed, which is
    /// logged.
    fn remove(
        &mut self,
        remove: impl FnOnce(&mut Session, &FencingToken) -> Removed,
    ) -> Option<usize> {
        let reason = match self.try_remove(remove) {
            Ok(removed) => return Some(removed),
            Err(Failed::TakenOver) => {
                drop(self.give_up());
                return None;
            }
            Err(Failed::Refused(error)) => error.to_string(),
            Err(Failed::Lost(reason)) => reason,
        };
        tracing::warn!(reason, "old rows cannot be deleted now; trying again later");
        None
    }

    fn try_remove(
        &mut self,
        remove: impl FnOnce(&mut Session, &FencingToken) -> Removed,
    ) -> Result<usize, Failed> {
        let session = open(&mut self.session, &self.options, &self.fencing_token)?;
        match remove(session, &self.fencing_token) {
            Ok((Outcome::TakenOver, _)) => Err(Failed::TakenOver),
            Ok((_, removed)) => Ok(removed),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Passes on a group of ours, which led from one revision to another; if the
    /// revision is unknown, reads it.
    fn tell_of_accounts(&mut self, group: &[Batch], revisions: Option<(u64, u64)>) {
        let changes = || group.iter().flat_map(|batch| &batch.changes);
        if !self.outside_changes.tell_own(changes(), revisions) {
            self.look_at_accounts();
        }
        self.outside_changes.tell_own_in_scan(changes());
    }

    /// Reads the accounts that other programs changed, or begins to read all.
    fn look_at_accounts(&mut self) {
        let begun = Instant::now();
        let looked = self.look();
        if self.is_lost(looked) {
            // There is nothing to write, so one try a second is enough.
            return self.outside_changes.account_looks.took(Duration::ZERO);
        }
        self.outside_changes.account_looks.took(begun.elapsed());
    }

    fn look(&mut self) -> Result<(), Failed> {
        let session = open(&mut self.session, &self.options, &self.fencing_token)?;
        let outside_changes = &self.outside_changes;
        let news = session.revision().and_then(|revision| {
            let known = outside_changes.known_instead_of(revision);
            known.map(|known| session.news(known)).transpose()
        });
        if let Some((news, revision)) = news.map_err(|error| self.failed(&error))? {
            self.outside_changes.take_news(news, revision);
        }
        Ok(())
    }

    /// Reads a batch of all accounts. When one fails, all are read at a later look.
    fn go_on_with_scan(&mut self) {
        let begun = Instant::now();
        let read = self.read_batch().map(|accounts| {
            self.queue.note_portion(accounts.len());
            self.outside_changes.take_batch(accounts, begun);
        });
        if read.is_err() {
            self.outside_changes.end_scan();
        }
        self.is_lost(read);
    }

    fn read_batch(&mut self) -> Result<Vec<Account>, Failed> {
        let session = open(&mut self.session, &self.options, &self.fencing_token)?;
        let accounts = session.accounts(self.outside_changes.after());
        accounts.map_err(|error| self.failed(&error))
    }

    /// Whether the session broke while accounts were read; other errors are logged.
    fn is_lost(&mut self, outcome: Result<(), Failed>) -> bool {
        match outcome {
            Ok(()) => return false,
            Err(Failed::Lost(_)) => return true,
            Err(Failed::TakenOver) => drop(self.give_up()),
            Err(Failed::Refused(error)) => {
                tracing::warn!(%error, "changes by other programs cannot be read");
            }
        }
        false
    }

    /// Whether the database said no, or the session broke and with it what it said.
    fn failed(&mut self, error: &postgres::Error) -> Failed {
        let reason = reason(error);
        if self.session.as_mut().is_some_and(Session::is_alive) {
            return Failed::Refused(CommitError::new(reason));
        }
        tracing::warn!(reason, "the connection to the database broke");
        self.session = None;
        Failed::Lost(reason)
    }

    /// Another server has taken the database over: our memory is out of date, and
    /// writing it would undo what that server has acknowledged.
    fn give_up(&mut self) -> CommitError {
        let path = self.options.path();
        let error = CommitError::new(StoreError::TakenOver { path }.to_string());
        tracing::error!(%error, "the store stops");
        self.session = None;
        self.over.insert(error).clone()
    }
}

impl Drop for PostgresWriter {
    /// However it ends, nobody waits for it any longer.
    fn drop(&mut self) {
        let over = self.over.take();
        let error = over.unwrap_or_else(|| CommitError::new("the store's thread has ended"));
        self.queue.end(&error);
    }
}

/// The session, a new one if need be.
fn open<'s>(
    session: &'s mut Option<Session>,
    options: &PostgresOptions,
    fencing_token: &FencingToken,
) -> Result<&'s mut Session, Failed> {
    if let Some(session) = session {
        return Ok(session);
    }
    match Session::open(options, fencing_token) {
        Ok(opened) => Ok(session.insert(opened)),
        Err(StoreError::TakenOver { .. }) => Err(Failed::TakenOver),
        Err(error) => Err(Failed::Lost(error.to_string())),
    }
}

/// Writes a group, and tries again after a conflict with another program: the database
/// has rolled the group back, and the next try may succeed.
fn transact(
    session: &mut Session,
    group: &[Batch],
    fencing_token: &mut FencingToken,
) -> Result<Outcome, postgres::Error> {
    for _ in 1..MEETINGS_MAX {
        match session.transact(group, fencing_token) {
            Err(error) if is_of_a_meeting(&error) => {
                let error = reason(&error);
                tracing::warn!(
                    error,
                    "a transaction conflicted with another program's; trying again"
                );
            }
            outcome => return outcome,
        }
    }
    session.transact(group, fencing_token)
}

fn is_of_a_meeting(error: &postgres::Error) -> bool {
    let meetings = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    error.code().is_some_and(|code| meetings.contains(code))
}

/// What became of a batch of rows that nobody needs, and how many they were.
type Removed = Result<(Outcome, usize), postgres::Error>;

/// A time without the database.
struct Outage {
    begun: Instant,
    rest: Duration,
}

impl Outage {
    fn begin(url: &str, reason: &str) -> Self {
        tracing::error!(url, reason, "the database cannot be reached; trying again");
        Self {
            begun: Instant::now(),
            rest: REST_MIN,
        }
    }

    /// Longer each time, so that a starting database is not overloaded.
    fn next_rest(&mut self) -> Duration {
        let rest = self.rest;
        self.rest = (rest * 2).min(REST_MAX);
        rest
    }

    fn over(&self, url: &str) {
        let seconds = self.begun.elapsed().as_secs_f64();
        tracing::info!(url, seconds, "the database is back");
    }
}

/// How often a group is tried before a deadlock is reported.
const MEETINGS_MAX: u32 = 5;
const NOT_OURS: &str = "another node has this partition";
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(2);
