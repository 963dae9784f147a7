//! The one thread that writes: it takes the changes that have arrived, writes them in
//! one transaction, and calls their completions.

use super::{call_records, files::Files, load};
use crate::{
    Account, CallRecordLimits, Change, CommitError, SettingKind, SoftState,
    account::{hashes_text, hints_text},
    completion_notifier::CompletionNotifier,
    outside_changes::{OutsideChanges, Pace, SettingWatch},
    queue::{Batch, Queue, Taken},
};
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, EndedBinding, Lease};
use rusqlite::{CachedStatement, Connection, ToSql, TransactionBehavior, params};
use std::{sync::Arc, time::Instant};

/// Owns the connection and its files, and with them the lock, for as long as it runs.
pub(super) struct SqliteWriter {
    connection: Connection,
    queue: Arc<Queue>,
    outside_changes: OutsideChanges,
    settings: Arc<SettingWatch>,
    setting_looks: Pace,
    /// Portions of what has ended that were removed.
    batches: u64,
    /// After the connection, so that the lock goes last.
    files: Files,
    /// What is wrong with the files; empty if they are in place.
    trouble: String,
}

impl SqliteWriter {
    pub(super) fn new(
        connection: Connection,
        queue: Arc<Queue>,
        outside_changes: OutsideChanges,
        settings: Arc<SettingWatch>,
        files: Files,
    ) -> Self {
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Self {
            connection,
            queue,
            outside_changes,
            settings,
            setting_looks: Pace::default(),
            batches: 0,
            files,
            trouble: String::new(),
        }
    }

    pub(super) fn run(mut self) {
        let mut notifier = CompletionNotifier::default();
        loop {
            let rest = self.outside_changes.rest(self.setting_looks.rest());
            match self.queue.take(rest) {
                Taken::Group(group) => self.write(group, &mut notifier),
                Taken::Ended(batch) => self.purge(&batch),
                Taken::OldCallRecords(limits) => self.remove_old_call_records(limits),
                Taken::Nothing => {}
                Taken::Closed => return,
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
            self.trouble = trouble;
        }
        match self.trouble.is_empty() {
            true => Ok(()),
            false => Err(CommitError::new(self.trouble.as_str())),
        }
    }

    fn write(&mut self, group: Vec<Batch>, notifier: &mut CompletionNotifier) {
        let begun = Instant::now();
        let outcome = self.commit(&group);
        let changes = group.iter().map(|batch| batch.changes.len() as u64).sum();
        if let Ok(Some((from, to))) = outcome {
            self.tell_of_accounts(&group, from, to);
        }
        let outcome = outcome.map(drop);
        self.queue.finish(changes, begun.elapsed(), &outcome);
        notifier.tell(&self.queue, group, &outcome);
    }

    /// Fails also if the files were lost in the meantime: then the commit is lost as
    /// well.
    fn commit(&mut self, group: &[Batch]) -> Result<Option<(u64, u64)>, CommitError> {
        self.look_at_files()?;
        let outcome = self.transact(group);
        let outcome = outcome.map_err(|error| CommitError::new(error.to_string()))?;
        self.look_at_files().map(|()| outcome)
    }

    /// The revisions of accounts before and after, when the group changes some.
    /// An error rolls the whole group back: the transaction is dropped uncommitted.
    fn transact(&mut self, group: &[Batch]) -> rusqlite::Result<Option<(u64, u64)>> {
        // Immediate: a transaction that reads first could not write after another
        // program has written.
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let is_of_accounts = changes_of(group).any(Change::is_of_account);
        let revision = || {
            is_of_accounts
                .then(|| load::revision(&transaction))
                .transpose()
        };
        let from = revision()?;
        for change in changes_of(group) {
            apply(&transaction, change)?;
        }
        let to = revision()?;
        transaction.commit()?;
        Ok(from.zip(to))
    }

    /// Nobody waits for this.
    fn purge(&mut self, batch: &[EndedBinding]) {
        if self.look_at_files().is_err() {
            return self.queue.finish_ended(batch, false);
        }
        let outcome = self.remove(batch);
        if let Err(error) = &outcome {
            tracing::warn!(%error, "ended rows cannot be deleted now; trying again later");
        }
        self.queue.finish_ended(batch, outcome.is_ok());
    }

    fn remove(&mut self, batch: &[EndedBinding]) -> rusqlite::Result<()> {
        self.remove_by(|transaction| {
            let mut batch = batch.iter();
            batch.try_for_each(|ended| remove_ended(transaction, *ended))
        })
    }

    /// Nobody waits for this.
    fn remove_old_call_records(&mut self, limits: CallRecordLimits) {
        let mut removed = None;
        if self.look_at_files().is_ok() {
            let outcome = self.remove_by(|transaction| {
                removed = Some(call_records::remove_old(transaction, limits)?);
                Ok(())
            });
            if let Err(error) = outcome {
                removed = None;
                tracing::warn!(%error, "old records of calls cannot be deleted now; trying again later");
            }
        }
        self.queue.finish_call_records(removed);
    }

    /// Removes rows for which nobody waits, in a transaction of their own.
    fn remove_by(
        &mut self,
        remove: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        remove(&transaction)?;
        transaction.commit()?;
        self.batches += 1;
        match self.batches.is_multiple_of(CHECKPOINT_BATCHES) {
            true => self.connection.execute_batch(CHECKPOINT),
            false => Ok(()),
        }
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
    /// However it ends, nobody waits for it any longer.
    fn drop(&mut self) {
        let error = CommitError::new("the store's thread has ended");
        self.queue.end(&error);
    }
}

fn changes_of(group: &[Batch]) -> impl Iterator<Item = &Change> {
    group.iter().flat_map(|batch| &batch.changes)
}

fn apply(connection: &Connection, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Binding(change) => apply_binding(connection, change),
        Change::PutSoftState(row) => put_soft_state(connection, row),
        Change::RemoveSoftState(id) => execute(connection, REMOVE_SOFT_STATE, &[&key(*id)]),
        Change::PutAccount(account) => put_account(connection, account),
        Change::RemoveAccount { username, realm } => {
            remove_account(connection, username, realm).map(drop)
        }
        Change::PutSetting { kind, name, value } => put_setting(connection, *kind, name, value),
        Change::RemoveSetting { kind, name } => remove_setting(connection, *kind, name).map(drop),
        Change::PutCallRecord(row) => call_records::put(connection, row),
    }
}

fn apply_binding(connection: &Connection, change: &BindingChange) -> rusqlite::Result<()> {
    match change {
        BindingChange::Put {
            id,
            aor,
            contact,
            lease,
        } => {
            put_contact(connection, *id, aor, contact)?;
            write_lease(connection, PUT_LEASE, *id, lease)
        }
        BindingChange::Renew { id, lease } => write_lease(connection, RENEW_LEASE, *id, lease),
        BindingChange::Remove { id } => {
            execute(connection, REMOVE_CONTACT, &[&key(*id)])?;
            execute(connection, REMOVE_LEASE, &[&key(*id)])
        }
    }
}

/// Leaves alone a lease that ends at another time.
fn remove_ended(connection: &Connection, ended: EndedBinding) -> rusqlite::Result<()> {
    let (id, expires_at) = (key(ended.id), nanos(ended.expires_at));
    match cached(connection, REMOVE_ENDED_LEASE)?.execute([id, expires_at])? {
        0 => execute(connection, REMOVE_ENDED_SOFT_STATE, &[&id, &expires_at]),
        _ => execute(connection, REMOVE_CONTACT, &[&id]),
    }
}

fn put_soft_state(connection: &Connection, row: &SoftState) -> rusqlite::Result<()> {
    cached(connection, PUT_SOFT_STATE)?.execute(params![
        key(row.id),
        row.kind.name(),
        row.value,
        row.granted_s,
        nanos(row.expires_at),
    ])?;
    Ok(())
}

fn put_contact(
    connection: &Connection,
    id: BindingId,
    aor: &str,
    contact: &Contact,
) -> rusqlite::Result<()> {
    let contact = contact.parts();
    cached(connection, PUT_CONTACT)?.execute(params![
        key(id),
        aor,
        contact.uri,
        contact.parameters,
        contact.q_milli,
        contact.call_id,
        contact.path,
        contact.user_agent,
        contact.flow.remote.to_string(),
        contact.flow.local_text(),
    ])?;
    Ok(())
}

fn write_lease(
    connection: &Connection,
    statement: &str,
    id: BindingId,
    lease: &Lease,
) -> rusqlite::Result<()> {
    cached(connection, statement)?.execute(params![
        key(id),
        lease.cseq,
        lease.granted_s,
        nanos(lease.expires_at),
        lease.removed,
    ])?;
    Ok(())
}

pub(super) fn put_account(connection: &Connection, account: &Account) -> rusqlite::Result<()> {
    cached(connection, PUT_ACCOUNT)?.execute(params![
        account.username,
        account.realm,
        account.secret.password(),
        hashes_text(&account.secret),
        account.contacts_max,
        account.mailbox,
        hints_text(&account.hints),
        hints_text(&account.aliases),
        account.watchers.as_deref().map(hints_text),
        account.is_disabled,
    ])?;
    Ok(())
}

/// How many there were: one or none.
pub(super) fn remove_account(
    connection: &Connection,
    username: &str,
    realm: &str,
) -> rusqlite::Result<usize> {
    cached(connection, REMOVE_ACCOUNT)?.execute([username, realm])
}

pub(super) fn put_setting(
    connection: &Connection,
    kind: SettingKind,
    name: &str,
    value: &str,
) -> rusqlite::Result<()> {
    execute(connection, PUT_SETTING, &[&kind.name(), &name, &value])
}

/// How many there were: one or none.
pub(super) fn remove_setting(
    connection: &Connection,
    kind: SettingKind,
    name: &str,
) -> rusqlite::Result<usize> {
    cached(connection, REMOVE_SETTING)?.execute([kind.name(), name])
}

fn execute(
    connection: &Connection,
    statement: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<()> {
    cached(connection, statement)?.execute(values).map(drop)
}

fn cached<'c>(connection: &'c Connection, sql: &str) -> rusqlite::Result<CachedStatement<'c>> {
    connection.prepare_cached(sql)
}

/// SQLite's integers are signed; ids are counted up from one and never reach the sign.
fn key(id: BindingId) -> i64 {
    id.0.cast_signed()
}

fn nanos(time: UnixTime) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

const LOST: &str = "the database file is lost: registrations are answered 503. Put the file back, \
    or restart the server to begin with the file that is there now; then all devices have to \
    register again";
const PUT_CONTACT: &str = "INSERT OR REPLACE INTO contact \
    (id, aor, uri, parameters, q_milli, call_id, path, user_agent, remote, local) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const PUT_LEASE: &str = "INSERT OR REPLACE INTO lease \
    (id, cseq, granted_s, expires_at_ns, removed) VALUES (?1, ?2, ?3, ?4, ?5)";
const RENEW_LEASE: &str = "UPDATE lease \
    SET cseq = ?2, granted_s = ?3, expires_at_ns = ?4, removed = ?5 WHERE id = ?1";
const REMOVE_CONTACT: &str = "DELETE FROM contact WHERE id = ?1";
const REMOVE_LEASE: &str = "DELETE FROM lease WHERE id = ?1";
const REMOVE_ENDED_LEASE: &str = "DELETE FROM lease WHERE id = ?1 AND expires_at_ns = ?2";
const PUT_SOFT_STATE: &str = "INSERT OR REPLACE INTO soft_state \
    (id, kind, value, granted_s, expires_at_ns) VALUES (?1, ?2, ?3, ?4, ?5)";
const REMOVE_SOFT_STATE: &str = "DELETE FROM soft_state WHERE id = ?1";
const REMOVE_ENDED_SOFT_STATE: &str = "DELETE FROM soft_state WHERE id = ?1 AND expires_at_ns = ?2";
const PUT_ACCOUNT: &str = "INSERT INTO account \
    (username, realm, password, hashes, contacts_max, mailbox, hints, aliases, watchers, \
    disabled) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (username, realm) DO UPDATE SET \
    password = excluded.password, hashes = excluded.hashes, \
    contacts_max = excluded.contacts_max, mailbox = excluded.mailbox, hints = excluded.hints, \
    aliases = excluded.aliases, watchers = excluded.watchers, disabled = excluded.disabled";
const REMOVE_ACCOUNT: &str = "DELETE FROM account WHERE username = ?1 AND realm = ?2";
const PUT_SETTING: &str = "INSERT OR REPLACE INTO setting (kind, name, value) VALUES (?1, ?2, ?3)";
const REMOVE_SETTING: &str = "DELETE FROM setting WHERE kind = ?1 AND name = ?2";
/// Many pages change here and few change twice, so a checkpoint of the usual length
/// would take long, and registrations would wait for it.
const CHECKPOINT_BATCHES: u64 = 4;
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// More than the statements above, so that none is ever compiled twice.
const STATEMENTS: usize = 32;
