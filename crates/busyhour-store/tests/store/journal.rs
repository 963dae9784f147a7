//! The journal in front of a SQLite database: what is only in it is never lost, and damage is told.
//!
//! A connection of another program that holds the database keeps it from following, so the files are as after a
//! server that was killed; they are copied elsewhere.

use crate::{
    any_bytes, journal_model,
    sample::{account, commit, ended, put, put_until, remove, renew},
};
use busyhour_store::{
    BackupFor, CallRecordQuery, CallRecordRow, Change, SettingKind, SettingRows, SqliteOptions,
    SqliteStore, Store, StoreError, back_up, restore,
};
use rusqlite::Connection;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn database(&self) -> PathBuf {
        self.path("busyhour.db")
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.database())
    }

    fn open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.options())
    }

    /// What a crash would leave now.
    fn crashed(&self) -> Self {
        let copy = Self::new();
        for ending in ["", "-wal", ".journal"] {
            let name = format!("busyhour.db{ending}");
            fs::copy(self.path(&name), copy.path(&name)).unwrap();
        }
        copy
    }

    /// From now on the database cannot be written by others.
    fn hold(&self) -> Connection {
        let connection = Connection::open(self.database()).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
    }

    fn flip(&self, at: usize) {
        let mut bytes = fs::read(self.path("busyhour.db.journal")).unwrap();
        bytes[at] ^= 1;
        fs::write(self.path("busyhour.db.journal"), bytes).unwrap();
    }
}

fn ids(store: &dyn Store) -> Vec<(u64, u32)> {
    let bindings = store.load().unwrap().bindings;
    let ids = bindings.iter().map(|one| (one.id.0, one.lease.cseq));
    ids.collect()
}

fn record(id: u64) -> Change {
    let call_id = format!("call {id}").into();
    Change::PutCallRecord(Box::new(CallRecordRow {
        id,
        call_id,
        caller: Some("sip:alice@example.com".into()),
        talk_time_ns: Some(7),
        ..CallRecordRow::default()
    }))
}

/// Of a server whose database has rows of before, and then could not follow.
fn with_changes_in_the_journal_only() -> Folder {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    commit(&store, vec![put(1, 1), put(2, 1), put(3, 1)]).unwrap();
    assert_eq!(ids(&store).len(), 3, "the database has these");
    let holder = folder.hold();
    commit(&store, vec![put(4, 1), renew(1, 4)]).unwrap();
    commit(&store, vec![remove(2), record(1)]).unwrap();
    commit(&store, vec![renew(4, 5)]).unwrap();
    let crashed = folder.crashed();
    drop(holder);
    assert_eq!(ids(&store), LAST);
    crashed
}

const LAST: [(u64, u32); 3] = [(1, 4), (3, 1), (4, 5)];

#[test]
fn what_is_only_in_the_journal_is_there_at_the_next_start() {
    let crashed = with_changes_in_the_journal_only();
    for _ in 0..2 {
        let store = crashed.open().unwrap();
        assert_eq!(ids(&store), LAST);
        let records = store.call_records(&CallRecordQuery::first(10)).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(
            Change::PutCallRecord(Box::new(records[0].clone())),
            record(1)
        );
    }
}

#[test]
fn a_backup_has_what_is_only_in_the_journal_also_after_a_crash() {
    let crashed = with_changes_in_the_journal_only();
    let copy = crashed.path("copy.db");
    let backup = back_up(&crashed.database(), &copy, BackupFor::This).unwrap();
    assert_eq!(backup.bindings, 3);
    let elsewhere = Folder::new();
    fs::copy(&copy, elsewhere.database()).unwrap();
    assert_eq!(ids(&elsewhere.open().unwrap()), LAST);
    let older = crashed.path("older.db");
    let backup = back_up(&crashed.database(), &older, BackupFor::Previous).unwrap();
    assert_eq!((backup.bindings, backup.left_out.len()), (3, 0));
    // It is put in the place of the other, which is kept with all that it had.
    restore(&copy, &crashed.database(), true).unwrap();
    assert_eq!(ids(&crashed.open().unwrap()), LAST);
    let kept = SqliteOptions::new(crashed.path("busyhour.db.replaced"));
    assert_eq!(ids(&SqliteStore::open(kept).unwrap()), LAST);
}

#[test]
fn a_backup_beside_a_server_has_what_the_database_has_not() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    let holder = folder.hold();
    commit(&store, vec![put(1, 1), put(2, 1)]).unwrap();
    let copy = folder.path("copy.db");
    let backup = back_up(&folder.database(), &copy, BackupFor::This).unwrap();
    assert_eq!(backup.bindings, 2);
    drop(holder);
}

#[test]
fn a_damaged_journal_is_told_and_one_can_start_without_it() {
    let crashed = with_changes_in_the_journal_only();
    // In the first of the records that the database lacks; records of before are behind the header.
    let bytes = fs::read(crashed.path("busyhour.db.journal")).unwrap();
    let mark = &bytes[512..516];
    let records = (512..4096)
        .step_by(16)
        .filter(|at| &bytes[*at..*at + 4] == mark);
    let records: Vec<usize> = records.collect();
    assert_eq!(records.len(), 4);
    crashed.flip(records[1] + 30);
    for _ in 0..2 {
        let error = crashed.open().err().unwrap().to_string();
        let byte = format!("record 2 at byte {} is damaged, but record 3", records[1]);
        for words in ["busyhour.db.journal", &byte, "move this one away"] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }
    let copy = crashed.path("copy.db");
    let error = back_up(&crashed.database(), &copy, BackupFor::This).unwrap_err();
    assert!(matches!(error, StoreError::Journal { .. }), "{error}");
    assert!(!copy.exists());
    fs::rename(crashed.path("busyhour.db.journal"), crashed.path("away")).unwrap();
    let store = crashed.open().unwrap();
    assert_eq!(ids(&store), [(1, 1), (2, 1), (3, 1)], "as the database was");
    drop(store);
    fs::rename(crashed.path("away"), crashed.path("busyhour.db.journal")).unwrap();
    let error = crashed.open().err().unwrap().to_string();
    assert!(error.contains("belongs to another state"), "{error}");
}

#[test]
fn an_old_copy_beside_the_journal_of_a_later_state_is_refused() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    commit(&store, vec![put(1, 1)]).unwrap();
    let copy = folder.path("copy.db");
    back_up(&folder.database(), &copy, BackupFor::This).unwrap();
    let crashed = folder.crashed();
    fs::copy(&copy, crashed.database()).unwrap();
    fs::remove_file(crashed.path("busyhour.db-wal")).unwrap();
    let error = crashed.open().err().unwrap().to_string();
    assert!(error.contains("belongs to another state"), "{error}");
    // After an orderly end nothing of the journal is needed.
    drop(store);
    fs::copy(&copy, folder.database()).unwrap();
    assert_eq!(ids(&folder.open().unwrap()), [(1, 1)]);
}

/// The writer reads settings with a connection of its own. If that were closed last, SQLite would leave its log.
#[test]
fn after_an_orderly_end_the_database_is_one_file() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    let (told, heard) = mpsc::channel();
    let listener = move |_: &SettingRows| told.send(()).unwrap();
    store.watch_settings(SettingKind::Token, Box::new(listener));
    heard.recv().unwrap();
    commit(&store, vec![put(1, 1)]).unwrap();
    drop(store);
    assert!(!folder.path("busyhour.db-wal").exists());
    fs::remove_file(folder.path("busyhour.db.journal")).unwrap();
    assert_eq!(ids(&folder.open().unwrap()), [(1, 1)]);
}

#[test]
fn after_an_orderly_end_the_database_needs_no_journal() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    commit(&store, vec![put(1, 1)]).unwrap();
    drop(store);
    fs::remove_file(folder.path("busyhour.db.journal")).unwrap();
    assert_eq!(ids(&folder.open().unwrap()), [(1, 1)]);
}

#[test]
fn a_tool_beside_it_sees_what_came_before_an_account_or_a_setting() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    commit(&store, vec![put(1, 1)]).unwrap();
    commit(&store, vec![put(2, 1), Change::from(account("alice"))]).unwrap();
    let seen = |table: &str| -> i64 {
        let connection = Connection::open(folder.database()).unwrap();
        let query = format!("SELECT count(*) FROM {table}");
        connection.query_row(&query, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((seen("contact"), seen("account")), (2, 1));
    commit(&store, vec![put(3, 1)]).unwrap();
    let setting = Change::PutSetting {
        kind: SettingKind::Hint,
        name: "100".into(),
        value: "alice".into(),
    };
    commit(&store, vec![setting]).unwrap();
    assert_eq!((seen("contact"), seen("setting")), (3, 1));
}

#[test]
fn a_full_journal_waits_for_the_database_and_refuses_while_that_cannot_be_written() {
    let folder = Folder::new();
    let store = SqliteStore::open(SqliteOptions {
        journal_bytes: 32 << 10,
        ..folder.options()
    });
    let store = store.unwrap();
    let holder = folder.hold();
    let mut id = 0;
    let error = loop {
        id += 1;
        if let Err(error) = commit(&store, vec![put(id, 1)]) {
            break error.to_string();
        }
        assert!(id < 1_000, "it has no room for so many");
    };
    assert!(error.contains("locked"), "{error}");
    assert!(id > 20, "{id}");
    let stats = store.stats();
    assert!(
        stats.journal_waits > 0 && stats.behind_failed > 0,
        "{stats:?}"
    );
    assert!(stats.journal_used > stats.journal_bytes / 2, "{stats:?}");
    assert!(
        stats.behind_ns > 0 && !stats.behind_error.is_empty(),
        "{stats:?}"
    );
    drop(holder);
    // Far more than it has room for.
    for more in 0..2_000 {
        commit(&store, vec![put(id + more, 2)]).unwrap();
    }
    assert_eq!(ids(&store).len() as u64, id - 1 + 2_000);
    let stats = store.stats();
    assert_eq!((stats.journal_used, stats.behind_ns), (0, 0), "{stats:?}");
    assert_eq!(stats.behind_error, "");
}

#[test]
fn a_group_that_has_no_room_in_the_journal_goes_into_the_database_in_its_turn() {
    let folder = Folder::new();
    let store = SqliteStore::open(SqliteOptions {
        journal_bytes: 16 << 10,
        ..folder.options()
    });
    let store = store.unwrap();
    commit(&store, vec![put(1, 1)]).unwrap();
    commit(&store, (1..=500).map(|id| put(id, 2)).collect()).unwrap();
    commit(&store, vec![renew(1, 3)]).unwrap();
    drop(store);
    let ids = ids(&folder.open().unwrap());
    assert_eq!((ids.len(), ids[0]), (500, (1, 3)));
}

/// Its row is written by then, or not yet.
#[test]
fn what_ends_while_it_is_only_in_the_journal_is_removed() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    for round in 0..3 {
        let until = 10 + round;
        commit(&store, vec![put_until(1, until)]).unwrap();
        if round == 1 {
            store.load().unwrap();
        }
        store.purge(&[ended(1, until)]);
        crate::support::wait_until(|| store.stats().ended_len == 0, || format!("{round}"));
        assert!(store.load().unwrap().bindings.is_empty());
    }
}

#[test]
fn a_journal_that_is_moved_away_stops_acknowledgements_until_it_is_back() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    let (journal, away) = (folder.path("busyhour.db.journal"), folder.path("away"));
    fs::rename(&journal, &away).unwrap();
    let error = commit(&store, vec![put(1, 1)]).unwrap_err().to_string();
    assert!(error.contains("busyhour.db.journal was deleted"), "{error}");
    fs::rename(&away, &journal).unwrap();
    commit(&store, vec![put(2, 1)]).unwrap();
}

/// Files are copied while the server writes; what was acknowledged before is in the copy.
#[test]
fn backups_beside_a_server_miss_nothing_acknowledged() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    let (told, acknowledged) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 1..=3_000 {
                commit(&store, vec![put(id, 1)]).unwrap();
                told.send(id).unwrap();
            }
        });
        for number in 0..20 {
            let last = acknowledged.try_iter().last();
            let copy = folder.path(&format!("copy-{number}.db"));
            let backup = back_up(&folder.database(), &copy, BackupFor::This).unwrap();
            assert!(
                backup.bindings >= last.unwrap_or(0),
                "{backup:?} after {last:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn the_shared_property_holds_for_any_bytes() {
    any_bytes::hold_for("journal", 20_000, journal_model::hold);
}

/// The seed of the fuzzer is a journal as the store writes it.
#[test]
fn the_seed_is_a_journal() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/journal");
    let bytes = fs::read(seeds.join("three-records")).unwrap();
    let epoch = u64::from_le_bytes(*bytes[24..32].first_chunk().unwrap());
    let position = busyhour_store::JournalPosition {
        epoch,
        number: 0,
        end: 512,
    };
    let found = busyhour_store::recover_journal(&bytes, Some(position)).unwrap();
    assert_eq!(found.records.len(), 3);
}
