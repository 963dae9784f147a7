//! Records of calls: part of what every durable store must do.

use crate::{suite::Database, support::wait_until};
use busyhour::clock::UnixTime;
use busyhour_store::{CallRecordLimits, CallRecordQuery, CallRecordRow, Change, Store};

/// The record of the call that began at the second `id` and ended ten seconds later.
fn record(id: u64) -> CallRecordRow {
    let second = 1_000_000_000;
    let is_answered = id % 2 == 1;
    CallRecordRow {
        id,
        call_id: format!("call\0\"{id}\"").into(),
        from: "sip:alice@example.com".into(),
        to: format!("sip:bob{}@example.com", id % 10).into(),
        caller: Some("sip:alice@example.com".into()),
        answered_by: is_answered.then(|| "sip:voicemail@example.com".into()),
        began_at_ns: id * second,
        rang_at_ns: Some(id * second + 1),
        answered_at_ns: is_answered.then_some(id * second + 2),
        ended_at_ns: (id + 10) * second,
        post_dial_delay_ns: Some(1),
        talk_time_ns: is_answered.then_some(10 * second - 2),
        outcome: ["busy", "answered"][usize::from(is_answered)].into(),
        status: [486, 200][usize::from(is_answered)],
        end: ["rejected", "local-bye"][usize::from(is_answered)].into(),
        ended_by: is_answered.then(|| "caller".into()),
        caller_flow: "udp/192.0.2.1:5060-192.0.2.7:5060".into(),
        callee_flow: None,
        media_failure: (!is_answered).then(|| "relay-failed".into()),
    }
}

fn put(ids: impl Iterator<Item = u64>) -> Vec<Change> {
    ids.map(|id| Change::PutCallRecord(Box::new(record(id))))
        .collect()
}

fn ids(store: &dyn Store, query: &CallRecordQuery) -> Vec<u64> {
    let rows = store.call_records(query).unwrap();
    rows.iter().map(|row| row.id).collect()
}

/// Hands changes over and lets the disk work until they are stored.
fn stored(database: &dyn Database, store: &dyn Store, changes: Vec<Change>) {
    store
        .commit(changes, Box::new(|fate| fate.unwrap()))
        .unwrap();
    database.settle(store);
}

pub fn records_of_calls_are_read_as_they_were_written(database: &dyn Database) {
    let store = database.open(65_536);
    assert_eq!(store.load().unwrap().last_call_record, 0);
    stored(database, &*store, put(1..21));
    // As after a COMMIT whose result nobody heard.
    stored(database, &*store, put(20..21));
    let store = database.reopen(store);
    assert_eq!(store.load().unwrap().last_call_record, 20);
    let all = store.call_records(&CallRecordQuery::first(100)).unwrap();
    assert_eq!(all.len(), 20);
    let mut expected = record(20);
    // PostgreSQL cannot store NUL.
    if all[0].call_id != expected.call_id {
        expected.call_id = expected.call_id.replace('\0', "\u{fffd}").into();
    }
    assert_eq!(all[0], expected);
}

pub fn records_of_calls_are_found_by_page_user_time_and_outcome(database: &dyn Database) {
    let store = database.open(65_536);
    stored(database, &*store, put(1..101));
    let first = CallRecordQuery::first(3);
    assert_eq!(ids(&*store, &first), [100, 99, 98]);
    let after = |after| CallRecordQuery {
        after: Some(after),
        ..first.clone()
    };
    assert_eq!(ids(&*store, &after(98)), [97, 96, 95]);
    assert_eq!(ids(&*store, &after(2)), [1]);
    assert_eq!(ids(&*store, &after(1)), [0; 0]);
    let by_user = |user: &str| CallRecordQuery {
        user: Some(user.into()),
        ..first.clone()
    };
    assert_eq!(ids(&*store, &by_user("alice")), [100, 99, 98]);
    assert_eq!(ids(&*store, &by_user("bob7")), [97, 87, 77]);
    assert_eq!(ids(&*store, &by_user("voicemail")), [99, 97, 95]);
    assert_eq!(ids(&*store, &by_user("' OR 1=1 --")), [0; 0]);
    let between = CallRecordQuery {
        from: Some(UnixTime::from_secs(50)),
        until: Some(UnixTime::from_secs(52)),
        ..first.clone()
    };
    assert_eq!(ids(&*store, &between), [51, 50]);
    let busy_bob = CallRecordQuery {
        outcome: Some("busy".into()),
        ..by_user("bob4")
    };
    assert_eq!(ids(&*store, &busy_bob), [94, 84, 74]);
    let answered_bob = CallRecordQuery {
        outcome: Some("answered".into()),
        ..by_user("bob4")
    };
    assert_eq!(ids(&*store, &answered_bob), [0; 0]);
}

pub fn old_records_of_calls_are_removed_by_count_and_age(database: &dyn Database) {
    let store = database.open(65_536);
    stored(database, &*store, put(1..1001));
    let all = CallRecordQuery::first(10_000);
    let limits = |ended_before, count_max| CallRecordLimits {
        ended_before: UnixTime::from_secs(ended_before),
        count_max,
    };
    // Several batches.
    remove_until(database, &*store, limits(0, 200), 200);
    assert!(ids(&*store, &all).into_iter().eq((801..1001).rev()));
    // Those that began at 850 ended at 860.
    remove_until(database, &*store, limits(860, 1_000_000), 151);
    assert!(ids(&*store, &all).into_iter().eq((850..1001).rev()));
    // It is counted after others see that it is gone.
    let removed = || store.stats().call_records_removed;
    wait_until(|| removed() == 849, || format!("{} are counted", removed()));
    remove_until(database, &*store, limits(0, 0), 0);
    // What comes next has a place.
    stored(database, &*store, put(2000..2001));
    assert_eq!(ids(&*store, &all), [2000]);
}

/// Asks for a removal and waits until so many are left.
fn remove_until(database: &dyn Database, store: &dyn Store, limits: CallRecordLimits, len: usize) {
    let query = CallRecordQuery::first(10_000);
    let count = || store.call_records(&query).unwrap().len();
    store.remove_old_call_records(limits);
    wait_until(
        || {
            database.step();
            count() == len
        },
        || format!("{} records, {:?}", count(), store.stats()),
    );
    database.settle(store);
}
