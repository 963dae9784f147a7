//! Kamailio's tables, made by its own scripts: as a database, as a dump, as CSV.

use crate::{
    support::postgres::Postgres,
    world::{World, all_register},
};
use busyhour_sip::auth::Algorithm;
use rusqlite::Connection;

/// The schema that Debian's kamailio brings, and subscribers as `kamctl add` makes them.
fn statements(database: &str) -> String {
    let schema = |name: &str| {
        let path = format!("/usr/share/kamailio/{database}/{name}-create.sql");
        std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{path}: {error}; scripts/install-deps.sh installs Kamailio")
        })
    };
    let tables = ["standard", "auth_db", "alias_db", "usrloc"].map(schema);
    let hash = |parts: &[&str]| {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        Algorithm::Md5.hash(&parts).to_string()
    };
    let row = |user: &str, domain: &str, password: &str, is_shown: bool| {
        let ha1 = hash(&[user, domain, password]);
        let ha1b = hash(&[&format!("{user}@{domain}"), domain, password]);
        let shown = if is_shown { password } else { "" };
        format!(
            "INSERT INTO subscriber (username, domain, password, ha1, ha1b) VALUES \
             ('{user}', '{domain}', '{shown}', '{ha1}', '{ha1b}');\n"
        )
    };
    let rows = [
        row("alice", "a.example", "its old", false),
        row("bob", "a.example", "of bob", true),
        row("alice", "b.example", "of b", false),
        row("carol", "example.com", "of carol", true),
    ];
    let alias = "INSERT INTO dbaliases (alias_username, alias_domain, username, domain) VALUES \
        ('sales', 'a.example', 'bob', 'a.example');\n";
    [&tables.concat(), &rows.concat(), alias].concat()
}

const TELEPHONES: [(&str, &str, &str); 5] = [
    ("alice@a.example", "alice", "its old"),
    ("alice@a.example", "alice@a.example", "its old"),
    ("bob@a.example", "bob", "of bob"),
    ("alice@b.example", "alice", "of b"),
    ("carol@example.com", "carol", "of carol"),
];

#[test]
fn subscribers_of_a_sqlite_database_register_with_their_old_passwords() {
    let world = World::new();
    let database = world.place.path("kamailio.sqlite");
    let connection = Connection::open(&database).unwrap();
    connection.execute_batch(&statements("db_sqlite")).unwrap();
    drop(connection);
    let path = database.display().to_string();
    let (done, said) = world.device(&["import", "--create", &path]);
    assert!(
        !done && said.contains("`a.example` is no domain of this server"),
        "{said}"
    );
    assert!(said.contains("kamailio.sqlite: subscriber row 1"), "{said}");
    let dry = world.import(&["--add-domains", "--dry-run", &path]);
    assert_eq!(
        (&dry["added"], &dry["dry_run"]),
        (&4.into(), &true.into()),
        "{dry}"
    );
    assert_eq!(dry["changes"][0], "+ alice@a.example");
    assert!(world.device(&["list"]).1.contains("0 devices"));
    let report = world.import(&["--add-domains", &path]);
    assert_eq!(
        report["domains"],
        serde_json::json!(["a.example", "b.example"]),
        "{report}"
    );
    let again = world.import(&["--add-domains", &path]);
    assert_eq!(
        (&again["unchanged"], &again["changed"]),
        (&4.into(), &0.into()),
        "{again}"
    );
    let server = world.serve();
    all_register(&server, &TELEPHONES);
    let bindings = server.get("/api/v1/bindings/sip:sales@a.example");
    assert!(
        bindings.contains("sip:bob@a.example"),
        "the alias: {bindings}"
    );
}

#[test]
fn subscribers_of_a_dump_register_and_bad_rows_are_named() {
    let world = World::new();
    let bad = "INSERT INTO subscriber (username, domain, password, ha1) VALUES\n\
        ('no password', 'a.example', '', ''),\n('dave', 'a.example', '', 'short');\n";
    let dump = statements("db_sqlite") + bad;
    let path = world.file("kamailio.sql", &dump);
    let line = dump.lines().count();
    let (done, said) = world.device(&["import", "--create", "--add-domains", &path]);
    let empty = format!(
        "kamailio.sql: line {}: it has neither password nor ha1",
        line - 1
    );
    let short = format!("kamailio.sql: line {line}: md5: give 32 hexadecimal digits");
    assert!(
        !done && said.contains(&empty) && said.contains(&short),
        "{said}"
    );
    let report = world.import(&["--add-domains", "--skip-invalid", &path]);
    assert_eq!(
        (&report["devices"], &report["skipped"]),
        (&4.into(), &2.into()),
        "{report}"
    );
    all_register(&world.serve(), &TELEPHONES);
}

#[test]
fn subscribers_of_a_postgresql_database_register() {
    let world = World::new();
    let postgres = Postgres::start();
    let url = postgres.database("kamailio");
    let mut client = ::postgres::Client::connect(&url, ::postgres::NoTls).unwrap();
    client.batch_execute(&statements("postgres")).unwrap();
    let report = world.import(&["--add-domains", &url]);
    assert_eq!(report["devices"], 4, "{report}");
    all_register(&world.serve(), &TELEPHONES[..3]);
}

#[test]
fn a_hash_of_another_realm_is_refused_with_what_to_do() {
    let world = World::new();
    let hash = "0".repeat(32);
    let csv = format!("username,domain,password,ha1\nzoe,example.com,,{hash}\nyan,,,{hash}\n");
    let path = world.file("subscriber.csv", &csv);
    assert_eq!(
        world.import(&[&path])["devices"],
        2,
        "the realm is the domain"
    );
    let objects = world.file(
        "ps_auths.csv",
        &format!("id,auth_type,username,md5_cred,realm\nzoe,md5,zoe,{hash},pbx\n"),
    );
    let (done, said) = world.device(&["import", &objects]);
    assert!(
        !done && said.contains("ps_auths.csv: line 2: its hash is for the realm `pbx`"),
        "{said}"
    );
    let report = world.import(&["--domain", "pbx.example", "--add-domains", &objects]);
    assert_eq!(report["added"], 1, "{report}");
    let (_, shown) = world.device(&["list"]);
    assert!(shown.contains("zoe@pbx.example"), "{shown}");
}
