//! Reading everything back at the start, in one consistent snapshot.

use super::{StoreError, call_records, schema, sqlite_error};
use crate::{
    Account, AccountKey, AccountNews, BindingRows, Contents, SettingKind, SoftState, SoftStateKind,
    StoredBinding,
    account::{hints_of_row, secret_of_row},
    outside_changes::{ACCOUNT_NAMES_KEPT, BATCH_LEN, are_names_kept},
    setting::Settings,
};
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingId, Contact, ContactParts, Lease};
use busyhour_sip::Flow;
use rusqlite::{Connection, OpenFlags, Row, Rows, Transaction, params, types::ValueRef};
use std::{collections::BTreeMap, path::Path};

pub(super) fn contents(path: &Path) -> Result<Contents, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let mut connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrap)?;
    let snapshot = connection.transaction().map_err(wrap)?;
    Ok(Contents {
        bindings: bindings(&snapshot, path)?,
        ..but_bindings(&snapshot).map_err(wrap)?
    })
}

/// All but the bindings, if there are so many of them that they are read later; the highest id of a row instead.
pub(super) fn contents_but_bindings(
    path: &Path,
    bindings_max: usize,
) -> Result<Option<Contents>, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let mut connection = Connection::open_with_flags(path, flags).map_err(wrap)?;
    let snapshot = connection.transaction().map_err(wrap)?;
    let limit = i64::try_from(bindings_max).unwrap_or(i64::MAX);
    let are_many = snapshot
        .prepare(ARE_MANY)
        .and_then(|mut it| it.exists([limit]));
    if !are_many.map_err(wrap)? {
        return Ok(None);
    }
    let last = last_binding(&snapshot).map_err(wrap)?;
    Ok(Some(Contents {
        last_id: last.cast_unsigned(),
        ..but_bindings(&snapshot).map_err(wrap)?
    }))
}

fn but_bindings(snapshot: &Transaction<'_>) -> rusqlite::Result<Contents> {
    Ok(Contents {
        bindings: Vec::new(),
        soft_states: soft_states(snapshot)?,
        accounts: accounts(snapshot)?,
        account_revision: revision(snapshot)?,
        run: schema::run(snapshot)?,
        last_call_record: call_records::last(snapshot)?,
        last_id: 0,
        setting_revision: 0,
        settings: settings(snapshot)?,
    })
}

/// The highest id of a binding; 0 if there is none.
pub(super) fn last_binding(connection: &Connection) -> rusqlite::Result<i64> {
    let last = "SELECT coalesce(max(id), 0) FROM contact";
    connection.query_row(last, [], |row| row.get(0))
}

fn bindings(snapshot: &Transaction<'_>, path: &Path) -> Result<Vec<StoredBinding>, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let query = format!("{BINDINGS} ORDER BY id");
    let mut statement = snapshot.prepare(&query).map_err(wrap)?;
    read_bindings(statement.query([]).map_err(wrap)?, path)?.all()
}

/// Those with these ids.
pub(super) fn bindings_of(
    connection: &Connection,
    path: &Path,
    ids: &[BindingId],
) -> Result<BindingRows, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let query = format!("{BINDINGS} WHERE id = ?1");
    let mut statement = connection.prepare_cached(&query).map_err(wrap)?;
    let mut all = BindingRows::default();
    for id in ids {
        let rows = statement.query([id.0.cast_signed()]).map_err(wrap)?;
        all.append(read_bindings(rows, path)?);
    }
    Ok(all)
}

/// At most so many behind an id, in their order.
pub(super) fn bindings_behind(
    connection: &Connection,
    path: &Path,
    (after, limit): (i64, i64),
) -> Result<BindingRows, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let query = format!("{BINDINGS} WHERE id > ?1 ORDER BY id LIMIT ?2");
    let mut statement = connection.prepare_cached(&query).map_err(wrap)?;
    read_bindings(statement.query([after, limit]).map_err(wrap)?, path)
}

fn read_bindings(mut rows: Rows<'_>, path: &Path) -> Result<BindingRows, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let mut all = BindingRows::default();
    while let Some(row) = rows.next().map_err(wrap)? {
        let id: i64 = row.get(0).map_err(wrap)?;
        let binding = binding(row, id).map_err(|reason| row_error(path, id, reason));
        all.push(BindingId(id.cast_unsigned()), binding);
    }
    Ok(all)
}

/// A row of contacts makes no sense.
pub(super) fn row_error(path: &Path, row: i64, reason: String) -> StoreError {
    StoreError::Row {
        path: path.to_owned(),
        table: "contact",
        row,
        reason,
    }
}

fn binding(row: &Row<'_>, id: i64) -> Result<StoredBinding, String> {
    Ok(StoredBinding {
        id: BindingId(id.cast_unsigned()),
        aor: text(row, 1)?.into(),
        contact: contact(row)?,
        lease: lease(row).map_err(|error| error.to_string())?,
    })
}

fn contact(row: &Row<'_>) -> Result<Contact, String> {
    let text = |column| text(row, column);
    Ok(Contact::new(ContactParts {
        uri: text(2)?,
        parameters: text(3)?,
        q_milli: row.get(4).map_err(|error| error.to_string())?,
        call_id: text(5)?,
        path: text(6)?,
        user_agent: text(7)?,
        flow: flow(text(8)?, text(9)?)?,
    }))
}

fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let expires_at_ns: i64 = row.get(12)?;
    Ok(Lease {
        cseq: row.get(10)?,
        granted_s: row.get(11)?,
        expires_at: UnixTime::from_nanos(u64::try_from(expires_at_ns).unwrap_or(0)),
        removed: row.get(13)?,
    })
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, String> {
    row.get_ref(column)
        .map_err(|error| error.to_string())?
        .as_str()
        .map_err(|error| error.to_string())
}

fn flow(remote: &str, local: &str) -> Result<Flow, String> {
    let flow = Flow::from_texts(local, remote);
    flow.ok_or_else(|| format!("{remote:?} and {local:?} are not two addresses with ports"))
}

/// What became of accounts since the revision `known`, and what it is now. `None`
/// when they are too many.
pub(super) fn news(
    connection: &mut Connection,
    known: u64,
) -> rusqlite::Result<(Option<Vec<AccountNews>>, u64)> {
    let snapshot = connection.transaction()?;
    let revision = revision(&snapshot)?;
    let are_kept = are_names_kept(known, revision, ACCOUNT_NAMES_KEPT);
    let news = are_kept
        .then(|| changed_since(known, &snapshot))
        .transpose()?;
    Ok((news, revision))
}

/// At most [`BATCH_LEN`] accounts, in the order of their names.
pub(super) fn batch(
    connection: &Connection,
    after: Option<&AccountKey>,
) -> rusqlite::Result<Vec<Account>> {
    let limit = BATCH_LEN as i64;
    let mut statement = connection.prepare_cached(match after {
        Some(_) => ACCOUNTS_AFTER,
        None => ACCOUNTS_FIRST,
    })?;
    let accounts = match after {
        Some(key) => statement.query_map(params![limit, key.username, key.realm], account)?,
        None => statement.query_map([limit], account)?,
    };
    accounts.collect()
}

fn changed_since(known: u64, snapshot: &Connection) -> rusqlite::Result<Vec<AccountNews>> {
    let mut statement = snapshot.prepare_cached(CHANGED)?;
    let news = statement.query_map([known.cast_signed()], one_news)?;
    news.collect()
}

/// Without hashes there is no account of this name any more.
fn one_news(row: &Row<'_>) -> rusqlite::Result<AccountNews> {
    if row.get_ref(3)? != ValueRef::Null {
        return account(row).map(AccountNews::Put);
    }
    Ok(AccountNews::Removed {
        username: row.get(0)?,
        realm: row.get(1)?,
    })
}

/// How often accounts were changed.
pub(super) fn revision(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(REVISION)?;
    statement.query_row([], |row| row.get::<_, i64>(0).map(i64::cast_unsigned))
}

/// Every account.
pub(super) fn accounts(snapshot: &Connection) -> rusqlite::Result<Vec<Account>> {
    let mut statement = snapshot.prepare(ACCOUNTS)?;
    let accounts = statement.query_map([], account)?;
    accounts.collect()
}

fn account(row: &Row<'_>) -> rusqlite::Result<Account> {
    let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    Ok(Account {
        username: row.get(0)?,
        realm: row.get(1)?,
        secret: secret_of_row(row.get(2)?, text(3)?),
        contacts_max: row.get(4)?,
        mailbox: row.get(5)?,
        hints: hints_of_row(text(6)?),
        aliases: hints_of_row(text(7)?),
        watchers: row
            .get::<_, Option<String>>(8)?
            .as_deref()
            .map(hints_of_row),
        is_disabled: row.get(9)?,
    })
}

/// A kind that is not known here is of a newer version, and as good as absent.
fn soft_states(snapshot: &Transaction<'_>) -> rusqlite::Result<Vec<SoftState>> {
    let mut statement = snapshot.prepare(SOFT_STATES)?;
    let mut rows = statement.query([])?;
    let mut soft_states = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(kind) = SoftStateKind::from_name(row.get_ref(1)?.as_str()?) else {
            continue;
        };
        let expires_at_ns: i64 = row.get(4)?;
        soft_states.push(SoftState {
            id: BindingId(row.get::<_, i64>(0)?.cast_unsigned()),
            kind,
            value: row.get_ref(2)?.as_str()?.into(),
            granted_s: row.get(3)?,
            expires_at: UnixTime::from_nanos(u64::try_from(expires_at_ns).unwrap_or(0)),
        });
    }
    Ok(soft_states)
}

/// A kind that is not known here is of a newer version, and as good as absent.
fn settings(snapshot: &Transaction<'_>) -> rusqlite::Result<Settings> {
    let mut statement = snapshot.prepare("SELECT kind, name, value FROM setting")?;
    let mut rows = statement.query([])?;
    let mut settings = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if let Some(kind) = SettingKind::from_name(row.get_ref(0)?.as_str()?) {
            settings.insert((kind, row.get(1)?), row.get(2)?);
        }
    }
    Ok(settings)
}

/// The settings of a kind, by their names.
pub(super) fn settings_of(
    connection: &Connection,
    kind: SettingKind,
) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare_cached(SETTINGS_OF)?;
    let settings = statement.query_map([kind.name()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    settings.collect()
}

const SETTINGS_OF: &str = "SELECT name, value FROM setting WHERE kind = ?1";
const BINDINGS: &str = "SELECT id, aor, uri, parameters, q_milli, call_id, path, user_agent, \
    remote, local, cseq, granted_s, expires_at_ns, removed \
    FROM contact JOIN lease USING (id)";
/// Whether there are more than so many; it does not count all.
const ARE_MANY: &str = "SELECT 1 FROM contact LIMIT 1 OFFSET ?1";
const SOFT_STATES: &str =
    "SELECT id, kind, value, granted_s, expires_at_ns FROM soft_state ORDER BY id";
const ACCOUNTS: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, hints, \
    aliases, watchers, disabled FROM account ORDER BY username, realm";
const ACCOUNTS_FIRST: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, \
    hints, aliases, watchers, disabled FROM account ORDER BY username, realm LIMIT ?1";
const ACCOUNTS_AFTER: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, \
    hints, aliases, watchers, disabled FROM account WHERE (username, realm) > (?2, ?3) ORDER BY username, realm LIMIT ?1";
const CHANGED: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, hints, \
    aliases, watchers, disabled FROM (SELECT username, realm, max(revision) AS last FROM account_change \
        WHERE revision > ?1 GROUP BY username, realm) \
    LEFT JOIN account USING (username, realm) ORDER BY last";
const REVISION: &str = "SELECT count FROM revision WHERE name = 'account'";
