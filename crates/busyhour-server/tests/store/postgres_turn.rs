//! PostgreSQL: several servers use a database one after the other, and answers
//! are lost.

use crate::{
    postgres::{Url, storm},
    proxy::{Proxy, Way},
    sample::{account, commit, follow, lease, put, remove, remove_account, renew},
    suite::Database,
    support::{Place, ServerProcess, busyhour, postgres::Postgres},
};
use busyhour_store::{
    Account, AccountNews, AccountRange, Change, Durability, PostgresStore, Refused, Store,
};
use std::sync::mpsc;

/// A COMMIT succeeded and its answer was lost; what others have changed since
/// stays.
#[test]
fn a_group_that_was_written_is_not_written_again() {
    let postgres = Postgres::start();
    let proxy = Proxy::to(postgres.socket());
    let direct = Url(postgres.database("twice"));
    let store = Url(proxy.url("twice")).open(8);
    let news = follow(&*store);
    commit(&*store, vec![put(1, 1)]).unwrap();
    proxy.set(Way::OpenUntilCommit);
    let (told, fate) = mpsc::channel();
    let changes = vec![renew(1, 2), Change::from(account("alice"))];
    let done = move |outcome| told.send(outcome).unwrap();
    store.commit(changes, Box::new(done)).unwrap();
    proxy.wait_for_a_lost_answer();
    let changed = [Account {
        mailbox: None,
        ..account("alice")
    }];
    direct.book().put(&changed).unwrap();
    proxy.cut(Way::Open);
    assert_eq!(fate.recv().unwrap(), Ok(()));
    let contents = store.load().unwrap();
    assert_eq!(contents.accounts, changed);
    assert_eq!(contents.bindings[0].lease, lease(2));
    let [changed] = changed;
    assert_eq!(news.try_recv(), Ok(AccountNews::Put(changed)));
    commit(&*store, vec![remove_account("alice"), remove(1)]).unwrap();
    let contents = store.load().unwrap();
    assert!(contents.accounts.is_empty() && contents.bindings.is_empty());
}

/// Another server has used the database meanwhile: the first server overwrites
/// nothing that the other acknowledged.
#[test]
fn a_server_writes_nothing_after_another_has_taken_over() {
    let postgres = Postgres::start();
    let proxy = Proxy::to(postgres.socket());
    let direct = Url(postgres.database("turns"));
    let old = Url(proxy.url("turns")).open(8);
    let (told, end) = mpsc::channel();
    old.watch_end(Box::new(move |error| told.send(error).unwrap()));
    commit(&*old, vec![put(1, 1)]).unwrap();
    proxy.cut(Way::Closed);
    let new = direct.open(8);
    commit(&*new, vec![renew(1, 4)]).unwrap();
    drop(new);
    proxy.set(Way::Open);
    let (told, fate) = mpsc::channel();
    let done = move |outcome| drop(told.send(outcome));
    // It may have noticed already; then it accepts nothing.
    if old.commit(vec![renew(1, 2)], Box::new(done)).is_ok() {
        let error = fate.recv().unwrap().unwrap_err().to_string();
        assert!(
            error.contains("another server has taken it over"),
            "{error}"
        );
    }
    let error = end.recv().unwrap().to_string();
    assert!(
        error.contains("another server has taken it over"),
        "{error}"
    );
    let late = old.commit(vec![renew(1, 3)], Box::new(|_| ()));
    assert_eq!(late, Err(Refused::Closed));
    let stored = direct.open(8).load().unwrap().bindings;
    assert_eq!(stored[0].lease, lease(4));
}

/// The real server ends and says why.
#[test]
fn a_server_process_ends_after_another_has_taken_over() {
    let postgres = Postgres::start();
    let proxy = Proxy::to(postgres.socket());
    let direct = Url(postgres.database("process"));
    let place = Place::new();
    let mut command = busyhour();
    let listen = ["--sip-listen", "--iax2-listen", "--http-listen"];
    let url = proxy.url("process");
    command.args(["serve", "--sip-auth", "open", "--store-url", &url]);
    command.args(listen.iter().flat_map(|flag| [flag, "127.0.0.1:0"]));
    let mut server = ServerProcess::start(&mut command, &place);
    assert!(storm(&server, 1, 50).wait().unwrap().success());
    proxy.cut(Way::Closed);
    // This server uses the database, and then the earlier one comes back.
    let new = direct.open(8);
    proxy.set(Way::Open);
    assert_eq!(server.wait().code(), Some(1));
    let log = server.log();
    assert!(log.contains("another server has taken it over"), "{log}");
    assert_eq!(new.load().unwrap().bindings.len(), 50);
}

/// Without `synchronous_commit`, a crash of the database may lose acknowledged
/// changes; the server continues from there.
#[test]
fn a_server_continues_with_a_database_that_has_lost_groups() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("lost"));
    let mut options = url.options();
    options.durability = Durability::Process;
    let store = PostgresStore::open(options).unwrap();
    for number in 1..=3 {
        commit(&store, vec![put(number, 1)]).unwrap();
    }
    // As if the last two groups had never been written.
    let lose = "DELETE FROM contact WHERE id > 1; DELETE FROM lease WHERE id > 1; \
        UPDATE revision SET count = count - 2 WHERE name = 'group'";
    postgres.sql("lost", lose);
    commit(&store, vec![put(4, 1)]).unwrap();
    commit(&store, vec![put(5, 1)]).unwrap();
    let stored = store.load().unwrap().bindings;
    assert!(stored.iter().map(|one| one.id.0).eq([1, 4, 5]));
}

/// One statement changes several names, and gives some rows new names.
#[test]
fn changes_by_other_statements_are_reported_too() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("statements"));
    let store = url.open(8);
    let both = [account("alice"), account("bob")];
    let put = both.clone().map(Change::from).to_vec();
    commit(&*store, put).unwrap();
    let news = follow(&*store);
    let told = |sql: &str, count| {
        postgres.sql("statements", sql);
        let told: Vec<AccountNews> = news.iter().take(count).collect();
        told
    };
    let named = |username: &str, name: &str| Account {
        username: name.into(),
        ..account(username)
    };
    let renamed = told(
        "UPDATE account SET username = 'b' WHERE username = 'bob'",
        2,
    );
    let gone = AccountNews::Removed {
        username: "bob".into(),
        realm: "example.com".into(),
    };
    assert_eq!(renamed, [AccountNews::Put(named("bob", "b")), gone]);
    let [alice, b] = [account("alice"), named("bob", "b")].map(|mut one| {
        one.mailbox = None;
        AccountNews::Put(one)
    });
    assert_eq!(told("UPDATE account SET mailbox = NULL", 2), [alice, b]);
    let nothing = AccountNews::Range(AccountRange::default());
    assert_eq!(told("TRUNCATE account", 1), [nothing]);
}
