//! The SQLite store: what was acknowledged is there again, and only one server at a time.

use busyhour::clock::UnixTime;
use busyhour_server::registrar::{BindingChange, BindingId, Contact, Flow, Lease, Transport};
use busyhour_server::store::{
    Account, AccountHash, Change, CommitError, Refused, SqliteOptions, SqliteStore, Store,
    StoreError,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

#[test]
fn what_was_committed_is_loaded_again() {
    let folder = Folder::new("reload");
    let account = Account {
        username: "alice".into(),
        realm: "example.com".into(),
        hashes: vec![hash("MD5"), hash("SHA-256")],
    };
    let secret = Change::PutSecret {
        name: "nonce-key".into(),
        value: vec![0, 255, 7],
    };
    {
        let store = open(&folder);
        let changes = vec![
            put(1, 1),
            put(2, 1),
            Change::PutAccount(account.clone()),
            secret,
        ];
        commit(&store, changes).unwrap();
        commit(&store, vec![renew(1, 9), remove(2)]).unwrap();
    }
    let contents = open(&folder).load().unwrap();
    assert_eq!(contents.bindings.len(), 1);
    assert_eq!(contents.bindings[0].id, BindingId(1));
    assert_eq!(contents.bindings[0].contact, contact(1));
    assert_eq!(contents.bindings[0].lease, lease(9));
    assert_eq!(contents.accounts, [account]);
    assert_eq!(contents.secrets["nonce-key"], [0, 255, 7]);
}

#[test]
fn removed_accounts_stay_away() {
    let folder = Folder::new("accounts");
    let store = open(&folder);
    let account = Account {
        username: "bob".into(),
        realm: "example.com".into(),
        hashes: vec![hash("SHA-256")],
    };
    commit(&store, vec![Change::PutAccount(account)]).unwrap();
    let remove = Change::RemoveAccount {
        username: "bob".into(),
        realm: "example.com".into(),
    };
    commit(&store, vec![remove]).unwrap();
    assert!(store.load().unwrap().accounts.is_empty());
}

#[test]
fn batches_complete_in_order_and_share_transactions() {
    let folder = Folder::new("order");
    let store = open(&folder);
    let (told, order) = mpsc::channel();
    for number in 0..2_000_u64 {
        let told = told.clone();
        let done = move |fate: Result<(), CommitError>| told.send((number, fate)).unwrap();
        store.commit(vec![put(number, 1)], Box::new(done)).unwrap();
    }
    for expected in 0..2_000 {
        assert_eq!(order.recv().unwrap(), (expected, Ok(())));
    }
    let stats = store.stats();
    assert_eq!((stats.committed, stats.queued_len), (2_000, 0));
    assert!(stats.transactions < 2_000, "{stats:?}");
    assert!(stats.transaction_len_max > 1, "{stats:?}");
}

#[test]
fn a_second_server_is_told_who_holds_the_database() {
    let folder = Folder::new("second");
    let first = open(&folder);
    let error = SqliteStore::open(options(&folder)).err().unwrap();
    let pid = std::process::id();
    assert!(matches!(error, StoreError::InUse { pid: Some(held), .. } if held == pid));
    assert!(error.to_string().contains(&pid.to_string()));
    drop(first);
    open(&folder);
}

#[test]
fn a_full_queue_refuses_and_counts() {
    let folder = Folder::new("full");
    let store = SqliteStore::open(SqliteOptions {
        queue_capacity: 2,
        ..options(&folder)
    })
    .unwrap();
    let never = Box::new(|_: Result<(), CommitError>| panic!("a refused batch was told"));
    let too_many = vec![put(1, 1), put(2, 1), put(3, 1)];
    assert_eq!(store.commit(too_many, never), Err(Refused::Full));
    assert_eq!(store.stats().refused, 1);
}

#[test]
fn a_closed_store_has_drained_and_refuses() {
    let folder = Folder::new("closed");
    let store = open(&folder);
    let (told, fate) = mpsc::channel();
    let done = move |outcome: Result<(), CommitError>| told.send(outcome).unwrap();
    store.commit(vec![put(1, 1)], Box::new(done)).unwrap();
    assert!(store.close(Duration::from_secs(60)));
    assert_eq!(fate.recv().unwrap(), Ok(()));
    let late = store.commit(vec![put(2, 1)], Box::new(|_| ()));
    assert_eq!(late, Err(Refused::Closed));
    assert_eq!(store.load().unwrap().bindings.len(), 1);
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
    let folder = Folder::new("garbage");
    fs::write(folder.database(), vec![7_u8; 8192]).unwrap();
    let error = SqliteStore::open(options(&folder)).err().unwrap();
    assert!(matches!(error, StoreError::Sqlite { .. }), "{error}");
}

fn open(folder: &Folder) -> SqliteStore {
    SqliteStore::open(options(folder)).unwrap()
}

fn options(folder: &Folder) -> SqliteOptions {
    SqliteOptions::new(folder.database())
}

fn commit(store: &SqliteStore, changes: Vec<Change>) -> Result<(), CommitError> {
    let (told, fate) = mpsc::channel();
    let done = move |outcome| told.send(outcome).unwrap();
    store.commit(changes, Box::new(done)).unwrap();
    fate.recv().unwrap()
}

fn put(id: u64, cseq: u32) -> Change {
    Change::Binding(BindingChange::Put {
        id: BindingId(id),
        contact: contact(id),
        lease: lease(cseq),
    })
}

fn renew(id: u64, cseq: u32) -> Change {
    Change::Binding(BindingChange::Renew {
        id: BindingId(id),
        lease: lease(cseq),
    })
}

fn remove(id: u64) -> Change {
    Change::Binding(BindingChange::Remove { id: BindingId(id) })
}

fn contact(number: u64) -> Arc<Contact> {
    Arc::new(Contact {
        aor: format!("sip:user{number}@example.com").into(),
        uri: format!("sip:user{number}@192.0.2.1:5062").into(),
        parameters: ";+sip.instance=\"<urn:uuid:0>\"".into(),
        q_milli: Some(500),
        call_id: "call".into(),
        path: "".into(),
        user_agent: "phone".into(),
        flow: Flow {
            transport: Transport::Tcp,
            remote: "[2001:db8::1]:5062".parse().unwrap(),
            local: "192.0.2.2:5060".parse().unwrap(),
        },
    })
}

fn lease(cseq: u32) -> Lease {
    Lease {
        cseq,
        granted_s: 3600,
        expires_at: UnixTime::from_secs(1_800_000_000),
        removed: cseq > 5,
    }
}

fn hash(algorithm: &str) -> AccountHash {
    AccountHash {
        algorithm: algorithm.to_owned(),
        hex: "00ff".repeat(8),
    }
}

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("busyhour-store-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn database(&self) -> PathBuf {
        self.0.join("busyhour.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
