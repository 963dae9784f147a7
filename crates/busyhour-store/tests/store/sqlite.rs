//! SQLite: a file that one server uses.

use crate::{
    sample::{commit, put},
    suite::{Database, TESTS},
};
use busyhour_store::{
    AccountAdmin, SqliteOptions, SqliteStore, Store, StoreError, WhenMissing, open_accounts,
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};
use tempfile::TempDir;

struct File(TempDir);

impl File {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.0.path().join("busyhour.db"))
    }
}

impl Database for File {
    fn open(&self, queue_capacity: usize) -> Box<dyn Store> {
        let options = SqliteOptions {
            queue_capacity,
            ..self.options()
        };
        Box::new(SqliteStore::open(options).unwrap())
    }

    fn book(&self) -> Box<dyn AccountAdmin> {
        open_accounts(&self.0.path().join("busyhour.db"), WhenMissing::Create).unwrap()
    }
}

#[test]
fn it_passes_the_suite_of_all_stores() {
    for (name, test) in TESTS {
        println!("{name}");
        test(&File::new());
    }
}

#[test]
fn a_second_server_is_told_which_process_uses_the_database() {
    let file = File::new();
    let first = file.open(8);
    let error = SqliteStore::open(file.options()).err().unwrap();
    let pid = std::process::id();
    assert!(matches!(error, StoreError::InUse { pid: Some(held), .. } if held == pid));
    assert!(error.to_string().contains(&pid.to_string()));
    drop(first);
    file.open(8);
}

#[test]
fn an_unwritable_path_is_one_clear_error() {
    let missing = Path::new("/nonexistent-folder/busyhour.db");
    let error = SqliteStore::open(SqliteOptions::new(missing))
        .err()
        .unwrap();
    assert!(matches!(error, StoreError::Path { .. }));
    assert!(
        error
            .to_string()
            .contains("/nonexistent-folder/busyhour.db")
    );
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let file = File::new();
    fs::write(file.0.path().join("busyhour.db"), vec![7_u8; 8192]).unwrap();
    let error = SqliteStore::open(file.options()).err().unwrap();
    assert!(matches!(error, StoreError::Sqlite { .. }), "{error}");
}

/// It contains hashes of passwords, and the passwords themselves where IAX2
/// needs them.
#[test]
fn only_its_user_can_read_a_new_database_and_an_old_one_is_not_changed() {
    let file = File::new();
    let mode = |name: &str| fs::metadata(file.0.path().join(name)).unwrap().mode() & 0o777;
    let store = file.open(8);
    commit(&*store, vec![put(1, 1)]).unwrap();
    for name in ["busyhour.db", "busyhour.db-wal", "busyhour.db-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    drop(store);
    let database = file.0.path().join("busyhour.db");
    fs::set_permissions(&database, Permissions::from_mode(0o644)).unwrap();
    drop(file.open(8));
    assert_eq!(mode("busyhour.db"), 0o644);
}
