//! The tables, and the migrations of older databases.

use super::{StoreError, location_view, sqlite_error};
use crate::migrations::not_seen;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;

/// Runs every migration that the database has not seen, in one transaction.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(wrap)?;
    let found = version(&transaction).map_err(wrap)?;
    let not_seen = not_seen(MIGRATIONS, found, path)?;
    if !not_seen.is_empty() {
        location_view::remove(&transaction).map_err(wrap)?;
    }
    for migration in not_seen {
        transaction.execute_batch(migration).map_err(wrap)?;
    }
    transaction
        .pragma_update(None, "user_version", MIGRATIONS.len() as u32)
        .map_err(wrap)?;
    transaction.commit().map_err(wrap)
}

/// Whether a database of this version can be brought up to date.
///
/// # Errors
///
/// [`StoreError::Newer`] if not.
pub(super) fn check_known(found: u32, path: &Path) -> Result<(), StoreError> {
    not_seen(MIGRATIONS, found, path).map(drop)
}

/// Makes the tables of the version before in the empty file at `path`.
pub(super) fn previous(path: &Path) -> Result<Connection, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let connection = Connection::open(path).map_err(wrap)?;
    let before = &MIGRATIONS[..MIGRATIONS.len() - 1];
    connection.execute_batch(&before.concat()).map_err(wrap)?;
    connection
        .pragma_update(None, "user_version", before.len() as u32)
        .map_err(wrap)?;
    Ok(connection)
}

/// Replaces all rows by those of the attached database `newer`, as far as both have the same
/// tables and columns. Returns what is only in `newer`.
pub(super) fn take_over(connection: &mut Connection) -> rusqlite::Result<Vec<String>> {
    let transaction = connection.transaction()?;
    let mut left_out = Vec::new();
    // Rows are taken as they are: nothing is counted again.
    let triggers = names_and(&transaction, "main", "trigger", "sql")?;
    for (name, _) in &triggers {
        transaction.execute_batch(&format!("DROP TRIGGER {name}"))?;
    }
    let known = names_and(&transaction, "main", "table", "name")?;
    for (table, _) in names_and(&transaction, "newer", "table", "name")? {
        let (own, theirs) = match known.iter().any(|(name, _)| *name == table) {
            true => (
                columns(&transaction, "main", &table)?,
                columns(&transaction, "newer", &table)?,
            ),
            false => {
                let count = format!("SELECT count(*) FROM newer.{table}");
                let count: i64 = transaction.query_row(&count, [], |row| row.get(0))?;
                left_out.extend((count > 0).then(|| format!("{count} rows of {table}")));
                continue;
            }
        };
        let (shared, missing): (Vec<_>, Vec<_>) =
            theirs.into_iter().partition(|column| own.contains(column));
        left_out.extend(missing.iter().map(|column| format!("{table}.{column}")));
        let shared = shared.join(", ");
        transaction.execute_batch(&format!(
            "DELETE FROM main.{table};
             INSERT INTO main.{table} ({shared}) SELECT {shared} FROM newer.{table};"
        ))?;
    }
    for (_, sql) in &triggers {
        transaction.execute_batch(sql)?;
    }
    transaction.commit()?;
    Ok(left_out)
}

/// The names of what is of a kind, with another column of the schema.
fn names_and(
    transaction: &Transaction<'_>,
    database: &str,
    kind: &str,
    column: &str,
) -> rusqlite::Result<Vec<(String, String)>> {
    let query = format!(
        "SELECT name, {column} FROM {database}.sqlite_schema
         WHERE type = ?1 AND name NOT LIKE 'sqlite_%'"
    );
    let mut statement = transaction.prepare(&query)?;
    let rows = statement.query_map([kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn columns(
    transaction: &Transaction<'_>,
    database: &str,
    table: &str,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = transaction.prepare("SELECT name FROM pragma_table_info(?1, ?2)")?;
    let rows = statement.query_map([table, database], |row| row.get(0))?;
    rows.collect()
}

/// Counts a server that has opened the database.
pub(super) fn count_run(connection: &Connection) -> rusqlite::Result<()> {
    let count = "UPDATE revision SET count = count + 1 WHERE name = 'run'";
    connection.execute(count, []).map(drop)
}

/// How many servers have opened the database.
pub(super) fn run(connection: &Connection) -> rusqlite::Result<u64> {
    let found = "SELECT count FROM revision WHERE name = 'run'";
    connection.query_row(found, [], |row| {
        row.get::<_, i64>(0).map(i64::cast_unsigned)
    })
}

fn version(transaction: &Transaction<'_>) -> rusqlite::Result<u32> {
    transaction.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Element `n` brings a database from version `n` to `n + 1`. Never edit one
/// that has been released; append.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE contact (
        id INTEGER PRIMARY KEY,
        aor TEXT NOT NULL,
        uri TEXT NOT NULL,
        parameters TEXT NOT NULL,
        q_milli INTEGER,
        call_id TEXT NOT NULL,
        path TEXT NOT NULL,
        user_agent TEXT NOT NULL,
        remote TEXT NOT NULL,
        local TEXT NOT NULL
    );
    CREATE TABLE lease (
        id INTEGER PRIMARY KEY,
        cseq INTEGER NOT NULL,
        granted_s INTEGER NOT NULL,
        expires_at_ns INTEGER NOT NULL,
        removed INTEGER NOT NULL
    );
    CREATE TABLE account (
        username TEXT NOT NULL,
        realm TEXT NOT NULL,
        algorithm TEXT NOT NULL,
        hash TEXT NOT NULL,
        PRIMARY KEY (username, realm, algorithm)
    ) WITHOUT ROWID;
    CREATE TABLE secret (
        name TEXT PRIMARY KEY,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
",
    "
    ALTER TABLE account RENAME TO account_hash;
    CREATE TABLE account (
        username TEXT NOT NULL,
        realm TEXT NOT NULL,
        password TEXT,
        hashes TEXT NOT NULL,
        contacts_max INTEGER,
        mailbox TEXT,
        hints TEXT NOT NULL,
        PRIMARY KEY (username, realm)
    ) WITHOUT ROWID;
    INSERT INTO account
        SELECT username, realm, NULL, group_concat(algorithm || '=' || hash, ' '), NULL, NULL, ''
        FROM account_hash GROUP BY username, realm;
    DROP TABLE account_hash;
    CREATE TABLE revision (
        name TEXT PRIMARY KEY,
        count INTEGER NOT NULL
    ) WITHOUT ROWID;
    INSERT INTO revision VALUES ('account', 1);
    CREATE TRIGGER account_inserted AFTER INSERT ON account
        BEGIN UPDATE revision SET count = count + 1 WHERE name = 'account'; END;
    CREATE TRIGGER account_updated AFTER UPDATE ON account
        BEGIN UPDATE revision SET count = count + 1 WHERE name = 'account'; END;
    CREATE TRIGGER account_deleted AFTER DELETE ON account
        BEGIN UPDATE revision SET count = count + 1 WHERE name = 'account'; END;
",
    "
    DROP TABLE secret;
    CREATE TABLE setting (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE account_change (
        revision INTEGER PRIMARY KEY,
        username TEXT NOT NULL,
        realm TEXT NOT NULL
    );
    CREATE TRIGGER account_change_kept AFTER INSERT ON account_change
        BEGIN DELETE FROM account_change WHERE revision <= new.revision - 1000; END;
    DROP TRIGGER account_inserted;
    DROP TRIGGER account_updated;
    DROP TRIGGER account_deleted;
    CREATE TRIGGER account_inserted AFTER INSERT ON account BEGIN
        UPDATE revision SET count = count + 1 WHERE name = 'account';
        INSERT OR REPLACE INTO account_change
            SELECT count, new.username, new.realm FROM revision WHERE name = 'account';
    END;
    CREATE TRIGGER account_updated AFTER UPDATE ON account BEGIN
        UPDATE revision SET count = count + 1 WHERE name = 'account';
        INSERT OR REPLACE INTO account_change
            SELECT count, new.username, new.realm FROM revision WHERE name = 'account';
    END;
    CREATE TRIGGER account_renamed AFTER UPDATE OF username, realm ON account
        WHEN old.username <> new.username OR old.realm <> new.realm BEGIN
        UPDATE revision SET count = count + 1 WHERE name = 'account';
        INSERT OR REPLACE INTO account_change
            SELECT count, old.username, old.realm FROM revision WHERE name = 'account';
    END;
    CREATE TRIGGER account_deleted AFTER DELETE ON account BEGIN
        UPDATE revision SET count = count + 1 WHERE name = 'account';
        INSERT OR REPLACE INTO account_change
            SELECT count, old.username, old.realm FROM revision WHERE name = 'account';
    END;
",
    "
    CREATE TABLE soft_state (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        value TEXT NOT NULL,
        granted_s INTEGER NOT NULL,
        expires_at_ns INTEGER NOT NULL
    );
",
    "
    INSERT INTO revision VALUES ('run', 0);
",
    "
    CREATE TABLE call_record (
        id INTEGER PRIMARY KEY,
        call_id TEXT NOT NULL,
        from_uri TEXT NOT NULL,
        to_uri TEXT NOT NULL,
        caller TEXT,
        answered_by TEXT,
        caller_user TEXT NOT NULL,
        callee_user TEXT NOT NULL,
        answered_user TEXT NOT NULL,
        began_at_ns INTEGER NOT NULL,
        rang_at_ns INTEGER,
        answered_at_ns INTEGER,
        ended_at_ns INTEGER NOT NULL,
        post_dial_delay_ns INTEGER,
        talk_time_ns INTEGER,
        outcome TEXT NOT NULL,
        status INTEGER NOT NULL,
        ending TEXT NOT NULL,
        ended_by TEXT,
        caller_flow TEXT NOT NULL,
        callee_flow TEXT
    );
",
    // Each ends with the id. Who answers is seldom another one than who was called.
    "
    CREATE INDEX call_record_began ON call_record (began_at_ns);
    CREATE INDEX call_record_caller ON call_record (caller_user);
    CREATE INDEX call_record_callee ON call_record (callee_user);
    CREATE INDEX call_record_answered ON call_record (answered_user)
        WHERE answered_user <> callee_user;
",
    "
    ALTER TABLE account ADD COLUMN aliases TEXT NOT NULL DEFAULT '';
    ALTER TABLE account ADD COLUMN watchers TEXT;
",
    "
    ALTER TABLE account ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0;
",
    "
    ALTER TABLE call_record ADD COLUMN media_failure TEXT;
",
    // At most one row; none if there is nothing to be taken from a journal.
    "
    CREATE TABLE journal (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        epoch INTEGER NOT NULL,
        number INTEGER NOT NULL,
        end INTEGER NOT NULL
    );
",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("memory");
        migrate(&mut connection, path).unwrap();
        migrate(&mut connection, path).unwrap();
        let found: u32 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(found as usize, MIGRATIONS.len());
    }

    #[test]
    fn accounts_of_the_first_schema_keep_their_hashes() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(MIGRATIONS[0]).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        let rows = "INSERT INTO account VALUES ('alice', 'r', 'MD5', 'aa'),
            ('alice', 'r', 'SHA-256', 'bb'), ('bob', 'r', 'MD5', 'cc')";
        connection.execute_batch(rows).unwrap();
        migrate(&mut connection, Path::new("memory")).unwrap();
        let hashes = |user: &str| -> String {
            let query = "SELECT hashes FROM account WHERE username = ?1";
            connection
                .query_row(query, [user], |row| row.get(0))
                .unwrap()
        };
        assert_eq!(hashes("alice"), "MD5=aa SHA-256=bb");
        assert_eq!(hashes("bob"), "MD5=cc");
    }

    #[test]
    fn a_database_before_records_of_calls_gets_their_table_and_keeps_the_rest() {
        let mut connection = Connection::open_in_memory().unwrap();
        let before = 6;
        connection
            .execute_batch(&MIGRATIONS[..before].concat())
            .unwrap();
        let version = before as u32;
        connection
            .pragma_update(None, "user_version", version)
            .unwrap();
        let row = "INSERT INTO setting VALUES ('hint', '100', 'alice')";
        connection.execute_batch(row).unwrap();
        migrate(&mut connection, Path::new("memory")).unwrap();
        let count = |table: &str| -> i64 {
            let query = format!("SELECT count(*) FROM {table}");
            connection.query_row(&query, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((count("setting"), count("call_record")), (1, 0));
    }

    #[test]
    fn records_of_calls_are_kept_when_they_get_their_indexes() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&MIGRATIONS[..7].concat()).unwrap();
        connection.pragma_update(None, "user_version", 7).unwrap();
        let row = "INSERT INTO call_record VALUES (1, 'call', '', '', NULL, NULL, 'alice', 'bob', \
            'bob', 1, NULL, NULL, 2, NULL, NULL, 'answered', 200, 'local-bye', NULL, '', NULL)";
        connection.execute_batch(row).unwrap();
        migrate(&mut connection, Path::new("memory")).unwrap();
        let found = "SELECT id FROM call_record INDEXED BY call_record_callee \
            WHERE callee_user = 'bob'";
        let id: i64 = connection.query_row(found, [], |row| row.get(0)).unwrap();
        assert_eq!(id, 1);
        let query = crate::CallRecordQuery::first(10);
        let rows = super::super::call_records::select(&connection, &query).unwrap();
        assert_eq!((rows.len(), &rows[0].media_failure), (1, &None));
    }

    #[test]
    fn accounts_before_aliases_keep_all_they_had() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&MIGRATIONS[..8].concat()).unwrap();
        connection.pragma_update(None, "user_version", 8).unwrap();
        let row = "INSERT INTO account VALUES ('alice', 'r', NULL, \
            'MD5=0123456789abcdef0123456789abcdef', 3, '100', '200 201')";
        connection.execute_batch(row).unwrap();
        migrate(&mut connection, Path::new("memory")).unwrap();
        let accounts = super::super::load::accounts(&connection).unwrap();
        let alice = &accounts[0];
        assert_eq!((alice.contacts_max, alice.hints.len()), (Some(3), 2));
        assert_eq!(alice.secret.hashes().len(), 1);
        assert_eq!((alice.aliases.len(), &alice.watchers), (0, &None));
        assert!(!alice.is_disabled);
        let empty = "UPDATE account SET watchers = ''";
        connection.execute_batch(empty).unwrap();
        let accounts = super::super::load::accounts(&connection).unwrap();
        assert_eq!(accounts[0].watchers, Some(Vec::new()), "nobody may watch");
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection, Path::new("memory")).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 99, .. }));
    }
}
