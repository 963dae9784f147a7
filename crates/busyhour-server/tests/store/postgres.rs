//! A real PostgreSQL, which is stopped and started again.

use crate::{
    sample::{commit, put},
    suite::{Database, TESTS},
    support::{Place, ServerProcess, busyhour, postgres::Postgres},
};
use busyhour_cluster::Timing;
use busyhour_store::{
    AccountAdmin, CallRecordQuery, CommitError, PostgresOptions, PostgresOwnership, PostgresStore,
    Store, StoreError, WhenMissing, open_postgres_accounts,
};
use std::{collections::BTreeSet, fs, path::Path, sync::mpsc, time::Duration};

pub struct Url(pub String);

impl Url {
    pub fn options(&self) -> PostgresOptions {
        PostgresOptions::new(&self.0).unwrap()
    }
}

impl Database for Url {
    fn open(&self, queue_capacity: usize) -> Box<dyn Store> {
        let mut options = self.options();
        options.queue_capacity = queue_capacity;
        Box::new(PostgresStore::open(options).unwrap())
    }

    fn book(&self) -> Box<dyn AccountAdmin> {
        open_postgres_accounts(self.options(), WhenMissing::Create).unwrap()
    }
}

#[test]
fn it_passes_the_suite_of_all_stores() {
    let postgres = Postgres::start();
    for (name, test) in TESTS {
        println!("{name}");
        test(&Url(postgres.database(name)));
    }
}

#[test]
fn one_server_has_a_database_and_a_newer_schema_is_refused() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("one"));
    let first = url.open(8);
    let mut options = url.options();
    options.lock_patience = Duration::ZERO;
    let error = PostgresStore::open(options).err().unwrap();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(first);
    drop(url.open(8));
    postgres.sql(
        "one",
        "UPDATE schema_version SET version = 99, minimum = 99",
    );
    let error = PostgresStore::open(url.options()).err().unwrap();
    assert!(
        matches!(error, StoreError::Newer { found: 99, .. }),
        "{error}"
    );
    let nobody = PostgresOptions::new(&postgres.url("missing")).unwrap();
    let error = PostgresStore::open(nobody).err().unwrap().to_string();
    assert!(error.contains("\"missing\" does not exist"), "{error}");
}

/// Schema versions that were released: `fixtures/postgres-N.sql` is a database of each, as text. A release
/// that changes the schema brings its own.
const RELEASED: u32 = 9;

#[test]
fn databases_of_every_released_version_are_brought_up_to_date() {
    let postgres = Postgres::start();
    let fresh = Url(postgres.database("fresh"));
    drop(fresh.open(8));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/fixtures");
    for version in 1..=RELEASED {
        let name = format!("v{version}");
        let url = Url(postgres.database(&name));
        let dump = fs::read_to_string(fixtures.join(format!("postgres-{version}.sql"))).unwrap();
        postgres.sql(&name, &dump);
        let store = url.open(8);
        let contents = store.load().unwrap();
        assert_eq!(contents.accounts.len(), 1, "version {version}");
        assert_eq!(contents.accounts[0].username, "alice");
        assert_eq!(contents.accounts[0].view().algorithms.len(), 2);
        assert_eq!(contents.bindings.len(), 1);
        assert_eq!(&*contents.bindings[0].aor, "sip:alice@example.com");
        assert_eq!(contents.bindings[0].lease.cseq, 4);
        let of_bob = CallRecordQuery {
            user: Some("bob".to_owned()),
            ..CallRecordQuery::first(2)
        };
        let records = store.call_records(&of_bob).unwrap();
        assert_eq!(
            records.len(),
            usize::from(version >= 6),
            "version {version}"
        );
        commit(&*store, vec![put(2, 1)]).unwrap();
        assert_eq!(store.load().unwrap().bindings.len(), 2);
        drop(store);
        assert_eq!(shape(&url), shape(&fresh), "version {version}");
    }
}

/// The same for the tables of a cluster: `fixtures/cluster-N.sql` has those of each version, beside
/// version 9 of the others.
const CLUSTER_RELEASED: u32 = 3;

#[test]
fn clusters_of_every_released_version_are_brought_up_to_date() {
    let postgres = Postgres::start();
    let open = |url: &Url| PostgresOwnership::open(url.options(), Timing::default()).unwrap();
    let fresh = Url(postgres.database("fresh"));
    drop(open(&fresh));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/fixtures");
    for version in 1..=CLUSTER_RELEASED {
        let name = format!("v{version}");
        let url = Url(postgres.database(&name));
        for file in ["postgres-9.sql", &format!("cluster-{version}.sql")] {
            postgres.sql(&name, &fs::read_to_string(fixtures.join(file)).unwrap());
        }
        let secret = || {
            let mut client = postgres::Client::connect(&url.0, postgres::NoTls).unwrap();
            let key = "SELECT value FROM setting WHERE name = 'route-key'";
            client.query_one(key, &[]).unwrap().get::<_, String>(0)
        };
        let before = secret();
        let mut ownership = open(&url);
        assert_eq!(secret(), before, "routes of calls stay valid");
        // A node has its number for ever, and its next life the next epoch.
        let beta = ownership.join("beta").unwrap();
        assert_eq!((beta.node.0, beta.epoch), (2, 4), "version {version}");
        let view = ownership.beat(beta).unwrap();
        assert_eq!(view.nodes.len(), 2);
        let alpha = view.nodes[0].member;
        assert_eq!((alpha.node.0, alpha.epoch), (1, 7));
        let owned = view
            .iter()
            .filter(|(part, _)| view.owner(*part) == Some(alpha));
        assert_eq!(owned.count(), 256);
        let pinned = view
            .iter()
            .filter(|(_, found)| found.pinned == Some(beta.node));
        assert_eq!(pinned.count(), usize::from(version >= 3));
        drop(ownership);
        assert_eq!(shape(&url), shape(&fresh), "version {version}");
    }
}

/// Its columns, indexes, triggers, functions and sequences.
fn shape(url: &Url) -> Vec<String> {
    let mut client = postgres::Client::connect(&url.0, postgres::NoTls).unwrap();
    let rows = client.query(SHAPE, &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

const SHAPE: &str = "
    SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) AS what
        FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', sequencename, data_type, start_value, increment_by, max_value, cycle)
        FROM pg_sequences WHERE schemaname = 'public'
    ORDER BY what";

/// The database crashes and restarts under load: each change gets one result,
/// and the acknowledged ones are there.
#[test]
fn a_restart_of_the_database_under_load_loses_nothing() {
    let mut postgres = Postgres::start();
    let mut options = Url(postgres.database("load")).options();
    // However long the restart takes, changes that wait must not be refused
    // here.
    options.commit_timeout = Duration::from_secs(3600);
    let store = PostgresStore::open(options).unwrap();
    let (told, fates) = mpsc::channel();
    let try_send = |number: u64| {
        let told = told.clone();
        let done = move |fate: Result<(), CommitError>| told.send((number, fate)).unwrap();
        store.commit(vec![put(number, 1)], Box::new(done)).unwrap();
    };
    let mut next = 0;
    for _ in 0..3 {
        (next..next + 500).for_each(try_send);
        next += 500;
        // Some of the changes are being committed now.
        let first = fates.recv().unwrap();
        told.send(first).unwrap();
        postgres.crash();
        (next..next + 500).for_each(try_send);
        next += 500;
        postgres.run();
        commit(&store, vec![put(1_000_000 + next, 1)]).unwrap();
    }
    let fates: Vec<(u64, Result<(), CommitError>)> = fates.iter().take(next as usize).collect();
    let numbers: BTreeSet<u64> = fates.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers.len() as u64, next, "each change gets one result");
    let bindings = store.load().unwrap().bindings;
    let stored: BTreeSet<u64> = bindings.iter().map(|binding| binding.id.0).collect();
    for (number, fate) in fates {
        assert!(
            fate.is_err() || stored.contains(&number),
            "{number} was acknowledged"
        );
    }
}

/// When the commit timeout has passed, waiting changes are refused and not stored;
/// those that were sent are kept and succeed.
#[test]
fn a_long_outage_keeps_sent_changes_and_refuses_waiting_ones() {
    let mut postgres = Postgres::start();
    let url = Url(postgres.database("away"));
    let mut options = url.options();
    options.commit_timeout = Duration::ZERO;
    let store = PostgresStore::open(options).unwrap();
    postgres.crash();
    let (told, fates) = mpsc::channel();
    let try_send = |number: u64| {
        let told = told.clone();
        let done = move |fate: Result<(), CommitError>| told.send((number, fate.is_ok())).unwrap();
        store.commit(vec![put(number, 1)], Box::new(done)).unwrap();
    };
    try_send(1);
    // The first change is sent before the second is offered, or both would be
    // one group.
    let failed_before = store.stats().failed;
    let mut number = 2;
    while store.stats().failed == failed_before {
        try_send(number);
        number += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    let (refused, is_stored) = fates.recv().unwrap();
    assert!(refused > 1 && !is_stored, "{refused} {is_stored}");
    assert!(!store.stats().last_error.is_empty());
    postgres.run();
    let mut stored = BTreeSet::new();
    for (number, is_stored) in fates.iter().take(number as usize - 2) {
        if is_stored {
            stored.insert(number);
        }
    }
    assert!(stored.contains(&1));
    let bindings = store.load().unwrap().bindings;
    assert!(bindings.iter().map(|binding| binding.id.0).eq(stored));
}

/// The real server: `kill -9` in one storm, and a restart of the database in
/// another.
#[test]
fn a_server_with_postgresql_survives_kills_and_restarts_of_the_database() {
    let mut postgres = Postgres::start();
    let url = postgres.database("server");
    let place = Place::new();
    let mut command = busyhour();
    let listen = ["--sip-listen", "--iax2-listen", "--http-listen"];
    command.args(["serve", "--sip-auth", "open", "--store-url", &url]);
    command.args(listen.iter().flat_map(|flag| [flag, "127.0.0.1:0"]));
    let server = ServerProcess::start(&mut command, &place);
    let said = server.said.join("\n");
    assert!(said.contains("postgres://"), "{said}");
    assert!(storm(&server, 1, 1000).wait().unwrap().success());
    server.kill();
    let server = ServerProcess::start(&mut command, &place);
    assert_eq!(server.stat("/registrar/binding_count"), 1000);
    let mut storm = storm(&server, 2001, 1000);
    server.wait_for("/registrar/accepted", |accepted| accepted >= 100);
    postgres.crash();
    postgres.run();
    // If the database took longer than the server's commit timeout, some registrations
    // are refused.
    storm.wait().unwrap();
    let kept = server.stat("/registrar/binding_count");
    assert!(kept >= 1100, "{kept}: {}", server.log());
    assert!(server.stop().success());
    let server = ServerProcess::start(&mut command, &place);
    assert_eq!(server.stat("/registrar/binding_count"), kept);
}

pub fn storm(server: &ServerProcess, first: u64, devices: u32) -> std::process::Child {
    let mut command = busyhour();
    command.args([
        "storm",
        "--over",
        "2s",
        "--json",
        "--domain",
        "busyhour.test",
    ]);
    command.args(["--target", &server.sip.to_string()]);
    command.args([
        "--first",
        &first.to_string(),
        "--devices",
        &devices.to_string(),
    ]);
    command.stdout(std::process::Stdio::null());
    command.spawn().expect("the storm starts")
}
