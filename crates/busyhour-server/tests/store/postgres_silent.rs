//! PostgreSQL does not answer, or another program holds its locks; and keep-alives of
//! its connections.

use crate::{
    postgres::{Url, storm},
    proxy::{Proxy, Way},
    sample::{account, commit, put, remove_account},
    suite::Database,
    support::{Place, ServerProcess, busyhour, postgres::Postgres},
};
use busyhour_store::{
    Change, CommitError, PostgresStore, Store, WhenMissing, open_postgres_accounts,
};
use postgres::{Client, NoTls};
use std::{
    fs,
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

type Fates = Receiver<(u64, Result<(), CommitError>)>;

/// The answer to a COMMIT never arrives, and TCP reports no error.
#[test]
fn changes_that_wait_behind_a_commit_without_an_answer_are_refused() {
    let postgres = Postgres::start();
    let proxy = Proxy::to(postgres.socket());
    postgres.database("silent");
    let mut options = Url(proxy.url("silent")).options();
    options.commit_timeout = Duration::from_millis(50);
    let store = PostgresStore::open(options).unwrap();
    proxy.set(Way::OpenUntilCommit);
    let (try_send, fates) = offers(&store);
    try_send(1);
    proxy.wait_for_a_lost_answer();
    try_send(2);
    let (number, fate) = fates.recv().unwrap();
    assert_eq!(number, 2, "the first change is being committed");
    assert!(fate.unwrap_err().to_string().starts_with("no answer for "));
    let stats = store.stats();
    assert!(stats.stalled_ns >= 50_000_000, "{stats:?}");
    assert!(stats.last_error.starts_with("no answer for "), "{stats:?}");
    proxy.cut(Way::Open);
    assert_eq!(fates.recv().unwrap(), (1, Ok(())));
    while store.stats().stalled_ns > 0 {
        thread::sleep(PACE);
    }
    let stored = store.load().unwrap().bindings;
    assert!(stored.iter().map(|binding| binding.id.0).eq([1]));
}

/// The real server then answers 503 to devices and to health checks.
#[test]
fn a_server_whose_database_does_not_answer_reports_it() {
    let postgres = Postgres::start();
    let proxy = Proxy::to(postgres.socket());
    postgres.database("ill");
    let place = Place::new();
    let mut command = busyhour();
    let listen = ["--sip-listen", "--iax2-listen", "--http-listen"];
    let url = proxy.url("ill");
    command.args(["serve", "--sip-auth", "open", "--store-url", &url]);
    command.args(listen.iter().flat_map(|flag| [flag, "127.0.0.1:0"]));
    let server = ServerProcess::start(&mut command, &place);
    assert_eq!(server.get("/healthz"), "ok\n");
    proxy.set(Way::Silent);
    let mut storm = storm(&server, 1, 50);
    server.wait_for("/store/failed", |failed| failed > 0);
    let health = || ureq::get(format!("http://{}/healthz", server.http)).call();
    while health().is_ok() {
        thread::sleep(PACE);
    }
    proxy.cut(Way::Open);
    storm.wait().unwrap();
    server.wait_for("/store/stalled_ns", |stalled_ns| stalled_ns == 0);
}

/// Both ends of the connection check whether the other is there, even when they
/// only wait for an answer.
#[test]
fn both_ends_of_a_connection_check_whether_the_other_is_there() {
    let postgres = Postgres::start_on_tcp();
    postgres.database("kept");
    let url = postgres.tcp_url("kept");
    let _store = Url(url.clone()).open(8);
    let ends = loop {
        let ends = timers_of_connections(&url);
        // While something is not acknowledged yet, another timer runs.
        if ends.len() == 2 && ends.iter().all(|end| end.kind == KEEPALIVE) {
            break ends;
        }
        thread::sleep(PACE);
    };
    let five_seconds = 500;
    assert!(ends.iter().all(|end| end.ticks <= five_seconds), "{ends:?}");
}

/// A tool removes an account while the server changes it: each first locks what
/// the other also needs.
#[test]
fn a_tool_and_the_server_do_not_wait_for_each_other() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("circle"));
    url.book().put(&[account("alice")]).unwrap();
    let mut server = Client::connect(&url.0, NoTls).unwrap();
    let mut group = server.transaction().unwrap();
    // The first statement of the server for a group that changes accounts.
    let lock = "SELECT count FROM revision WHERE name = 'account' FOR UPDATE";
    group.execute(lock, &[]).unwrap();
    let options = url.options();
    let tool = thread::spawn(move || {
        let mut book = open_postgres_accounts(options, WhenMissing::Create)?;
        book.remove("alice", "example.com")
    });
    wait_for_a_lock(&url);
    let change = "UPDATE account SET hints = '' WHERE username = 'alice'";
    assert_eq!(group.execute(change, &[]).unwrap(), 1);
    group.commit().unwrap();
    assert!(tool.join().unwrap().unwrap());
}

/// If PostgreSQL rolls a group back because of another program, the group is
/// written again.
#[test]
fn a_group_that_conflicts_with_another_program_is_written_again() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("met"));
    let store = url.open(8);
    for (table, code) in [("contact", "40P01"), ("account", "40001")] {
        let fail = FAIL_ONCE.replace("TABLE_", table).replace("CODE_", code);
        postgres.sql("met", &fail);
    }
    commit(&*store, vec![put(1, 1)]).unwrap();
    commit(&*store, vec![Change::from(account("alice"))]).unwrap();
    let contents = store.load().unwrap();
    assert_eq!((contents.bindings.len(), contents.accounts.len()), (1, 1));
    assert_eq!(store.stats().failed, 0);
    let fail = FAIL_EACH_TIME.replace("CODE_", "40P01");
    postgres.sql("met", &fail);
    let error = commit(&*store, vec![put(2, 1), remove_account("alice")]).unwrap_err();
    assert!(error.to_string().contains("as told"), "{error}");
}

/// Offers bindings to the store; their results come in the order in which they
/// are known.
fn offers(store: &PostgresStore) -> (impl Fn(u64) + '_, Fates) {
    let (told, fates) = mpsc::channel();
    let try_send = move |number: u64| {
        let told = told.clone();
        let done = move |fate| told.send((number, fate)).unwrap();
        store.commit(vec![put(number, 1)], Box::new(done)).unwrap();
    };
    (try_send, fates)
}

/// Waits until a session of the database waits for a lock of another one.
fn wait_for_a_lock(url: &Url) {
    let mut client = Client::connect(&url.0, NoTls).unwrap();
    let waiting = "SELECT FROM pg_stat_activity \
        WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while client.query(waiting, &[]).unwrap().is_empty() {
        thread::sleep(PACE);
    }
}

/// The timer of one end of a connection.
#[derive(Debug)]
struct Timer {
    kind: u8,
    /// The time until it goes off, in hundredths of a second.
    ticks: u64,
}

/// The timers of both ends of each open connection to the port of `url`, as the
/// kernel lists them.
fn timers_of_connections(url: &str) -> Vec<Timer> {
    let (_, place) = url.rsplit_once(':').unwrap();
    let (port, _) = place.split_once('/').unwrap();
    let port = format!(":{:04X}", port.parse::<u16>().unwrap());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|row| row.split_whitespace().collect());
    let of_url = rows.filter(|row: &Vec<&str>| {
        row[3] == ESTABLISHED && (row[1].ends_with(&port) || row[2].ends_with(&port))
    });
    of_url.map(|row| timer(row[5])).collect()
}

fn timer(field: &str) -> Timer {
    let (kind, ticks) = field.split_once(':').unwrap();
    Timer {
        kind: u8::from_str_radix(kind, 16).unwrap(),
        ticks: u64::from_str_radix(ticks, 16).unwrap(),
    }
}

const ESTABLISHED: &str = "01";
const KEEPALIVE: u8 = 2;
/// A sequence keeps its value when a transaction is rolled back.
const FAIL_ONCE: &str = "
    CREATE SEQUENCE TABLE__tries;
    CREATE FUNCTION fail_TABLE_() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('TABLE__tries') = 1 THEN RAISE SQLSTATE 'CODE_'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER fail BEFORE INSERT ON TABLE_
        FOR EACH ROW EXECUTE FUNCTION fail_TABLE_();
";
const FAIL_EACH_TIME: &str = "
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE SQLSTATE 'CODE_' USING MESSAGE = 'as told';
    END $$;
    CREATE TRIGGER fail_always BEFORE DELETE ON account
        FOR EACH ROW EXECUTE FUNCTION fail();
";
/// The time between two checks of a condition; no test depends on its length.
const PACE: Duration = Duration::from_millis(10);
