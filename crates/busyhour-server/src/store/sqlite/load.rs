//! Reading everything back at the start, in one consistent snapshot.

use super::{StoreError, sqlite_error};
use crate::registrar::{BindingId, Contact, Flow, Lease};
use crate::store::{Account, AccountHash, Contents, StoredBinding};
use busyhour::{bus::Name, clock::UnixTime};
use rusqlite::{Connection, OpenFlags, Row, Transaction};
use std::{collections::BTreeMap, path::Path, sync::Arc};

pub(super) fn contents(path: &Path) -> Result<Contents, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let mut connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrap)?;
    let snapshot = connection.transaction().map_err(wrap)?;
    Ok(Contents {
        bindings: bindings(&snapshot, path)?,
        accounts: accounts(&snapshot).map_err(wrap)?,
        secrets: secrets(&snapshot).map_err(wrap)?,
    })
}

fn bindings(snapshot: &Transaction<'_>, path: &Path) -> Result<Vec<StoredBinding>, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let mut statement = snapshot.prepare(BINDINGS).map_err(wrap)?;
    let mut rows = statement.query([]).map_err(wrap)?;
    let mut bindings = Vec::new();
    while let Some(row) = rows.next().map_err(wrap)? {
        let id: i64 = row.get(0).map_err(wrap)?;
        bindings.push(binding(row, id).map_err(|reason| StoreError::Row {
            path: path.to_owned(),
            table: "contact",
            row: id,
            reason,
        })?);
    }
    Ok(bindings)
}

fn binding(row: &Row<'_>, id: i64) -> Result<StoredBinding, String> {
    Ok(StoredBinding {
        id: BindingId(id.cast_unsigned()),
        contact: Arc::new(contact(row)?),
        lease: lease(row).map_err(|error| error.to_string())?,
    })
}

fn contact(row: &Row<'_>) -> Result<Contact, String> {
    let text = |column| text(row, column);
    Ok(Contact {
        aor: Name::new(text(1)?),
        uri: text(2)?.into(),
        parameters: text(3)?.into(),
        q_milli: row.get(4).map_err(|error| error.to_string())?,
        call_id: text(5)?.into(),
        path: text(6)?.into(),
        user_agent: text(7)?.into(),
        flow: flow(text(8)?, text(9)?)?,
    })
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

fn accounts(snapshot: &Transaction<'_>) -> rusqlite::Result<Vec<Account>> {
    let mut by_user = BTreeMap::<(String, String), Vec<AccountHash>>::new();
    let mut statement = snapshot.prepare(ACCOUNTS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let hashes = by_user.entry((row.get(0)?, row.get(1)?)).or_default();
        hashes.push(AccountHash {
            algorithm: row.get(2)?,
            hex: row.get(3)?,
        });
    }
    let account = |((username, realm), hashes)| Account {
        username,
        realm,
        hashes,
    };
    Ok(by_user.into_iter().map(account).collect())
}

fn secrets(snapshot: &Transaction<'_>) -> rusqlite::Result<BTreeMap<String, Vec<u8>>> {
    snapshot
        .prepare("SELECT name, value FROM secret")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

const BINDINGS: &str = "SELECT id, aor, uri, parameters, q_milli, call_id, path, user_agent, \
    remote, local, cseq, granted_s, expires_at_ns, removed \
    FROM contact JOIN lease USING (id) ORDER BY id";
const ACCOUNTS: &str =
    "SELECT username, realm, algorithm, hash FROM account ORDER BY username, realm, algorithm";
