//! PostgreSQL with a certificate, and passwords that are in no command-line
//! argument.

use crate::{
    sample::{commit, put},
    support::{Place, busyhour, postgres::Postgres},
};
use busyhour_store::{PostgresOptions, PostgresStore};
use rcgen::generate_simple_self_signed;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

#[test]
fn each_mode_checks_what_it_promises() {
    let database = Database::new();
    let (right, wrong) = (Some("right.pem"), Some("wrong.pem"));
    for (host, mode, roots, is_secret) in [
        ("localhost", "verify-full", right, true),
        // The certificate is for another name.
        ("127.0.0.1", "verify-ca", right, true),
        ("127.0.0.1", "require", right, true),
        ("127.0.0.1", "require", None, true),
        ("127.0.0.1", "prefer", None, true),
        ("127.0.0.1", "disable", None, false),
    ] {
        let store = database.open(host, mode, roots);
        let store = store.unwrap_or_else(|error| panic!("{mode}: {error}"));
        commit(&store, vec![put(1, 1)]).unwrap();
        database.assert_secret(is_secret, mode);
    }
    for (host, mode, roots, problem) in [
        (
            "localhost",
            "verify-full",
            wrong,
            "has signed the database's",
        ),
        ("localhost", "verify-ca", wrong, "has signed the database's"),
        ("localhost", "require", wrong, "has signed the database's"),
        ("127.0.0.1", "verify-full", right, "not valid for name"),
    ] {
        let error = database.open(host, mode, roots).err();
        let error = error.unwrap_or_else(|| panic!("{mode} accepted the certificate"));
        assert!(error.contains(problem), "{mode}: {error}");
    }
}

#[test]
fn a_url_with_an_address_alone_is_enough() {
    let database = Database::new();
    let url = database.postgres.tcp_url("tls");
    let port = url.rsplit_once('@').unwrap().1;
    let port = port.split(['/', ':']).nth(1).unwrap();
    let url = format!("postgres://busyhour@/tls?hostaddr=127.0.0.1&port={port}");
    let store = PostgresStore::open(PostgresOptions::new(&url).unwrap());
    let _store = store.unwrap_or_else(|error| panic!("{error}"));
    database.assert_secret(true, "prefer");
}

#[test]
fn the_users_own_root_certificates_count_where_tls_is_required() {
    let database = Database::new();
    fs::create_dir(database.place.path(".postgresql")).unwrap();
    let list = |roots: &str| {
        let own = database.place.path(".postgresql/root.crt");
        fs::copy(database.place.path(roots), own).unwrap();
        let url = format!("{}?sslmode=require", database.postgres.tcp_url("tls"));
        let mut command = busyhour();
        command.args(["device", "list", "--store-url", &url]);
        said(command.env("HOME", database.place.path("")))
    };
    drop(database.open("127.0.0.1", "require", None).unwrap());
    let (is_done, words) = list("wrong.pem");
    assert!(!is_done && words.contains("has signed"), "{words}");
    let (is_done, words) = list("right.pem");
    assert!(is_done, "{words}");
}

#[test]
fn a_database_without_a_certificate_is_accepted_where_none_is_required() {
    let postgres = Postgres::start_on_tcp();
    postgres.database("plain");
    let open = |mode: &str| {
        let url = format!("{}?sslmode={mode}", postgres.tcp_url("plain"));
        PostgresStore::open(PostgresOptions::new(&url).unwrap()).map_err(|error| error.to_string())
    };
    drop(open("prefer").unwrap());
    let error = open("require")
        .err()
        .expect("the connection is not encrypted");
    assert!(error.contains("server does not support TLS"), "{error}");
}

#[test]
fn no_password_needs_to_be_in_an_argument() {
    let postgres = Postgres::start_on_tcp();
    postgres.database("secret");
    postgres.require_password("for:few");
    let place = Place::new();
    let url = postgres.tcp_url("secret");
    let port = url.rsplit_once('@').unwrap().1;
    let port = port.split(['/', ':']).nth(1).unwrap();
    let passwords = place.file(
        "pgpass",
        &format!("127.0.0.1:{port}:secret:busyhour:for\\:few\n"),
    );
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o600)).unwrap();
    let file = place.file("url", &format!("{url}\n"));
    let add = |user: &str, passwords: &Path| {
        let mut command = busyhour();
        command.args(["device", "add", user, "--create", "--md5", MD5]);
        command.arg("--store-url-file").arg(&file);
        said(command.env("PGPASSFILE", passwords))
    };
    let (is_done, words) = add("alice", &passwords);
    assert!(is_done, "{words}");
    let (is_done, words) = add("bob", &place.path("nobody"));
    assert!(!is_done && words.contains("password"), "{words}");
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o644)).unwrap();
    let (is_done, words) = add("bob", &passwords);
    assert!(!is_done, "other users may read the file: {words}");
}

#[test]
fn a_password_in_an_argument_gives_a_warning_and_a_file_without_a_url_an_error() {
    let place = Place::new();
    let check = |arguments: &[&str]| {
        let mut command = busyhour();
        said(command.arg("check-config").args(arguments))
    };
    let (is_good, words) = check(&["--store-url", "postgres://busyhour:few@db/d"]);
    assert!(
        is_good && words.contains("give --store-url-file FILE"),
        "{words}"
    );
    assert!(!words.contains("few@"), "{words}");
    let (is_good, words) = check(&["--store-url", "postgres://busyhour@db/d"]);
    assert!(is_good && !words.contains("--store-url-file"), "{words}");
    let file = place.file("url", "postgres://busyhour:few@db/d?sslmode=always");
    let (is_good, words) = check(&["--store-url-file", file.to_str().unwrap()]);
    assert!(
        !is_good && words.contains("sslmode: `always` is not allowed"),
        "{words}"
    );
    let (is_good, words) = check(&["--store-url-file", "/no/such/file"]);
    assert!(
        !is_good && words.contains("/no/such/file: No such file"),
        "{words}"
    );
}

#[test]
fn commands_warn_of_a_password_in_an_argument_too() {
    for words in [["device", "list"], ["token", "list"]] {
        let mut command = busyhour();
        let url = "postgres://busyhour:few@127.0.0.1:1/d";
        let (_, said) = said(command.args(words).args(["--store-url", url]));
        let is_warned = said.contains("warning: --store-url: every user");
        assert!(is_warned && !said.contains("few"), "{words:?}: {said}");
    }
}

#[test]
fn a_mistake_in_a_url_is_reported_without_the_url() {
    let place = Place::new();
    for (url, words) in [
        (
            "postgres://bh:s3cret@db/bh?sslmode=verify_full",
            "sslmode: `verify_full` is not allowed; give one of: disable",
        ),
        // These mistakes are in the characters that separate the password from
        // the rest.
        ("postgres:/bh:s3cret@db/bh", "give postgres://USER"),
        ("postgres://bh:s3cret/bh:x", "give postgres://USER"),
        ("host=db password=s3cret", "give postgres://USER"),
        ("postgres://bh@db/bh?pasword=s3cret", "give postgres://USER"),
        (
            "postgres://db/bh?sslmode=require;password=s3cret",
            "sslmode: this is not allowed",
        ),
    ] {
        let config = place.file("f.toml", &format!("[store]\nurl = \"{url}\"\n"));
        let named = place.file("url", url);
        for (arguments, variable) in [
            (vec!["--store-url", url], None),
            (vec!["--store-url-file", named.to_str().unwrap()], None),
            (vec![config.to_str().unwrap()], None),
            (vec![], Some(url)),
        ] {
            let mut command = busyhour();
            command.arg("check-config").args(&arguments);
            command.envs(variable.map(|url| ("BUSYHOUR_STORE_URL", url)));
            let (is_good, said) = said(&mut command);
            assert!(!is_good && said.contains(words), "{said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
    }
}

#[test]
fn a_url_where_a_path_should_be_is_not_shown() {
    for flag in ["--store-url-file", "--store-path"] {
        let mut command = busyhour();
        command.args(["check-config", flag, "postgres://bh:s3cret@db/bh"]);
        let (is_good, said) = said(&mut command);
        assert!(!is_good && said.contains("give the path of"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let place = Place::new();
    let text = "[store]\nurl = { password = \"s3cret\" }\n[[account]]\nuser = \"a\"\n\
        password = [\"s3cret\"]\n[[token]]\nsha256 = \"s3cret\"\n";
    for text in [text, "[[account]]\npassword = s3cret\n", "s3cret\n"] {
        let file = place.file("f.toml", text);
        let mut command = busyhour();
        command.arg("check-config").arg(file);
        let (is_good, said) = said(&mut command);
        assert!(
            said.contains("f.toml:1:") || said.contains("f.toml:2:"),
            "{said}"
        );
        assert!(!is_good && !said.contains("s3cret"), "{said}");
    }
}

/// A database with a certificate for `localhost`.
struct Database {
    postgres: Postgres,
    place: Place,
}

impl Database {
    fn new() -> Self {
        let make = || generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (own, other) = (make(), make());
        let place = Place::new();
        place.file("right.pem", &own.cert.pem());
        place.file("wrong.pem", &other.cert.pem());
        let key = own.signing_key.serialize_pem();
        let postgres = Postgres::start_on_tls(&own.cert.pem(), &key);
        postgres.database("tls");
        Self { postgres, place }
    }

    fn open(&self, host: &str, mode: &str, roots: Option<&str>) -> Result<PostgresStore, String> {
        let mut url = self.postgres.tcp_url("tls").replace("127.0.0.1", host);
        url.push_str(&format!("?sslmode={mode}"));
        if let Some(roots) = roots {
            url.push_str(&format!(
                "&sslrootcert={}",
                self.place.path(roots).display()
            ));
        }
        PostgresStore::open(PostgresOptions::new(&url)?).map_err(|error| error.to_string())
    }

    /// Whether the store's connection is encrypted.
    fn assert_secret(&self, is_secret: bool, mode: &str) {
        let not = if is_secret { "" } else { "NOT" };
        println!("{mode}");
        // Without such a session, the division fails and the statement returns
        // an error.
        let sql = format!(
            "SELECT 1 / count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
             WHERE application_name = 'busyhour' AND {not} ssl"
        );
        self.postgres.sql("tls", &sql);
    }
}

/// Whether a command succeeded, and what it printed.
fn said(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8(words).unwrap();
    (output.status.success(), words)
}

/// The MD5 form of a password that no test uses.
const MD5: &str = "00112233445566778899aabbccddeeff";
