//! Writing changes to the tables.

use super::{call_records, folded_rows::RowChange};
use crate::{
    Account, Change, SettingKind, SoftState,
    account::{hashes_text, hints_text},
};
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, EndedBinding, Lease};
use rusqlite::{CachedStatement, Connection, ToSql, params};

/// Looks for the statement of renewals, which most rows are, only once.
pub(super) fn apply_rows<'r>(
    connection: &Connection,
    rows: impl IntoIterator<Item = &'r RowChange>,
) -> rusqlite::Result<()> {
    let mut renew = cached(connection, RENEW_LEASE)?;
    for row in rows {
        match row {
            RowChange::Put(Change::Binding(BindingChange::Renew { id, lease })) => {
                write_lease(&mut renew, *id, lease)?;
            }
            RowChange::Put(change) => apply(connection, change)?,
            RowChange::Ended(ended) => remove_ended(connection, *ended)?,
        }
    }
    Ok(())
}

pub(super) fn apply(connection: &Connection, change: &Change) -> rusqlite::Result<()> {
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
            write_lease(&mut cached(connection, PUT_LEASE)?, *id, lease)
        }
        BindingChange::Renew { id, lease } => {
            write_lease(&mut cached(connection, RENEW_LEASE)?, *id, lease)
        }
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
        contact.flow.remote_text(),
        contact.flow.local_text(),
    ])?;
    Ok(())
}

fn write_lease(
    statement: &mut CachedStatement<'_>,
    id: BindingId,
    lease: &Lease,
) -> rusqlite::Result<()> {
    statement.execute(params![
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
