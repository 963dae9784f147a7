//! Programs of two versions on one database: one that goes back finds the tables of the version after its own.

use crate::{
    postgres::Url,
    postgres_ownership::{Living, granted, rows},
    sample::{put, renew},
    support::postgres::Postgres,
    wait_until,
};
use busyhour_store::{PostgresOwnership, PostgresStore, Store, StoreError};

/// What the next version of both schemas may do: it only adds.
const NEXT: &str = "ALTER TABLE contact ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'; \
    ALTER TABLE cluster_node ADD COLUMN place TEXT; \
    UPDATE schema_version SET version = version + 1; \
    UPDATE cluster_schema_version SET version = version + 1; \
    CREATE TABLE noted AS SELECT * FROM schema_version; \
    CREATE TABLE noted_of_cluster AS SELECT * FROM cluster_schema_version";

fn holds(postgres: &Postgres, name: &str, what: &str) {
    postgres.sql(name, &format!("DO $$ BEGIN ASSERT {what}; END $$"));
}

#[test]
fn a_node_goes_on_with_a_schema_of_the_next_version() {
    let mut postgres = Postgres::start();
    let url = Url(postgres.database("next"));
    let mut alpha = Living::join(&url, "alpha");
    let [first, second] = alpha.take([7, 8]);
    let store = alpha.store(&url);
    assert_eq!(granted(&store, first, vec![put(1, 1)]), Ok(()));
    // Another node is upgraded.
    postgres.sql("next", NEXT);
    assert_eq!(granted(&store, first, vec![renew(1, 2)]), Ok(()));
    assert!(alpha.ownership.beat(alpha.member).is_ok());
    // Both connections are made anew.
    postgres.crash();
    postgres.run();
    let is_written = || granted(&store, second, vec![put(2, 1)]).is_ok();
    wait_until(is_written, || format!("{:?}", store.stats()));
    let mut ownership = alpha.ownership;
    let member = alpha.member;
    let beats = || ownership.beat(member).is_ok();
    wait_until(beats, || "no beat".to_owned());
    // Who starts with it finds what was written, and changes it.
    drop((store, ownership));
    let mut again = Living::join_when_free(&url, "alpha");
    let grants = again.take_seen([first, second]);
    let store = again.store(&url);
    assert_eq!(rows(&store).len(), 2);
    assert_eq!(
        granted(&store, grants[0], vec![put(1, 3), put(3, 1)]),
        Ok(())
    );
    assert_eq!(rows(&store).len(), 3);
    holds(
        &postgres,
        "next",
        "(SELECT count(*) FROM contact WHERE colour = 'none') = 3",
    );
    for [is, was] in [
        ["schema_version", "noted"],
        ["cluster_schema_version", "noted_of_cluster"],
    ] {
        let differs = format!("NOT EXISTS (TABLE {is} EXCEPT TABLE {was})");
        holds(&postgres, "next", &differs);
    }
}

#[test]
fn a_schema_that_needs_a_later_program_is_refused() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("later"));
    drop(PostgresOwnership::open(url.options(), Default::default()).unwrap());
    let raised = |table: &str| {
        let raise = format!("UPDATE {table} SET version = version + 1, minimum = version + 1");
        postgres.sql("later", &raise);
    };
    raised("cluster_schema_version");
    let error = PostgresOwnership::open(url.options(), Default::default());
    let error = error.err().expect("it knows one version less");
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert!(
        error.to_string().contains("use a newer busyhour"),
        "{error}"
    );
    // A server alone does not look at the tables of a cluster.
    drop(PostgresStore::open(url.options()).unwrap());
    raised("schema_version");
    let error = PostgresStore::open(url.options()).err();
    let error = error.expect("it knows one version less");
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    // A program that does not say what it takes has made this one.
    postgres.sql("later", "ALTER TABLE schema_version DROP COLUMN minimum");
    let error = PostgresStore::open(url.options()).err();
    assert!(matches!(error, Some(StoreError::Newer { .. })), "{error:?}");
}

/// Programs of before version 12 do not name the number of the connection.
#[test]
fn a_program_that_does_not_know_connections_leaves_no_number_of_another_one() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("moved"));
    let mut alpha = Living::join(&url, "alpha");
    let [grant] = alpha.take([7]);
    let store = alpha.store(&url);
    assert_eq!(granted(&store, grant, vec![put(1, 1)]), Ok(()));
    for (change, connection) in [
        ("connection = 7", 7),
        ("uri = 'sip:user1@192.0.2.1:5070'", 7),
        // Two nodes may have one number each.
        ("remote = '192.0.2.3:5062', connection = 7", 7),
        ("remote = '192.0.2.4:5062', connection = 8", 8),
        ("remote = '192.0.2.5:5062'", 0),
        ("connection = 9", 9),
        ("local = '2@tcp/192.0.2.2:5060'", 0),
        ("local = '3@tcp/192.0.2.2:5060', connection = 9", 9),
    ] {
        postgres.sql("moved", &format!("UPDATE contact SET {change}"));
        let is_so = format!("(SELECT connection FROM contact) = {connection}");
        holds(&postgres, "moved", &is_so);
    }
}
