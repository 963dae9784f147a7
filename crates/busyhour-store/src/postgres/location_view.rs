//! The view `location`, by which other programs find registered contacts: it has the
//! columns that Kamailio's `usrloc` reads in its mode for databases alone (`db_mode` 3,
//! with `expires_type` 1).

use postgres::{Client, Error, Transaction};

/// Makes the view, or removes it. One that is there stays, with what others may do with it.
pub(super) fn set(client: &mut Client, is_wanted: bool) -> Result<(), Error> {
    let is_there = client.query_one("SELECT to_regclass('location') IS NOT NULL", &[])?;
    match (is_wanted, is_there.try_get(0)?) {
        (true, _) => client.batch_execute(&format!("BEGIN; {MAKE} COMMIT;")),
        (false, true) => client.batch_execute(&format!("BEGIN; {REMOVE} {NO_INDEX} COMMIT;")),
        (false, false) => Ok(()),
    }
}

/// Removes the view before tables change on which it depends; the next start makes it again.
pub(super) fn remove(transaction: &mut Transaction<'_>) -> Result<(), Error> {
    transaction.batch_execute(REMOVE)
}

const REMOVE: &str = "DROP VIEW IF EXISTS location;";
const NO_INDEX: &str = "DROP INDEX IF EXISTS contact_username;";

const MAKE: &str = r#"
    CREATE INDEX IF NOT EXISTS contact_username
    ON contact (split_part(substr(aor, 5), '@', 1));
    CREATE OR REPLACE VIEW location AS
    SELECT
        'busyhour-' || contact.id AS ruid,
        split_part(substr(aor, 5), '@', 1) AS username,
        split_part(substr(aor, 5), '@', 2) AS domain,
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
        coalesce(q_milli / 1000.0, -1)::double precision AS q,
        call_id AS callid,
        cseq::integer AS cseq,
        expires_at_ns / 1000000000 - granted_s AS last_modified,
        0 AS flags,
        0 AS cflags,
        user_agent,
        NULL::text AS socket,
        NULL::integer AS methods,
        coalesce(substring(parameters FROM '(?i)\+sip\.instance="([^"]*)"'), '') AS instance,
        coalesce(substring(parameters FROM '(?i);reg-id=([0-9]{1,9})')::integer, 0) AS reg_id,
        0 AS server_id,
        NULL::integer AS connection_id,
        0 AS keepalive,
        0 AS partition
    FROM contact JOIN lease ON lease.id = contact.id AND NOT lease.removed;
    CREATE OR REPLACE RULE location_delete AS ON DELETE TO location DO INSTEAD NOTHING;
"#;
