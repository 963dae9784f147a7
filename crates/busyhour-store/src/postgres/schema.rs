//! The tables, and the migrations of older databases.

use super::{PostgresOptions, location_view};
use crate::{StoreError, migrations::not_seen};
use postgres::{Client, Transaction};

/// Runs every migration that the database has not seen, in one transaction.
pub(super) fn migrate(client: &mut Client, options: &PostgresOptions) -> Result<(), StoreError> {
    migrate_with(client, options, "schema_version", MIGRATIONS)
}

/// The same for a list of its own, of which the database has seen as many as the row in the
/// table `versions` says.
pub(super) fn migrate_with(
    client: &mut Client,
    options: &PostgresOptions,
    versions: &str,
    all: &'static [&'static str],
) -> Result<(), StoreError> {
    let wrap = |error| options.failed(&error);
    let mut transaction = client.transaction().map_err(wrap)?;
    // Two programs that start at once must not both create tables.
    transaction.batch_execute(LOCK).map_err(wrap)?;
    let found = version(&mut transaction, versions).map_err(wrap)?;
    let not_seen = not_seen(all, found, &options.path())?;
    if !not_seen.is_empty() {
        location_view::remove(&mut transaction).map_err(wrap)?;
    }
    for migration in not_seen {
        transaction.batch_execute(migration).map_err(wrap)?;
    }
    let set = format!("UPDATE {versions} SET version = $1");
    let known = all.len() as i32;
    transaction.execute(&set, &[&known]).map_err(wrap)?;
    transaction.commit().map_err(wrap)
}

/// Whether the database has tables of ours.
pub(super) fn is_made(client: &mut Client) -> Result<bool, postgres::Error> {
    let row = client.query_one("SELECT to_regclass('schema_version') IS NOT NULL", &[])?;
    row.try_get(0)
}

fn version(transaction: &mut Transaction<'_>, versions: &str) -> Result<u32, postgres::Error> {
    transaction.batch_execute(&format!(
        "CREATE TABLE IF NOT EXISTS {versions} (version INTEGER NOT NULL);
        INSERT INTO {versions} SELECT 0 WHERE NOT EXISTS (SELECT FROM {versions});"
    ))?;
    let row = transaction.query_one(&format!("SELECT version FROM {versions}"), &[])?;
    Ok(row.try_get::<_, i32>(0)?.cast_unsigned())
}

const LOCK: &str = "SELECT pg_advisory_xact_lock(1651864441, hashtext(current_schema()))";

/// Element `n` brings a database from version `n` to `n + 1`. Never edit one
/// that has been released; append.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE contact (
        id BIGINT PRIMARY KEY,
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
        id BIGINT PRIMARY KEY,
        cseq BIGINT NOT NULL,
        granted_s BIGINT NOT NULL,
        expires_at_ns BIGINT NOT NULL,
        removed BOOLEAN NOT NULL
    ) WITH (fillfactor = 70);
    CREATE TABLE account (
        username TEXT NOT NULL,
        realm TEXT NOT NULL,
        password TEXT,
        hashes TEXT NOT NULL,
        contacts_max INTEGER,
        mailbox TEXT,
        hints TEXT NOT NULL,
        PRIMARY KEY (username, realm)
    );
    CREATE TABLE secret (name TEXT PRIMARY KEY, value BYTEA NOT NULL);
    CREATE TABLE revision (name TEXT PRIMARY KEY, count BIGINT NOT NULL);
    INSERT INTO revision VALUES ('account', 1);
    CREATE FUNCTION account_changed() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE revision SET count = count + 1 WHERE name = 'account';
            RETURN NULL;
        END $$;
    CREATE TRIGGER account_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON account
        FOR EACH STATEMENT EXECUTE FUNCTION account_changed();
",
    "
    DROP TABLE secret;
    CREATE TABLE setting (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (kind, name)
    );
",
    "
    INSERT INTO revision VALUES ('group', 0);
    CREATE TABLE account_change (
        revision BIGINT NOT NULL,
        username TEXT NOT NULL,
        realm TEXT NOT NULL
    );
    CREATE INDEX account_change_revision ON account_change (revision);
    DROP TRIGGER account_changed ON account;
    CREATE OR REPLACE FUNCTION account_changed() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            changes BIGINT;
            counted BIGINT;
        BEGIN
            -- More than are kept: their names are not, and who looks reads all.
            changes := 1001;
            IF TG_OP <> 'TRUNCATE' THEN
                SELECT count(*) INTO changes FROM touched;
            END IF;
            IF changes = 0 THEN
                RETURN NULL;
            END IF;
            UPDATE revision SET count = count + changes WHERE name = 'account'
                RETURNING count INTO counted;
            -- Only what this change pushes out: earlier ones have pushed out the rest,
            -- and looking past what they deleted takes longer each time.
            DELETE FROM account_change WHERE revision <= counted - 1000
                AND revision > counted - 1000 - changes;
            IF changes <= 1000 THEN
                INSERT INTO account_change SELECT counted, username, realm FROM touched;
                IF TG_OP = 'UPDATE' THEN
                    INSERT INTO account_change
                        SELECT counted, username, realm FROM before_it
                        EXCEPT SELECT counted, username, realm FROM touched;
                END IF;
            END IF;
            RETURN NULL;
        END $$;
    CREATE TRIGGER account_inserted AFTER INSERT ON account
        REFERENCING NEW TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION account_changed();
    CREATE TRIGGER account_updated AFTER UPDATE ON account
        REFERENCING OLD TABLE AS before_it NEW TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION account_changed();
    CREATE TRIGGER account_deleted AFTER DELETE ON account
        REFERENCING OLD TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION account_changed();
    CREATE TRIGGER account_truncated AFTER TRUNCATE ON account
        FOR EACH STATEMENT EXECUTE FUNCTION account_changed();
",
    "
    CREATE TABLE soft_state (
        id BIGINT PRIMARY KEY,
        kind TEXT NOT NULL,
        value TEXT NOT NULL,
        granted_s BIGINT NOT NULL,
        expires_at_ns BIGINT NOT NULL
    );
",
    // The order of names here and in the server must be the same one, and the order
    // of the primary key is that of the database's language.
    "
    CREATE INDEX account_name ON account (username COLLATE \"C\", realm COLLATE \"C\");
",
    "
    CREATE TABLE call_record (
        id BIGINT PRIMARY KEY,
        call_id TEXT NOT NULL,
        from_uri TEXT NOT NULL,
        to_uri TEXT NOT NULL,
        caller TEXT,
        answered_by TEXT,
        caller_user TEXT NOT NULL,
        callee_user TEXT NOT NULL,
        answered_user TEXT NOT NULL,
        began_at_ns BIGINT NOT NULL,
        rang_at_ns BIGINT,
        answered_at_ns BIGINT,
        ended_at_ns BIGINT NOT NULL,
        post_dial_delay_ns BIGINT,
        talk_time_ns BIGINT,
        outcome TEXT NOT NULL,
        status INTEGER NOT NULL,
        ending TEXT NOT NULL,
        ended_by TEXT,
        caller_flow TEXT NOT NULL,
        callee_flow TEXT
    );
",
    // Who answers is seldom another one than who was called.
    "
    CREATE INDEX call_record_began ON call_record (began_at_ns);
    CREATE INDEX call_record_caller ON call_record (caller_user, id);
    CREATE INDEX call_record_callee ON call_record (callee_user, id);
    CREATE INDEX call_record_answered ON call_record (answered_user, id)
        WHERE answered_user <> callee_user;
",
    "
    ALTER TABLE account ADD COLUMN aliases TEXT NOT NULL DEFAULT '';
    ALTER TABLE account ADD COLUMN watchers TEXT;
",
    "
    ALTER TABLE account ADD COLUMN disabled BOOLEAN NOT NULL DEFAULT false;
",
    // Kinds that only one server reads, when it starts, are not counted.
    "
    INSERT INTO revision VALUES ('setting', 1);
    CREATE TABLE setting_change (
        revision BIGINT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL
    );
    CREATE INDEX setting_change_revision ON setting_change (revision);
    CREATE FUNCTION setting_changed() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            counted_kinds CONSTANT TEXT[] := ARRAY['mailbox', 'hint', 'list', 'token', 'domain'];
            changes BIGINT;
            counted BIGINT;
        BEGIN
            -- More than are kept: their names are not, and who looks reads all.
            changes := 10001;
            IF TG_OP <> 'TRUNCATE' THEN
                SELECT count(*) INTO changes FROM touched WHERE kind = ANY(counted_kinds);
            END IF;
            IF changes = 0 THEN
                RETURN NULL;
            END IF;
            UPDATE revision SET count = count + changes WHERE name = 'setting'
                RETURNING count INTO counted;
            DELETE FROM setting_change WHERE revision <= counted - 10000
                AND revision > counted - 10000 - changes;
            IF changes <= 10000 THEN
                INSERT INTO setting_change SELECT counted, kind, name FROM touched
                    WHERE kind = ANY(counted_kinds);
                IF TG_OP = 'UPDATE' THEN
                    INSERT INTO setting_change
                        SELECT counted, kind, name FROM before_it WHERE kind = ANY(counted_kinds)
                        EXCEPT SELECT counted, kind, name FROM touched;
                END IF;
            END IF;
            RETURN NULL;
        END $$;
    CREATE TRIGGER setting_inserted AFTER INSERT ON setting
        REFERENCING NEW TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION setting_changed();
    CREATE TRIGGER setting_updated AFTER UPDATE ON setting
        REFERENCING OLD TABLE AS before_it NEW TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION setting_changed();
    CREATE TRIGGER setting_deleted AFTER DELETE ON setting
        REFERENCING OLD TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION setting_changed();
    CREATE TRIGGER setting_truncated AFTER TRUNCATE ON setting
        FOR EACH STATEMENT EXECUTE FUNCTION setting_changed();
",
    "
    ALTER TABLE call_record ADD COLUMN media_failure TEXT;
",
    // Of a node of a cluster that may live when another one reads the row.
    "
    ALTER TABLE contact ADD COLUMN connection BIGINT NOT NULL DEFAULT 0;
",
];
