//! Records of calls in SQLite.

use super::sqlite_error;
use crate::{
    CallRecordLimits, CallRecordQuery, CallRecordRow, StoreError, call_records::BATCH_LEN,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::path::Path;

pub(super) fn put(connection: &Connection, row: &CallRecordRow) -> rusqlite::Result<()> {
    let [caller_user, callee_user, answered_user] = row.users();
    connection.prepare_cached(PUT)?.execute(params![
        integer(row.id),
        row.call_id,
        row.from,
        row.to,
        row.caller,
        row.answered_by,
        caller_user,
        callee_user,
        answered_user,
        integer(row.began_at_ns),
        row.rang_at_ns.map(integer),
        row.answered_at_ns.map(integer),
        integer(row.ended_at_ns),
        row.post_dial_delay_ns.map(integer),
        row.talk_time_ns.map(integer),
        row.outcome,
        row.status,
        row.end,
        row.ended_by,
        row.caller_flow,
        row.callee_flow,
        row.media_failure,
    ])?;
    Ok(())
}

/// Removes a batch of old ones; how many they were.
pub(super) fn remove_old(
    connection: &Connection,
    limits: CallRecordLimits,
) -> rusqlite::Result<usize> {
    let [ended_before, count_max] = limits.values();
    let last = last(connection)?.cast_signed();
    let id_max = last.saturating_sub(count_max);
    let mut statement = connection.prepare_cached(REMOVE_OLD)?;
    statement.execute([BATCH_LEN as i64, ended_before, id_max])
}

/// The highest id, or 0.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(LAST)?;
    let last: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or(0).cast_unsigned())
}

/// Reads on a connection of its own, so that it never stops the writer.
pub(super) fn read(path: &Path, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrap)?;
    select(&connection, query).map_err(wrap)
}

pub(super) fn select(
    connection: &Connection,
    query: &CallRecordQuery,
) -> rusqlite::Result<Vec<CallRecordRow>> {
    let [after, from, until] = query.bounds();
    let mut statement = connection.prepare(&text(query))?;
    let values = params![
        after,
        from,
        until,
        query.user,
        query.outcome,
        i64::try_from(query.limit).unwrap_or(i64::MAX),
    ];
    let rows = statement.query_map(values, row)?;
    rows.collect()
}

/// Asks by the index that fits: SQLite has no statistics to choose by.
fn text(query: &CallRecordQuery) -> String {
    if query.user.is_some() {
        let of = |condition| {
            format!("SELECT * FROM (SELECT id FROM call_record WHERE {condition} AND {WANTED})")
        };
        let ids = USERS.map(of).join(" UNION ");
        return format!("{COLUMNS} FROM call_record WHERE id IN ({ids}) {LAST_FIRST}");
    }
    // The pages after the first begin where the one before has ended.
    let by_time = query.after.is_none() && query.from.is_some() && query.until.is_some();
    let how = match by_time {
        true => "INDEXED BY call_record_began",
        false => "NOT INDEXED",
    };
    format!("{COLUMNS} FROM call_record {how} WHERE ?4 IS NULL AND {WANTED}")
}

fn row(row: &Row<'_>) -> rusqlite::Result<CallRecordRow> {
    let number = |column| row.get::<_, i64>(column).map(natural);
    let maybe = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(natural));
    Ok(CallRecordRow {
        id: number(0)?,
        call_id: row.get(1)?,
        from: row.get(2)?,
        to: row.get(3)?,
        caller: row.get(4)?,
        answered_by: row.get(5)?,
        began_at_ns: number(6)?,
        rang_at_ns: maybe(7)?,
        answered_at_ns: maybe(8)?,
        ended_at_ns: number(9)?,
        post_dial_delay_ns: maybe(10)?,
        talk_time_ns: maybe(11)?,
        outcome: row.get(12)?,
        status: row.get(13)?,
        end: row.get(14)?,
        ended_by: row.get(15)?,
        caller_flow: row.get(16)?,
        callee_flow: row.get(17)?,
        media_failure: row.get(18)?,
    })
}

/// SQLite's integers are signed.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn natural(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

const PUT: &str = "INSERT OR IGNORE INTO call_record \
    (id, call_id, from_uri, to_uri, caller, answered_by, caller_user, callee_user, \
    answered_user, began_at_ns, rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, \
    talk_time_ns, outcome, status, ending, ended_by, caller_flow, callee_flow, media_failure) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
    ?19, ?20, ?21, ?22)";
/// Looks at the first records only: they are the oldest.
const REMOVE_OLD: &str = "DELETE FROM call_record WHERE id IN \
    (SELECT id FROM (SELECT id, ended_at_ns FROM call_record ORDER BY id LIMIT ?1) \
    WHERE ended_at_ns < ?2 OR id <= ?3)";
const LAST: &str = "SELECT id FROM call_record ORDER BY id DESC LIMIT 1";
const COLUMNS: &str = "SELECT id, call_id, from_uri, to_uri, caller, answered_by, began_at_ns, \
    rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, talk_time_ns, outcome, status, \
    ending, ended_by, caller_flow, callee_flow, media_failure";
/// Which records of those that a condition leaves.
const WANTED: &str = "id < ?1 AND began_at_ns >= ?2 AND began_at_ns < ?3 \
    AND (?5 IS NULL OR outcome = ?5) ORDER BY id DESC LIMIT ?6";
const LAST_FIRST: &str = "ORDER BY id DESC LIMIT ?6";
/// A user's calls, by an index each.
const USERS: [&str; 3] = [
    "caller_user = ?4",
    "callee_user = ?4",
    "answered_user = ?4 AND answered_user <> callee_user",
];

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::clock::UnixTime;

    /// How SQLite goes through the table for a query.
    fn plan(query: &CallRecordQuery) -> String {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::migrate(&mut connection, Path::new("memory")).unwrap();
        let explain = format!("EXPLAIN QUERY PLAN {}", text(query));
        let mut statement = connection.prepare(&explain).unwrap();
        let [after, from, until] = query.bounds();
        let values = params![after, from, until, query.user, query.outcome, 10];
        let lines = statement.query_map(values, |row| row.get::<_, String>(3));
        lines
            .unwrap()
            .map(Result::unwrap)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn each_query_uses_the_index_that_fits() {
        let all = CallRecordQuery::first(10);
        let user = CallRecordQuery {
            user: Some("alice".into()),
            ..all.clone()
        };
        let plan_of_user = plan(&user);
        for index in [
            "call_record_caller",
            "call_record_callee",
            "call_record_answered",
        ] {
            assert!(plan_of_user.contains(index), "{plan_of_user}");
        }
        assert!(!plan_of_user.contains("SCAN call_record"), "{plan_of_user}");
        let time = CallRecordQuery {
            from: Some(UnixTime::from_secs(1)),
            until: Some(UnixTime::from_secs(2)),
            ..all.clone()
        };
        assert!(plan(&time).contains("call_record_began"));
        for by_id in [
            &all,
            &CallRecordQuery {
                after: Some(9),
                ..time
            },
        ] {
            let plan = plan(by_id);
            assert!(plan.contains("INTEGER PRIMARY KEY"), "{plan}");
        }
    }
}
