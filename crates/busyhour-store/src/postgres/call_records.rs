//! Records of calls in PostgreSQL.

use super::{PostgresOptions, group::storable};
use crate::{
    CallRecordLimits, CallRecordQuery, CallRecordRow, StoreError, call_records::BATCH_LEN,
};
use postgres::{Error, GenericClient, Row, Statement, Transaction};
use std::borrow::Cow;

/// Writes all of a group in one statement.
pub(super) fn put(
    transaction: &mut Transaction<'_>,
    statement: &Statement,
    rows: &[&CallRecordRow],
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let numbers = |number: fn(&CallRecordRow) -> u64| -> Vec<i64> {
        rows.iter().map(|row| integer(number(row))).collect()
    };
    let maybe_numbers = |number: fn(&CallRecordRow) -> Option<u64>| -> Vec<Option<i64>> {
        rows.iter().map(|row| number(row).map(integer)).collect()
    };
    let texts = |text: fn(&CallRecordRow) -> &str| -> Vec<Cow<'_, str>> {
        rows.iter().map(|row| storable(text(row))).collect()
    };
    let maybe_texts = |text: fn(&CallRecordRow) -> Option<&str>| -> Vec<Option<Cow<'_, str>>> {
        rows.iter().map(|row| text(row).map(storable)).collect()
    };
    let statuses: Vec<i32> = rows.iter().map(|row| row.status.into()).collect();
    transaction.execute(
        statement,
        &[
            &numbers(|row| row.id),
            &texts(|row| &row.call_id),
            &texts(|row| &row.from),
            &texts(|row| &row.to),
            &maybe_texts(|row| row.caller.as_deref()),
            &maybe_texts(|row| row.answered_by.as_deref()),
            &texts(|row| row.users()[0]),
            &texts(|row| row.users()[1]),
            &texts(|row| row.users()[2]),
            &numbers(|row| row.began_at_ns),
            &maybe_numbers(|row| row.rang_at_ns),
            &maybe_numbers(|row| row.answered_at_ns),
            &numbers(|row| row.ended_at_ns),
            &maybe_numbers(|row| row.post_dial_delay_ns),
            &maybe_numbers(|row| row.talk_time_ns),
            &texts(|row| &row.outcome),
            &statuses,
            &texts(|row| &row.end),
            &maybe_texts(|row| row.ended_by.as_deref()),
            &texts(|row| &row.caller_flow),
            &maybe_texts(|row| row.callee_flow.as_deref()),
            &maybe_texts(|row| row.media_failure.as_deref()),
        ],
    )?;
    Ok(())
}

/// Removes a batch of old ones; how many they were.
pub(super) fn remove_old(
    transaction: &mut Transaction<'_>,
    limits: CallRecordLimits,
) -> Result<usize, Error> {
    let [ended_before, count_max] = limits.values();
    let id_max = last(transaction)?.cast_signed().saturating_sub(count_max);
    let values = [BATCH_LEN as i64, ended_before, id_max];
    let [len, ended_before, id_max] = &values;
    let removed = transaction.execute(REMOVE_OLD, &[len, ended_before, id_max])?;
    Ok(usize::try_from(removed).unwrap_or(usize::MAX))
}

/// The highest id, or 0.
pub(super) fn last(client: &mut impl GenericClient) -> Result<u64, Error> {
    let row = client.query_one(LAST, &[])?;
    row.try_get::<_, i64>(0).map(i64::cast_unsigned)
}

/// Reads on a connection of its own, so that it never stops the writer.
pub(super) fn read(
    options: &PostgresOptions,
    query: &CallRecordQuery,
) -> Result<Vec<CallRecordRow>, StoreError> {
    let mut client = options.connect()?;
    let [after, from, until] = query.bounds();
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let user = query.user.as_deref().map(storable);
    let outcome = query.outcome.as_deref().map(storable);
    let text = if user.is_some() { READ_OF_USER } else { READ };
    let rows = client.query(text, &[&after, &from, &until, &user, &outcome, &limit]);
    let rows = rows.and_then(|rows| rows.iter().map(row).collect());
    rows.map_err(|error| options.failed(&error))
}

fn row(row: &Row) -> Result<CallRecordRow, Error> {
    let number = |column: usize| row.try_get::<_, i64>(column).map(natural);
    let maybe = |column: usize| {
        let value: Option<i64> = row.try_get(column)?;
        Ok::<_, Error>(value.map(natural))
    };
    let text = |column: usize| row.try_get::<_, &str>(column).map(Box::from);
    let maybe_text = |column: usize| {
        let value: Option<&str> = row.try_get(column)?;
        Ok::<_, Error>(value.map(Box::from))
    };
    let status: i32 = row.try_get(13)?;
    Ok(CallRecordRow {
        id: number(0)?,
        call_id: text(1)?,
        from: text(2)?,
        to: text(3)?,
        caller: maybe_text(4)?,
        answered_by: maybe_text(5)?,
        began_at_ns: number(6)?,
        rang_at_ns: maybe(7)?,
        answered_at_ns: maybe(8)?,
        ended_at_ns: number(9)?,
        post_dial_delay_ns: maybe(10)?,
        talk_time_ns: maybe(11)?,
        outcome: text(12)?,
        status: u16::try_from(status).unwrap_or(0),
        end: text(14)?,
        ended_by: maybe_text(15)?,
        caller_flow: text(16)?,
        callee_flow: maybe_text(17)?,
        media_failure: maybe_text(18)?,
    })
}

/// PostgreSQL's integers are signed.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn natural(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) const PUT: &str = "INSERT INTO call_record \
    (id, call_id, from_uri, to_uri, caller, answered_by, caller_user, callee_user, \
    answered_user, began_at_ns, rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, \
    talk_time_ns, outcome, status, ending, ended_by, caller_flow, callee_flow, media_failure) \
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], \
    $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], \
    $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[], $17::integer[], \
    $18::text[], $19::text[], $20::text[], $21::text[], $22::text[]) ON CONFLICT (id) DO NOTHING";
/// Looks at the first records only: they are the oldest.
const REMOVE_OLD: &str = "DELETE FROM call_record WHERE id IN \
    (SELECT id FROM (SELECT id, ended_at_ns FROM call_record ORDER BY id LIMIT $1) AS first \
    WHERE ended_at_ns < $2 OR id <= $3)";
const LAST: &str = "SELECT coalesce(max(id), 0) FROM call_record";
const READ: &str = "SELECT id, call_id, from_uri, to_uri, caller, answered_by, began_at_ns, \
    rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, talk_time_ns, outcome, status, \
    ending, ended_by, caller_flow, callee_flow, media_failure FROM call_record \
    WHERE $4::text IS NULL AND id < $1 AND began_at_ns >= $2 AND began_at_ns < $3 \
    AND ($5::text IS NULL OR outcome = $5) ORDER BY id DESC LIMIT $6";
/// By the three indexes, each in its order.
const READ_OF_USER: &str = "WITH wanted AS (\
    (SELECT id, call_id, from_uri, to_uri, caller, answered_by, began_at_ns, \
    rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, talk_time_ns, outcome, status, \
    ending, ended_by, caller_flow, callee_flow, media_failure FROM call_record WHERE caller_user = $4 \
    AND id < $1 AND began_at_ns >= $2 AND began_at_ns < $3 \
    AND ($5::text IS NULL OR outcome = $5) ORDER BY id DESC LIMIT $6) \
    UNION (SELECT id, call_id, from_uri, to_uri, caller, answered_by, began_at_ns, \
    rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, talk_time_ns, outcome, status, \
    ending, ended_by, caller_flow, callee_flow, media_failure FROM call_record WHERE callee_user = $4 \
    AND id < $1 AND began_at_ns >= $2 AND began_at_ns < $3 \
    AND ($5::text IS NULL OR outcome = $5) ORDER BY id DESC LIMIT $6) \
    UNION (SELECT id, call_id, from_uri, to_uri, caller, answered_by, began_at_ns, \
    rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, talk_time_ns, outcome, status, \
    ending, ended_by, caller_flow, callee_flow, media_failure FROM call_record WHERE answered_user = $4 AND answered_user <> callee_user \
    AND id < $1 AND began_at_ns >= $2 AND began_at_ns < $3 \
    AND ($5::text IS NULL OR outcome = $5) ORDER BY id DESC LIMIT $6)) \
    SELECT id, call_id, from_uri, to_uri, caller, answered_by, began_at_ns, \
    rang_at_ns, answered_at_ns, ended_at_ns, post_dial_delay_ns, talk_time_ns, outcome, status, \
    ending, ended_by, caller_flow, callee_flow, media_failure FROM wanted ORDER BY id DESC LIMIT $6";
