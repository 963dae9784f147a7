//! The tables, and the migrations of older databases.
//!
//! **Programs of two versions on one database.** The nodes of a cluster are upgraded one after the other, and back. The first
//! one that is upgraded migrates, and the others go on with what it made; one that goes back finds tables of a later version.
//! So from version 13 on
//!
//! - a migration only adds: a table, an index, a column. What a program of an earlier version reads keeps its name and meaning.
//!   A column has a default that is right for a row of a program that does not know it, and if such a program may change the row
//!   so that the value is wrong then, a trigger sets it, as `contact_moved` does;
//! - the row of versions has the lowest version that a program must know (`minimum`). A program that knows it uses the tables of
//!   a later version as they are, and leaves the row of versions alone. Others are refused. A migration that
//!   cannot only add raises `minimum`, and then there is no way back, and all nodes have to have the version before;
//! - statements name the columns that they read and write.

use super::{PostgresOptions, location_view};
use crate::{StoreError, migrations::not_seen};
use postgres::{Client, Transaction};

/// Migrations in their order, and where the database says which of them it has seen.
pub(super) struct Schema {
    /// The table with one row.
    pub(super) versions: &'static str,
    pub(super) migrations: &'static [&'static str],
    /// How many of them a program must know to use what all of them have made.
    pub(super) minimum: u32,
}

/// Of which versions a database is.
struct FoundVersions {
    version: u32,
    /// What a program must know; `None` if a program has made it that does not say so.
    minimum: Option<u32>,
}

/// Runs every migration that the database has not seen, in one transaction. One of a later program is used as it is, if that
/// allows it.
pub(super) fn migrate(client: &mut Client, options: &PostgresOptions) -> Result<(), StoreError> {
    migrate_with(client, options, &SCHEMA)
}

/// The same for another schema.
pub(super) fn migrate_with(
    client: &mut Client,
    options: &PostgresOptions,
    schema: &Schema,
) -> Result<(), StoreError> {
    let wrap = |error| options.failed(&error);
    let mut transaction = client.transaction().map_err(wrap)?;
    // Two programs that start at once must not both create tables.
    transaction.batch_execute(LOCK).map_err(wrap)?;
    let found = found(&mut transaction, schema.versions).map_err(wrap)?;
    let known = schema.migrations.len() as u32;
    let is_later = found.version > known;
    if is_later && found.minimum.is_some_and(|minimum| minimum <= known) {
        return transaction.commit().map_err(wrap);
    }
    let not_seen = not_seen(schema.migrations, found.version, &options.path())?;
    if !not_seen.is_empty() {
        location_view::remove(&mut transaction).map_err(wrap)?;
        for migration in not_seen {
            transaction.batch_execute(migration).map_err(wrap)?;
        }
        let set = format!("UPDATE {} SET version = $1, minimum = $2", schema.versions);
        let numbers = [known, schema.minimum].map(u32::cast_signed);
        let set = transaction.execute(&set, &[&numbers[0], &numbers[1]]);
        set.map_err(wrap)?;
    }
    transaction.commit().map_err(wrap)
}

/// Whether the database has tables of ours.
pub(super) fn is_made(client: &mut Client) -> Result<bool, postgres::Error> {
    let row = client.query_one("SELECT to_regclass('schema_version') IS NOT NULL", &[])?;
    row.try_get(0)
}

fn found(
    transaction: &mut Transaction<'_>,
    versions: &str,
) -> Result<FoundVersions, postgres::Error> {
    transaction.batch_execute(&format!(
        "CREATE TABLE IF NOT EXISTS {versions} (version INTEGER NOT NULL);
        INSERT INTO {versions} (version) SELECT 0 WHERE NOT EXISTS (SELECT FROM {versions});"
    ))?;
    // A column that is not there is NULL so.
    let numbers =
        format!("SELECT version, (to_jsonb({versions}) ->> 'minimum')::integer FROM {versions}");
    let row = transaction.query_one(&numbers, &[])?;
    Ok(FoundVersions {
        version: row.try_get::<_, i32>(0)?.cast_unsigned(),
        minimum: row.try_get::<_, Option<i32>>(1)?.map(i32::cast_unsigned),
    })
}

const LOCK: &str = "SELECT pg_advisory_xact_lock(1651864441, hashtext(current_schema()))";

const SCHEMA: Schema = Schema {
    versions: "schema_version",
    migrations: MIGRATIONS,
    minimum: 13,
};

/// Element `n` brings a database from version `n` to `n + 1`. Never edit one
/// that has been released; append, and only add.
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
    // A program that does not know `connection` leaves the number of the last one when a contact comes over another. It does not
    // name the column: the first trigger notes such a change by a negative number, the second one, which a program that names
    // the column sets off, takes that back, and the third one, which comes last, takes what is left.
    "
    ALTER TABLE schema_version ADD COLUMN minimum INTEGER NOT NULL DEFAULT 0;
    CREATE FUNCTION contact_moved() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.connection := CASE TG_ARGV[0] WHEN 'forget' THEN 0 ELSE -NEW.connection END;
            RETURN NEW;
        END $$;
    CREATE TRIGGER contact_moved_1 BEFORE UPDATE ON contact FOR EACH ROW
        WHEN (OLD.connection > 0 AND NEW.connection = OLD.connection
            AND (NEW.remote <> OLD.remote OR NEW.local <> OLD.local))
        EXECUTE FUNCTION contact_moved('note');
    CREATE TRIGGER contact_moved_2 BEFORE UPDATE OF connection ON contact FOR EACH ROW
        WHEN (NEW.connection < 0) EXECUTE FUNCTION contact_moved('keep');
    CREATE TRIGGER contact_moved_3 BEFORE UPDATE ON contact FOR EACH ROW
        WHEN (NEW.connection < 0) EXECUTE FUNCTION contact_moved('forget');
",
];
