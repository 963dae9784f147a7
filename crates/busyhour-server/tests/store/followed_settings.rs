//! Settings that several servers on one database make: all end with what the database has, and a
//! look at what has not changed reads nothing and holds nothing up.

use crate::{
    postgres::Url,
    sample::{commit, put},
    suite::Database,
    support::postgres::Postgres,
};
use busyhour_store::{Change, SettingFollower, SettingKind, SettingRefused, Store};
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

/// Passes on what it is told.
struct Follower {
    told: mpsc::Sender<(String, Option<String>)>,
    names: Vec<String>,
}

impl SettingFollower for Follower {
    fn kinds(&self) -> &[SettingKind] {
        &[SettingKind::Mailbox, SettingKind::Hint]
    }

    fn names(&self, kind: SettingKind) -> Vec<String> {
        match kind {
            SettingKind::Hint => self.names.clone(),
            _ => Vec::new(),
        }
    }

    fn take(
        &self,
        kind: SettingKind,
        name: &str,
        value: Option<&str>,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), SettingRefused> {
        assert!([SettingKind::Mailbox, SettingKind::Hint].contains(&kind));
        if !is_overtaken() {
            let _ended = self.told.send((name.to_owned(), value.map(str::to_owned)));
        }
        Ok(())
    }
}

type Told = mpsc::Receiver<(String, Option<String>)>;

fn follow(store: &dyn Store, names: &[&str]) -> Told {
    let (told, news) = mpsc::channel();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let revision = store.load().unwrap().setting_revision;
    store.follow_settings(Some(revision), Box::new(Follower { told, names }));
    news
}

fn hint(name: &str, value: &str) -> Change {
    let (kind, name, value) = (SettingKind::Hint, name.to_owned(), value.to_owned());
    Change::PutSetting { kind, name, value }
}

/// What is told of a name, until it is that.
fn wait(news: &Told, name: &str, value: Option<&str>) {
    loop {
        let told = news.recv_timeout(PATIENCE).expect("it is told");
        if (told.0.as_str(), told.1.as_deref()) == (name, value) {
            return;
        }
    }
}

/// Another server sets again what was there before, after this one has set something else: the
/// look finds the table as it was, and this server has to know.
#[test]
fn what_another_server_sets_back_is_told() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("order"));
    let store = url.open(64);
    let other = |sql: &str| postgres.sql("order", sql);
    let news = follow(&*store, &[]);
    other("INSERT INTO setting VALUES ('hint', '100', 'alice'), ('token', 'shop', '{}')");
    wait(&news, "100", Some("alice"));
    commit(&*store, vec![hint("100", "bob"), put(1, 1)]).unwrap();
    other("UPDATE setting SET value = 'alice' WHERE name = '100'");
    wait(&news, "100", Some("alice"));
    // Ours is the last one.
    other("UPDATE setting SET value = 'carl' WHERE name = '100'");
    commit(&*store, vec![hint("100", "bob")]).unwrap();
    wait(&news, "100", Some("bob"));
    other("UPDATE setting SET name = '101' WHERE name = '100'");
    wait(&news, "101", Some("bob"));
    other("DELETE FROM setting");
    wait(&news, "101", None);
}

/// More changes than the database keeps the names of: all are told, and what is gone, too.
#[test]
fn after_many_changes_all_settings_are_read() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("many"));
    let store = url.open(64);
    let news = follow(&*store, &["gone"]);
    let many =
        "INSERT INTO setting SELECT 'mailbox', 'm' || n, '{}' FROM generate_series(1, 10001) n";
    postgres.sql("many", many);
    let told: Vec<_> = (0..10_002)
        .map(|_| news.recv_timeout(PATIENCE).expect("it is told"))
        .collect();
    assert_eq!(told[0], ("gone".to_owned(), None));
    assert!(told[1..].iter().all(|(_, value)| value.is_some()));
    // What nobody follows is not counted.
    let count = || store.load().unwrap().setting_revision;
    let before = count();
    postgres.sql(
        "many",
        "INSERT INTO setting VALUES ('registration', 'a', 'b')",
    );
    assert_eq!(count(), before);
    postgres.sql("many", "TRUNCATE setting");
    assert!(count() > before);
}

/// Nobody can read the table, and still commits are written: looks are on a connection of their
/// own, and do not read the table before the count of changes is another.
#[test]
fn a_look_holds_up_no_commit_and_does_not_read_what_has_not_changed() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("locked"));
    let store = url.open(64);
    let news = follow(&*store, &[]);
    commit(&*store, vec![hint("100", "alice")]).unwrap();
    wait(&news, "100", Some("alice"));
    let mut client = postgres::Client::connect(&url.0, postgres::NoTls).unwrap();
    let mut transaction = client.transaction().unwrap();
    transaction
        .batch_execute("LOCK TABLE setting IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    // Longer than the time between two looks.
    let (begun, mut number) = (Instant::now(), 1);
    while begun.elapsed() < 3 * LOOK_PERIOD {
        let (told, fate) = mpsc::channel();
        let done = Box::new(move |outcome| drop(told.send(outcome)));
        store.commit(vec![put(number, 1)], done).unwrap();
        assert_eq!(fate.recv_timeout(PATIENCE).expect("it is written"), Ok(()));
        number += 1;
        std::thread::sleep(LOOK_PERIOD / 20);
    }
    let mut watcher = postgres::Client::connect(&url.0, postgres::NoTls).unwrap();
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let waiting: i64 = watcher.query_one(waiting, &[]).unwrap().get(0);
    assert_eq!(waiting, 0, "somebody wants to read the table");
    transaction.commit().unwrap();
}

/// How often a store looks for changes by other programs.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(30);
