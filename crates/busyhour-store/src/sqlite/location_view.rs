//! The view `location`, by which other programs find registered contacts: it has the
//! columns that Kamailio's `usrloc` reads in its mode for databases alone (`db_mode` 3,
//! with `expires_type` 1).
//!
//! Kamailio finds the type of a column by its declaration, and an expression has none. So
//! the view ends in an empty table that has them: SQLite takes the types of a compound
//! select from its last part.

use rusqlite::Connection;

/// Makes the view, or removes it. Its index stays from start to start: it takes a while
/// to make.
pub(super) fn set(connection: &Connection, is_wanted: bool) -> rusqlite::Result<()> {
    let batch = match is_wanted {
        true => format!("BEGIN IMMEDIATE; {REMOVE} {MAKE} {INDEX} COMMIT;"),
        false if is_there(connection)? => format!("BEGIN IMMEDIATE; {REMOVE} {NO_INDEX} COMMIT;"),
        false => return Ok(()),
    };
    connection.execute_batch(&batch)
}

/// Removes the view before tables change on which it depends; the next start makes it again.
pub(super) fn remove(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(REMOVE)
}

fn is_there(connection: &Connection) -> rusqlite::Result<bool> {
    let found = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'location_column')";
    connection.query_row(found, [], |row| row.get(0))
}

const REMOVE: &str = "
    DROP VIEW IF EXISTS location;
    DROP TABLE IF EXISTS location_column;
";

const NO_INDEX: &str = "DROP INDEX IF EXISTS contact_username;";

const INDEX: &str = "
    CREATE INDEX IF NOT EXISTS contact_username
    ON contact (substr(aor, 5, instr(aor, '@') - 5));
";

const MAKE: &str = "
    CREATE TABLE location_column (
        ruid TEXT, username TEXT, domain TEXT, contact TEXT, received TEXT, path TEXT,
        expires BIGINT, q DOUBLE, callid TEXT, cseq INT, last_modified BIGINT, flags INT,
        cflags INT, user_agent TEXT, socket TEXT, methods INT, instance TEXT, reg_id INT,
        server_id INT, connection_id INT, keepalive INT, partition INT
    );
    CREATE VIEW location AS
    SELECT
        'busyhour-' || contact.id AS ruid,
        substr(aor, 5, instr(aor, '@') - 5) AS username,
        substr(aor, instr(aor, '@') + 1) AS domain,
        uri AS contact,
        CASE
            WHEN path <> '' THEN ''
            WHEN local LIKE 'tcp/%' THEN 'sip:' || remote || ';transport=tcp'
            WHEN local LIKE 'tls/%' THEN 'sip:' || remote || ';transport=tls'
            WHEN local LIKE 'ws%/%' THEN 'sip:' || remote || ';transport=ws'
            ELSE 'sip:' || remote
        END AS received,
        path,
        expires_at_ns / 1000000000 AS expires,
        coalesce(q_milli / 1000.0, -1.0) AS q,
        call_id AS callid,
        cseq,
        expires_at_ns / 1000000000 - granted_s AS last_modified,
        0 AS flags,
        0 AS cflags,
        user_agent,
        NULL AS socket,
        NULL AS methods,
        CASE instr(lower(parameters), '+sip.instance=\"')
            WHEN 0 THEN ''
            ELSE substr(
                substr(parameters, instr(lower(parameters), '+sip.instance=\"') + 15), 1,
                instr(
                    substr(parameters, instr(lower(parameters), '+sip.instance=\"') + 15), '\"'
                ) - 1)
        END AS instance,
        CASE instr(lower(parameters), ';reg-id=')
            WHEN 0 THEN 0
            ELSE CAST(substr(parameters, instr(lower(parameters), ';reg-id=') + 8) AS INT)
        END AS reg_id,
        0 AS server_id,
        NULL AS connection_id,
        0 AS keepalive,
        0 AS partition
    FROM contact JOIN lease ON lease.id = contact.id AND NOT lease.removed
    UNION ALL SELECT * FROM location_column;
    CREATE TRIGGER location_delete INSTEAD OF DELETE ON location BEGIN SELECT 1; END;
";
