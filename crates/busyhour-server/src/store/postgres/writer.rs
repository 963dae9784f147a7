//! The one thread that writes: take what has arrived, one transaction, tell all;
//! and when the database goes away, hold on, come again, and let nobody wait long.

use super::{PostgresOptions, options::reason, session::Session};
use crate::store::{
    CommitError,
    feed::AccountFeed,
    queue::{Batch, LOOK_PERIOD, Queue, Taken},
};
use postgres::error::SqlState;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Owns the session.
pub(super) struct Writer {
    session: Option<Session>,
    options: PostgresOptions,
    queue: Arc<Queue>,
    feed: Arc<AccountFeed>,
    looked_at: Instant,
}

/// Why a group is not written, and whether another session could.
enum Failed {
    /// The database said no, and holds nothing of it.
    Refused(CommitError),
    /// The session broke; perhaps it was written.
    Lost(String),
}

impl Writer {
    pub(super) fn new(
        session: Session,
        options: PostgresOptions,
        queue: Arc<Queue>,
        feed: Arc<AccountFeed>,
    ) -> Self {
        Self {
            session: Some(session),
            options,
            queue,
            feed,
            looked_at: Instant::now(),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            match self.queue.take(LOOK_PERIOD) {
                Taken::Group(group) => self.write(group),
                Taken::Nothing => {}
                Taken::Closed => return,
            }
            if self.looked_at.elapsed() >= LOOK_PERIOD {
                self.look_at_accounts();
            }
        }
    }

    fn write(&mut self, group: Vec<Batch>) {
        let begun = Instant::now();
        let outcome = self.transact(&group);
        let changes = || group.iter().flat_map(|batch| &batch.changes);
        if let Ok(Some((from, to))) = outcome
            && !self.feed.changed(changes(), from, to)
        {
            self.look_at_accounts();
        }
        let outcome = outcome.map(drop);
        self.queue
            .finish(changes().count() as u64, begun.elapsed(), &outcome);
        for batch in group {
            (batch.done)(outcome.clone());
        }
    }

    /// Until the group is written or refused for certain, or the store ends.
    fn transact(&mut self, group: &[Batch]) -> Result<Option<(u64, u64)>, CommitError> {
        let mut outage: Option<Outage> = None;
        loop {
            let reason = match self.attempt(group) {
                Ok(revisions) => {
                    if let Some(outage) = outage {
                        outage.over(self.options.shown());
                    }
                    return Ok(revisions);
                }
                Err(Failed::Refused(error)) => return Err(error),
                Err(Failed::Lost(reason)) => reason,
            };
            let outage = outage.get_or_insert_with(|| Outage::begin(self.options.shown(), &reason));
            self.queue.note_trouble(CommitError::new(reason.as_str()));
            if !self.queue.pause(outage.next_rest()) {
                return Err(CommitError::new(reason));
            }
        }
    }

    fn attempt(&mut self, group: &[Batch]) -> Result<Option<(u64, u64)>, Failed> {
        let session = match &mut self.session {
            Some(session) => session,
            None => {
                let opened = Session::open(&self.options);
                let opened = opened.map_err(|error| Failed::Lost(error.to_string()))?;
                self.session.insert(opened)
            }
        };
        let error = match transact(session, group) {
            Ok(revisions) => return Ok(revisions),
            Err(error) => reason(&error),
        };
        if session.is_alive() {
            return Err(Failed::Refused(CommitError::new(error)));
        }
        self.session = None;
        Err(Failed::Lost(error))
    }

    /// Reads all accounts when another program changed some.
    fn look_at_accounts(&mut self) {
        self.looked_at = Instant::now();
        let Some(session) = &mut self.session else {
            // Nothing to write, so nobody waits: one try a second is enough.
            self.session = Session::open(&self.options).ok();
            return;
        };
        let looked = session
            .revision()
            .and_then(|revision| match self.feed.lacks(revision) {
                true => session.accounts().map(Some),
                false => Ok(None),
            });
        match looked {
            Ok(Some((accounts, revision))) => self.feed.replaced(accounts, revision),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(
                    error = reason(&error),
                    "changes of accounts cannot be looked for"
                );
                if !session.is_alive() {
                    self.session = None;
                }
            }
        }
    }
}

impl Drop for Writer {
    /// However it ends, nobody waits for it any longer.
    fn drop(&mut self) {
        self.queue.end(&CommitError::new("the store has ended"));
    }
}

/// Writes a group, again and again when it only met another program: the database
/// has undone it to the last row then, and it may meet nobody the next time.
fn transact(session: &mut Session, group: &[Batch]) -> Result<Option<(u64, u64)>, postgres::Error> {
    for _ in 1..MEETINGS_MAX {
        match session.transact(group) {
            Err(error) if is_of_a_meeting(&error) => {
                let error = reason(&error);
                tracing::warn!(error, "a group met another program's changes; once more");
            }
            outcome => return outcome,
        }
    }
    session.transact(group)
}

fn is_of_a_meeting(error: &postgres::Error) -> bool {
    let meetings = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    error.code().is_some_and(|code| meetings.contains(code))
}

/// A time without the database.
struct Outage {
    begun: Instant,
    rest: Duration,
}

impl Outage {
    fn begin(url: &str, reason: &str) -> Self {
        tracing::error!(url, reason, "the database is away; trying again");
        Self {
            begun: Instant::now(),
            rest: REST_MIN,
        }
    }

    /// Longer each time, so that a database that comes up is not pressed.
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

/// How often a group is written before a deadlock is told.
const MEETINGS_MAX: u32 = 5;
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(2);
