//! Copies of a SQLite database, and databases of older versions: `fixtures/sqlite-N.sql` is one of
//! each schema version that was released, as text. A release that changes the schema brings its own.

use crate::sample::{account, commit, put, remove};
use busyhour_store::{
    BackupFor, CallRecordQuery, SqliteOptions, SqliteStore, Store, StoreError, WhenMissing,
    back_up, open_accounts, restore,
};
use rusqlite::Connection;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use tempfile::TempDir;

/// Schema versions that were released.
const RELEASED: u32 = 8;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::open(SqliteOptions::new(self.path("busyhour.db"))).unwrap()
    }

    /// A database as the program of that version left it.
    fn of_version(&self, version: u32) -> PathBuf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/fixtures");
        let dump = fs::read_to_string(fixtures.join(format!("sqlite-{version}.sql"))).unwrap();
        let path = self.path("busyhour.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch(&dump)
            .unwrap();
        path
    }

    fn version_of(&self, name: &str) -> u32 {
        let connection = Connection::open(self.path(name)).unwrap();
        let query = connection.query_row("PRAGMA user_version", [], |row| row.get(0));
        query.unwrap()
    }
}

fn has_what_the_fixtures_have(store: &dyn Store, version: u32) {
    let contents = store.load().unwrap();
    assert_eq!(contents.accounts.len(), 1, "version {version}");
    assert_eq!(contents.accounts[0].username, "alice");
    assert!(contents.accounts[0].view().algorithms.len() == 2);
    assert_eq!(contents.bindings.len(), 1);
    assert_eq!(&*contents.bindings[0].aor, "sip:alice@example.com");
    assert_eq!(contents.bindings[0].lease.cseq, 4);
    let records = store.call_records(&CallRecordQuery::first(10)).unwrap();
    assert_eq!(
        records.len(),
        usize::from(version >= 7),
        "version {version}"
    );
}

#[test]
fn databases_of_every_released_version_are_brought_up_to_date() {
    for version in 1..=RELEASED {
        let place = Place::new();
        place.of_version(version);
        assert_eq!(place.version_of("busyhour.db"), version);
        let store = place.store();
        has_what_the_fixtures_have(&store, version);
        commit(&store, vec![put(2, 1)]).unwrap();
        assert_eq!(store.load().unwrap().bindings.len(), 2);
    }
}

#[test]
fn backups_of_every_released_version_can_be_restored() {
    for version in 1..=RELEASED {
        let place = Place::new();
        let old = place.of_version(version);
        let backup = place.path("old.db");
        fs::rename(&old, &backup).unwrap();
        let restored = restore(&backup, &old, false).unwrap();
        assert_eq!(
            (restored.schema, restored.accounts, restored.bindings),
            (version, restored.accounts, 1)
        );
        has_what_the_fixtures_have(&place.store(), version);
        assert_eq!(
            place.version_of("old.db"),
            version,
            "the backup stays as it is"
        );
    }
}

/// What one program acknowledged is there when the one before it runs again.
#[test]
fn one_can_go_back_by_one_version() {
    let place = Place::new();
    let store = place.store();
    commit(&store, vec![put(1, 1), put(2, 1)]).unwrap();
    let mut admin = open_accounts(&place.path("busyhour.db"), WhenMissing::Refuse).unwrap();
    admin.put(&[account("alice"), account("bob")]).unwrap();
    let now = place.version_of("busyhour.db");
    let older = back_up(
        &place.path("busyhour.db"),
        &place.path("older.db"),
        BackupFor::Previous,
    );
    let older = older.unwrap();
    assert_eq!(
        (older.schema, older.accounts, older.bindings),
        (now - 1, 2, 2)
    );
    assert!(older.left_out.is_empty(), "{:?}", older.left_out);
    // It has exactly the tables that the version before made; going forth again loses nothing.
    let connection = Connection::open(place.path("older.db")).unwrap();
    let made = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)";
    let made: String = connection.query_row(made, [], |row| row.get(0)).unwrap();
    assert!(made.contains("CREATE TRIGGER account_deleted"), "{made}");
    drop((connection, admin, store));
    restore(&place.path("older.db"), &place.path("busyhour.db"), true).unwrap();
    let contents = place.store().load().unwrap();
    assert_eq!((contents.accounts.len(), contents.bindings.len()), (2, 2));
}

/// Batches go in whole or not at all, also into a copy that is made meanwhile.
#[test]
fn a_backup_beside_a_server_that_writes_is_of_one_moment() {
    let place = Place::new();
    let store = place.store();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut id = 0;
            while !ends.load(Ordering::Relaxed) {
                // Always two, and never more than twenty.
                let mut batch = vec![put(id, 1), put(id + 1, 1)];
                if id >= 20 {
                    batch.extend([remove(id - 20), remove(id - 19)]);
                }
                commit(&store, batch).unwrap();
                id += 2;
            }
        });
        for number in 0..10 {
            let copy = place.path(&format!("copy-{number}.db"));
            let backup = back_up(&place.path("busyhour.db"), &copy, BackupFor::This).unwrap();
            assert_eq!(backup.bindings % 2, 0, "{backup:?}");
            let mode = fs::metadata(&copy).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "it has hashes of passwords");
        }
        ends.store(true, Ordering::Relaxed);
    });
    let left_over = fs::read_dir(place.0.path()).unwrap().flatten();
    let mut names = left_over.map(|entry| entry.file_name().into_string().unwrap());
    assert!(names.all(|name| !name.ends_with(".part")));
}

#[test]
fn nothing_is_overwritten_and_no_database_in_use_is_replaced() {
    let place = Place::new();
    let (database, copy) = (place.path("busyhour.db"), place.path("copy.db"));
    let missing = back_up(&database, &copy, BackupFor::This).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing}");
    let store = place.store();
    commit(&store, vec![put(1, 1)]).unwrap();
    back_up(&database, &copy, BackupFor::This).unwrap();
    let exists = back_up(&database, &copy, BackupFor::This).unwrap_err();
    assert!(matches!(exists, StoreError::Exists { .. }), "{exists}");
    let in_use = restore(&copy, &database, true).unwrap_err();
    assert!(matches!(in_use, StoreError::InUse { .. }), "{in_use}");
    commit(&store, vec![put(2, 1)]).unwrap();
    let run = store.load().unwrap().run;
    drop(store);
    let exists = restore(&copy, &database, false).unwrap_err();
    assert!(matches!(exists, StoreError::Exists { .. }), "{exists}");
    restore(&copy, &database, true).unwrap();
    let restored = place.store().load().unwrap();
    assert_eq!(restored.bindings.len(), 1);
    assert!(restored.run > run, "names of dialogs never come again");
    let kept = SqliteStore::open(SqliteOptions::new(place.path("busyhour.db.replaced"))).unwrap();
    assert_eq!(
        kept.load().unwrap().bindings.len(),
        2,
        "the replaced one is whole"
    );
}

#[test]
fn a_backup_that_cannot_be_used_changes_nothing() {
    let place = Place::new();
    let (database, copy) = (place.path("busyhour.db"), place.path("copy.db"));
    let store = place.store();
    commit(&store, (0..500).map(|id| put(id, 1)).collect()).unwrap();
    back_up(&database, &copy, BackupFor::This).unwrap();
    drop(store);
    let good = fs::read(&copy).unwrap();
    let mut damaged = good.clone();
    // Whole pages, but not the first.
    let middle = good.len() / 2;
    damaged[middle..middle + 8192].fill(0xAA);
    let other = place.path("other.db");
    Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    let newer = place.path("newer.db");
    fs::write(&newer, &good).unwrap();
    let connection = Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    for (bytes, told) in [
        (damaged, "damaged"),
        (good[..good.len() / 2].to_vec(), "damaged"),
        (b"no database".repeat(1000), "damaged"),
        (fs::read(other).unwrap(), "no database of busyhour"),
        (fs::read(newer).unwrap(), "use a newer busyhour"),
    ] {
        let bad = place.path("bad.db");
        fs::write(&bad, bytes).unwrap();
        let error = restore(&bad, &database, true).unwrap_err();
        assert!(error.to_string().contains(told), "{told}: {error}");
        assert_eq!(place.store().load().unwrap().bindings.len(), 500);
    }
}

#[test]
fn a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays_as_it_was() {
    let place = Place::new();
    drop(place.store());
    let copy = place.path("copy.db");
    back_up(&place.path("busyhour.db"), &copy, BackupFor::This).unwrap();
    let (lock, other) = (place.path("busyhour.db.lock"), place.path("other"));
    fs::remove_file(&lock).unwrap();
    fs::write(&other, "of somebody else").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&other, &lock).unwrap();
    let refused = restore(&copy, &place.path("busyhour.db"), true).unwrap_err();
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
    let mode = fs::metadata(&other).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert!(!place.path("busyhour.db.replaced").exists());
}
