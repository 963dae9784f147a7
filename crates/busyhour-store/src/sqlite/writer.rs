//! The one thread that writes: it takes the changes that have arrived, writes them as one record of
//! the journal, and calls their completions.

use super::{
    behind::{Behind, failed_journal},
    files::Files,
    load, tables,
};
use crate::{
    Change, CommitError,
    completion_notifier::CompletionNotifier,
    journal::{CommitDelay, JournalWriter, SyncedFile},
    outside_changes::{OutsideChanges, Pace, SettingWatch},
    queue::{Batch, Queue, Taken},
};
use rusqlite::Connection;
use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

/// Owns the journal and the files, and with them the lock, for as long as it runs.
pub(super) struct SqliteWriter {
    /// Reads only.
    connection: Connection,
    queue: Arc<Queue>,
    behind: Arc<Behind>,
    journal: JournalWriter<SyncedFile>,
    /// None where writes are not synchronised, and cost little.
    delay: Option<CommitDelay>,
    /// Nothing went wrong with the journal since its epoch began.
    is_journal_good: bool,
    outside_changes: OutsideChanges,
    settings: Arc<SettingWatch>,
    setting_looks: Pace,
    /// Runs [`Behind::run`].
    follower: Option<JoinHandle<()>>,
    _end: WriterEnd,
    /// After the connections, so that the lock goes last.
    files: Files,
    /// What is wrong with the files; empty if they are in place.
    trouble: String,
}

/// The last thing that a writer does, when its connection that only reads is closed, as a field before this one.
struct WriterEnd {
    behind: Arc<Behind>,
    queue: Arc<Queue>,
}

impl Drop for WriterEnd {
    /// However the writer ends, nobody waits for it any longer.
    fn drop(&mut self) {
        self.behind.close();
        let error = CommitError::new("the store's thread has ended");
        self.queue.end(&error);
    }
}

impl SqliteWriter {
    /// Starts the thread that follows the journal, whose epoch has begun.
    pub(super) fn start(
        connection: Connection,
        (journal, behind): (JournalWriter<SyncedFile>, Arc<Behind>),
        queue: Arc<Queue>,
        outside_changes: OutsideChanges,
        settings: Arc<SettingWatch>,
        files: Files,
    ) -> Result<Self, std::io::Error> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let follows = behind.clone();
        let follower = thread::Builder::new()
            .name(FOLLOWER_THREAD.to_owned())
            .spawn(move || follows.run())?;
        let end = WriterEnd {
            behind: behind.clone(),
            queue: queue.clone(),
        };
        Ok(Self {
            connection,
            queue,
            behind,
            delay: journal
                .is_synced()
                .then(|| CommitDelay::new(Instant::now())),
            journal,
            is_journal_good: true,
            outside_changes,
            settings,
            setting_looks: Pace::default(),
            follower: Some(follower),
            _end: end,
            files,
            trouble: String::new(),
        })
    }

    pub(super) fn run(mut self) {
        let mut notifier = CompletionNotifier::default();
        loop {
            let rest = self.outside_changes.rest(self.setting_looks.rest());
            self.let_group_grow();
            match self.queue.take_changes(rest) {
                Taken::Group(group) => {
                    self.note_group(group.len());
                    self.write(group, &mut notifier);
                }
                Taken::Closed => return,
                _ => {}
            }
            if self.follower.as_ref().is_none_or(JoinHandle::is_finished) {
                // It has panicked, and said so.
                return;
            }
            if self.setting_looks.is_due() {
                self.look_at_settings();
            }
            if self.outside_changes.is_scanning() {
                self.go_on_with_scan();
            } else if self.outside_changes.account_looks.is_due() && self.trouble.is_empty() {
                self.look_at_accounts();
            }
        }
    }

    /// Waits for others, if so many come that the group is worth it.
    fn let_group_grow(&self) {
        let left = self.delay.as_ref().map(|delay| delay.left(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            thread::sleep(left);
        }
    }

    fn note_group(&mut self, requests: usize) {
        if let Some(delay) = &mut self.delay {
            let before = delay.apart();
            delay.take(Instant::now(), requests);
            if delay.apart() != before {
                self.queue.note_commit_delay(delay.apart());
            }
        }
    }

    /// Whether what is written is found again.
    fn look_at_files(&mut self) -> Result<(), CommitError> {
        let outcome = self.files.check(Instant::now());
        self.note_files(outcome)
    }

    fn look_at_all_files(&mut self) -> Result<(), CommitError> {
        let outcome = self.files.check_all(Instant::now());
        self.note_files(outcome)
    }

    /// A change is logged and told to the queue.
    fn note_files(&mut self, outcome: Result<(), String>) -> Result<(), CommitError> {
        let trouble = outcome.err().unwrap_or_default();
        if trouble != self.trouble {
            match trouble.is_empty() {
                true => tracing::warn!(
                    "the database files are back; registrations are acknowledged again"
                ),
                false => tracing::error!(%trouble, event = "database_files_are_lost", "{}", LOST),
            }
            self.queue.note_lost(&trouble);
            self.behind.halt(!trouble.is_empty());
            self.trouble = trouble;
        }
        match self.trouble.is_empty() {
            true => Ok(()),
            false => Err(CommitError::new(self.trouble.as_str())),
        }
    }

    fn write(&mut self, mut group: Vec<Batch>, notifier: &mut CompletionNotifier) {
        let begun = Instant::now();
        let changes = group.iter().map(|batch| batch.changes.len() as u64).sum();
        let outcome = self.commit(&mut group);
        if let Ok(Some((from, to))) = outcome {
            self.tell_of_accounts(&group, from, to);
        }
        let outcome = outcome.map(drop);
        self.queue.finish(changes, begun.elapsed(), &outcome);
        notifier.tell(&self.queue, group, &outcome);
    }

    /// Fails also if the files were lost in the meantime: then the commit is lost as
    /// well.
    fn commit(&mut self, group: &mut [Batch]) -> Result<Option<(u64, u64)>, CommitError> {
        self.look_at_files()?;
        self.renew_journal()?;
        let len = match changes_of(group).all(Change::is_journaled) {
            true => Some(self.journal.prepare(changes_of(group))),
            false => None,
        };
        let outcome = match len.filter(|len| self.behind.is_room_for(*len)) {
            Some(len) => self.append(group, len).map(|()| None),
            None => self.write_through(group),
        };
        self.look_at_files().and(outcome)
    }

    /// After an error a record may be found that was refused. So nothing is acknowledged before a new epoch has
    /// begun, whether by the journal or by the database itself: it would be undone when that record is found.
    fn renew_journal(&mut self) -> Result<(), CommitError> {
        if !self.is_journal_good {
            self.behind.begin_epoch(&mut self.journal, 0)?;
            self.is_journal_good = true;
            tracing::warn!("the journal of the database can be written again");
        }
        Ok(())
    }

    /// Makes the prepared record of a group durable.
    fn append(&mut self, group: &mut [Batch], len: u64) -> Result<(), CommitError> {
        let at = self.behind.place(len)?;
        let appended = self.journal.append(at);
        self.is_journal_good = appended.is_ok();
        let number = appended.map_err(|error| failed_journal(&error))?;
        let mut changes = Vec::new();
        for batch in group {
            // The first one is not copied, since often it is the only one.
            match changes.is_empty() {
                true => changes = std::mem::take(&mut batch.changes),
                false => changes.append(&mut batch.changes),
            }
        }
        self.behind.push(changes, number, at, len);
        Ok(())
    }

    /// Writes a group into the database itself, behind all that came before. The revisions of accounts
    /// before and after, when the group changes some.
    fn write_through(&self, group: &[Batch]) -> Result<Option<(u64, u64)>, CommitError> {
        self.behind.write_through(|connection| {
            let is_of_accounts = changes_of(group).any(Change::is_of_account);
            let revision = || {
                is_of_accounts
                    .then(|| load::revision(connection))
                    .transpose()
            };
            let from = revision()?;
            for change in changes_of(group) {
                tables::apply(connection, change)?;
            }
            let to = revision()?;
            Ok(from.zip(to))
        })
    }

    /// Passes on a group of ours, which led from one revision to another.
    fn tell_of_accounts(&mut self, group: &[Batch], from: u64, to: u64) {
        let revisions = Some((from, to));
        if !(self.outside_changes).tell_own(changes_of(group), revisions) {
            // Others' changes came before; ours are read with them.
            self.look_at_accounts();
        }
        self.outside_changes.tell_own_in_scan(changes_of(group));
    }

    /// Reads the tokens and domains, which are few, if the files are in place.
    fn look_at_settings(&mut self) {
        let begun = Instant::now();
        if self.look_at_all_files().is_ok() {
            for kind in self.settings.followed() {
                match load::settings_of(&self.connection, kind) {
                    Ok(rows) => self.settings.found(kind, rows),
                    Err(error) => tracing::warn!(%error, "changes of settings cannot be read"),
                }
            }
        }
        self.setting_looks.took(begun.elapsed());
    }

    /// Reads the accounts that other programs changed, or begins to read all.
    fn look_at_accounts(&mut self) {
        let begun = Instant::now();
        if let Err(error) = self.look() {
            tracing::warn!(%error, "changes of accounts cannot be read");
        }
        self.outside_changes.account_looks.took(begun.elapsed());
    }

    fn look(&mut self) -> rusqlite::Result<()> {
        let revision = load::revision(&self.connection)?;
        if let Some(known) = self.outside_changes.known_instead_of(revision) {
            let (news, revision) = load::news(&mut self.connection, known)?;
            self.outside_changes.take_news(news, revision);
        }
        Ok(())
    }

    /// Reads a batch of all accounts. One that fails is read again at the next
    /// look, with all the others.
    fn go_on_with_scan(&mut self) {
        let begun = Instant::now();
        match load::batch(&self.connection, self.outside_changes.after()) {
            Ok(accounts) => {
                self.queue.note_portion(accounts.len());
                self.outside_changes.take_batch(accounts, begun);
            }
            Err(error) => {
                self.outside_changes.end_scan();
                tracing::warn!(%error, "the accounts cannot be read");
            }
        }
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.behind.stop();
        if let Some(follower) = self.follower.take() {
            // Its own panic is already on standard error.
            let _ = follower.join();
        }
        // If it cannot be renewed, the next start finds what was refused, and nothing that came later.
        let _ = self.renew_journal();
        self.behind.finish(&mut self.journal);
    }
}

fn changes_of(group: &[Batch]) -> impl Iterator<Item = &Change> {
    group.iter().flat_map(|batch| &batch.changes)
}

const LOST: &str = "the database file is lost: registrations are answered 503. Put the file back, \
    or restart the server to begin with the file that is there now; then all devices have to \
    register again";
const FOLLOWER_THREAD: &str = "bh-sqlite";
/// More than there are, so that none is ever compiled twice.
const STATEMENTS: usize = 32;

#[cfg(test)]
mod tests {
    use crate::{
        Change, SettingKind, SoftState, SoftStateKind, SqliteOptions, SqliteStore, Store,
        journal::failing,
    };
    use busyhour::clock::UnixTime;
    use busyhour_registrar::BindingId;
    use std::{fs, path::Path, sync::mpsc};

    fn row(id: u64) -> Change {
        Change::PutSoftState(SoftState {
            id: BindingId(id),
            kind: SoftStateKind::Publication,
            value: "open".to_owned().into(),
            granted_s: 3600,
            expires_at: UnixTime::from_secs(u64::from(u32::MAX)),
        })
    }

    fn is_acknowledged(store: &SqliteStore, changes: Vec<Change>) -> bool {
        let (told, outcome) = mpsc::channel();
        let done = move |result: Result<(), _>| told.send(result.is_ok()).unwrap();
        store.commit(changes, Box::new(done)).unwrap();
        outcome.recv().unwrap()
    }

    /// What a server finds that was killed at this moment.
    fn found_after_kill(folder: &Path) -> Vec<u64> {
        let copy = tempfile::tempdir().unwrap();
        for name in ["busyhour.db", "busyhour.db-wal", "busyhour.db.journal"] {
            let from = folder.join(name);
            fs::copy(from, copy.path().join(name)).unwrap();
        }
        let path = copy.path().join("busyhour.db");
        let store = SqliteStore::open(SqliteOptions::new(path)).unwrap();
        let states = store.load().unwrap().soft_states;
        states.iter().map(|state| state.id.0).collect()
    }

    /// The record of a refused group is whole in the journal. What the database itself is given afterwards
    /// must not be undone by it.
    #[test]
    fn a_refused_group_undoes_nothing_that_was_acknowledged_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("busyhour.db");
        let store = SqliteStore::open(SqliteOptions::new(path)).unwrap();
        assert!(is_acknowledged(&store, vec![row(1), row(2)]));
        failing::once(&folder.path().join("busyhour.db.journal"));
        assert!(!is_acknowledged(&store, vec![row(1), row(3)]));
        assert_eq!(found_after_kill(folder.path()), [1, 2, 3]);
        let through = Change::PutSetting {
            kind: SettingKind::Hint,
            name: "100".into(),
            value: "1".into(),
        };
        let removal = Change::RemoveSoftState(BindingId(1));
        assert!(is_acknowledged(&store, vec![removal, through]));
        assert_eq!(found_after_kill(folder.path()), [2]);
        // The journal goes on, with its new epoch.
        assert!(is_acknowledged(&store, vec![row(4)]));
        assert_eq!(found_after_kill(folder.path()), [2, 4]);
        drop(store);
        assert_eq!(found_after_end(folder.path()), [2, 4]);
    }

    /// What the next start finds after an orderly end, which leaves no log of SQLite.
    fn found_after_end(folder: &Path) -> Vec<u64> {
        fs::write(folder.join("busyhour.db-wal"), []).unwrap();
        found_after_kill(folder)
    }
}
