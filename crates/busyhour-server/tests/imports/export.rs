//! What is exported is imported as it was, and Kamailio's form as well.

use crate::world::{World, all_register};

#[test]
fn an_export_is_imported_as_it_was() {
    let world = World::new();
    let csv = world.file(
        "in.csv",
        "user,password,iax2,max_contacts,mailbox,hints,aliases,watchers\n\
         alice,\"a,\"\"b\",yes,2,100,200 201,sales,@b.example bob\nbob@a.example,of bob,,,,,,-\n",
    );
    world.device(&["import", "--create", "--dry-run", &csv]);
    let mut domain = crate::support::busyhour();
    domain
        .args(["domain", "add", "a.example", "--store-path"])
        .arg(world.place.path("busyhour.db"));
    assert!(domain.output().unwrap().status.success());
    assert_eq!(world.import(&[&csv])["added"], 2);
    let (_, before) = world.device(&["list", "--json"]);
    for format in ["csv", "json"] {
        let path = world
            .place
            .path(&format!("out.{format}"))
            .display()
            .to_string();
        let (done, said) = world.device(&["export", "--format", format, "--output", &path]);
        assert!(done && said.starts_with("2 accounts"), "{said}");
        let again = world.import(&[&path]);
        assert_eq!(again["unchanged"], 2, "{format}: {again}");
        for user in ["alice", "bob@a.example"] {
            assert!(world.device(&["remove", user]).0);
        }
        assert_eq!(world.import(&[&path])["added"], 2);
    }
    assert_eq!(world.device(&["list", "--json"]).1, before);
    let (done, kamailio) =
        world.device(&["export", "--format", "kamailio", "--domain", "a.example"]);
    assert!(
        done && kamailio.starts_with("username,domain,password,ha1,ha1b\nbob,a.example,,"),
        "{kamailio}"
    );
    assert!(world.device(&["remove", "bob@a.example"]).0);
    let subscriber = world.file("subscriber.csv", &kamailio);
    assert_eq!(world.import(&[&subscriber])["added"], 1);
    all_register(
        &world.serve(),
        &[
            ("alice@example.com", "alice", "a,\"b"),
            ("bob@a.example", "bob", "of bob"),
            ("bob@a.example", "bob@a.example", "of bob"),
        ],
    );
}

#[test]
fn a_file_with_mistakes_adds_no_domains() {
    let world = World::new();
    let subscribers = |folder: &str, rows: &str| {
        let text = format!("username,domain,password,ha1,ha1b\n{rows}");
        world.file(&format!("{folder}/subscriber.csv"), &text)
    };
    // Whether both are the same account is known once the domain is.
    let twice = subscribers("twice", "alice,c.example,one,,\nalice,C.example,two,,\n");
    let add = ["import", "--create", "--add-domains", &twice];
    let (done, said) = world.device(&add);
    assert!(!done && said.contains("is given twice"), "{said}");
    let bob = subscribers("bob", "bob,c.example,of bob,,\n");
    let (_, said) = world.device(&["import", &bob]);
    assert!(said.contains("busyhour domain add c.example"), "{said}");
    let (done, said) = world.device(&[&add[..], &["--skip-invalid"]].concat());
    assert!(done, "{said}");
    let (done, said) = world.device(&["import", &bob]);
    assert!(done, "{said}");
}

#[test]
fn an_export_of_nothing_has_its_header_and_one_of_no_domain_fails() {
    let world = World::new();
    let (done, said) = world.device(&[
        "import",
        "--create",
        "--quiet",
        &world.file("none.csv", "user,password\n"),
    ]);
    assert!(done && said.is_empty(), "{said}");
    let (done, said) = world.device(&["export"]);
    assert!(done && said.starts_with("user,password,md5,"), "{said}");
    let (done, said) = world.device(&["export", "--format", "kamailio"]);
    assert!(
        done && said == "username,domain,password,ha1,ha1b\n",
        "{said}"
    );
    let (done, said) = world.device(&["export", "--domain", "typo.example"]);
    assert!(
        !done && said.contains("`typo.example` is no domain of this server"),
        "{said}"
    );
    let hash = |digit: &str, len: usize| digit.repeat(len);
    let some = world.file(
        "some.csv",
        &format!(
            "user,md5,sha256,sha512_256\nalice,{},,\nbob,,{},\ncarol,,,{}\n",
            hash("a", 32),
            hash("b", 64),
            hash("c", 64)
        ),
    );
    let (done, said) = world.device(&["import", "--quiet", &some]);
    assert!(done && said.is_empty(), "{said}");
    let (done, said) = world.device(&["export", "--domain", "Example.com"]);
    assert!(
        done && said.lines().count() == 4,
        "the server's own: {said}"
    );
    let (done, said) = world.device(&["export", "--format", "kamailio"]);
    let rows = [
        format!("alice,example.com,,{},\n", hash("a", 32)),
        format!("bob,example.com,,{},\n", hash("b", 64)),
    ];
    assert!(!done && said.contains(&rows.concat()), "{said}");
    assert!(
        said.contains("SHA-256 alone: 1;")
            && said.contains("left out")
            && said.ends_with(": carol\n"),
        "{said}"
    );
    let path = world.place.path("quiet.csv").display().to_string();
    let (done, said) = world.device(&["export", "--quiet", "--output", &path]);
    assert!(done && said.is_empty(), "{said}");
}

/// None of the other servers has a form for a disabled account, and nobody may register there who may not do so
/// here. They are counted and named beside those that have no form for another reason.
#[test]
fn disabled_accounts_are_in_no_form_of_another_server() {
    let world = World::new();
    let md5 = "a".repeat(32);
    let csv = world.file(
        "in.csv",
        &format!(
            "user,md5,sha512_256,disabled\nalice,{md5},,no\nbob,{md5},,yes\ncarol,{md5},,yes\n\
             dave,,{},no\n",
            "d".repeat(64)
        ),
    );
    assert_eq!(world.import(&[&csv])["added"], 4);
    for (format, begin) in [
        ("kamailio", "username,domain,password,ha1,ha1b\nalice,"),
        ("asterisk", "[alice]"),
        ("freeswitch", "<include>"),
    ] {
        let (done, said) = world.device(&["export", "--format", format]);
        let (written, errors) = said.split_once("busyhour: ").expect("a message");
        assert!(!done && written.contains(begin), "{format}: {said}");
        for user in ["bob", "carol", "dave"] {
            assert!(!written.contains(user), "{format}: {said}");
        }
        let disabled = "left out 2, since they are disabled: bob, carol; left out 1, since ";
        assert!(errors.contains(disabled), "{format}: {said}");
        assert!(errors.ends_with(": dave\n"), "{format}: {said}");
    }
    // Ours have it, so nothing is left out.
    for format in ["csv", "json"] {
        let (done, said) = world.device(&["export", "--format", format]);
        assert!(
            done && said.contains("bob") && said.contains("dave"),
            "{said}"
        );
    }
}

/// What Asterisk and FreeSWITCH would read is read back as the same accounts; who may not register here
/// may not do so there.
#[test]
fn forms_of_asterisk_and_freeswitch_come_back_as_they_were() {
    let world = World::new();
    let csv = world.file(
        "in.csv",
        "user,password,iax2,max_contacts,mailbox,disabled\n\
         alice,\"a;,b\",no,2,100,no\nbob,of bob,yes,10,,no\ncarol,of carol,no,,,yes\n",
    );
    assert_eq!(world.import(&[&csv])["added"], 3);
    let domain = ["--domain", "example.com"];
    for (format, name) in [("asterisk", "pjsip.conf"), ("freeswitch", "directory.xml")] {
        let path = world.place.path(name).display().to_string();
        let export = ["export", "--format", format, "--output", &path];
        let (done, said) = world.device(&[&export[..], &domain].concat());
        assert!(
            !done && said.contains("disabled") && said.contains("carol"),
            "{said}"
        );
        for user in ["alice", "bob"] {
            assert!(world.device(&["remove", user]).0);
        }
        assert_eq!(world.import(&[&path])["added"], 2, "{format}");
        let (_, listed) = world.device(&["list", "--json"]);
        assert!(listed.contains("\"100\""), "the mailbox: {listed}");
        all_register(
            &world.serve(),
            &[
                ("alice@example.com", "alice", "a;,b"),
                ("bob@example.com", "bob", "of bob"),
            ],
        );
        // Their passwords are not known any more.
        for user in ["alice", "bob"] {
            assert!(world.device(&["remove", user]).0);
        }
        world.import(&[&csv]);
    }
    let second = world.file("second.csv", "user,password\nbob@a.example,of another\n");
    let mut domain = crate::support::busyhour();
    domain.args(["domain", "add", "a.example", "--store-path"]);
    domain.arg(world.place.path("busyhour.db"));
    assert!(domain.output().unwrap().status.success());
    assert_eq!(world.import(&[&second])["added"], 1);
    let (done, said) = world.device(&["export", "--format", "asterisk"]);
    assert!(
        !done && said.contains("`bob` is in several domains"),
        "{said}"
    );
}
