//! SQLite: a file that one server uses.

use crate::{
    sample::{aor, commit, put, renew},
    suite::{Database, TESTS},
};
use busyhour_store::{
    AccountAdmin, Durability, SqliteOptions, SqliteStore, Store, StoreError, WhenMissing,
    open_accounts,
};
use rusqlite::Connection;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};
use tempfile::TempDir;

struct File(TempDir, Durability);

impl File {
    fn new() -> Self {
        Self(TempDir::new().unwrap(), Durability::Full)
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions {
            durability: self.1,
            ..SqliteOptions::new(self.0.path().join("busyhour.db"))
        }
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
fn it_passes_the_suite_also_if_only_the_process_may_end() {
    for (name, test) in TESTS {
        println!("{name}");
        test(&File(TempDir::new().unwrap(), Durability::Process));
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
    for name in [
        "busyhour.db",
        "busyhour.db-wal",
        "busyhour.db-shm",
        "busyhour.db.journal",
    ] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    drop(store);
    let database = file.0.path().join("busyhour.db");
    fs::set_permissions(&database, Permissions::from_mode(0o644)).unwrap();
    drop(file.open(8));
    assert_eq!(mode("busyhour.db"), 0o644);
}

#[test]
fn others_find_contacts_by_a_view_while_it_is_wanted() {
    let file = File::new();
    let open = |location_view| {
        let options = SqliteOptions {
            location_view,
            ..file.options()
        };
        SqliteStore::open(options).unwrap()
    };
    let store = open(true);
    commit(&store, vec![put(1, 5), put(2, 5)]).unwrap();
    commit(&store, vec![renew(2, 7)]).unwrap();
    // Reading makes the database follow at once.
    store.load().unwrap();
    let others = Connection::open(file.options().path).unwrap();
    let rows = |columns: &str| -> Result<Vec<String>, rusqlite::Error> {
        let mut rows = others.prepare(&format!("SELECT {columns} FROM location"))?;
        let rows = rows.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    assert_eq!(rows("ruid || ' ' || cseq").unwrap(), ["busyhour-1 5"]);
    let aor = aor(1);
    let (user, domain) = aor.strip_prefix("sip:").unwrap().split_once('@').unwrap();
    assert_eq!(rows("username").unwrap(), [user]);
    assert_eq!(rows("domain").unwrap(), [domain]);
    let rest = "received || ' ' || q || ' ' || expires || ' ' || instance || ' ' || reg_id";
    let expected = "sip:[2001:db8::1]:5062;transport=tcp 0.5 1800000000 <urn:uuid:0> 0";
    assert_eq!(rows(rest).unwrap(), [expected]);
    // Kamailio removes rows that have expired; they are not its own.
    others.execute("DELETE FROM location", []).unwrap();
    assert_eq!(rows("ruid").unwrap().len(), 1);
    let mut plan = others
        .prepare("EXPLAIN QUERY PLAN SELECT * FROM location WHERE username = 'a'")
        .unwrap();
    let plan = plan.query_map([], |row| row.get(3)).unwrap();
    let plan: Vec<String> = plan.map(Result::unwrap).collect();
    assert!(
        plan.iter().any(|step| step.contains("contact_username")),
        "{plan:?}"
    );
    drop(store);
    drop(open(true));
    assert_eq!(rows("ruid").unwrap().len(), 1);
    drop(open(false));
    assert!(
        rows("ruid")
            .unwrap_err()
            .to_string()
            .contains("no such table")
    );
    drop(open(true));
    assert_eq!(rows("ruid").unwrap().len(), 1);
}
