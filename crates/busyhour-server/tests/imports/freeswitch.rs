//! FreeSWITCH's directory: variables, includes, hashes.

use crate::world::{World, all_register};
use busyhour_sip::auth::Algorithm;

#[test]
fn the_users_of_a_directory_register_with_their_old_passwords() {
    let world = World::new();
    let hash = Algorithm::Md5.hash(&[b"1001", b"fs.example", b"of 1001"]);
    world.file(
        "directory/default/1000.xml",
        "<include>\n  <user id=\"1000\" number-alias=\"100\" mailbox=\"900\">\n    <params>\n      \
         <param name=\"password\" value=\"$${default_password}\"/>\n      <param name=\"vm-password\" value=\"1\"/>\n    \
         </params>\n  </user>\n</include>\n",
    );
    world.file(
        "directory/default/1001.xml",
        &format!(
            "<user id=\"1001\"><params><param name=\"a1-hash\" value=\"{hash}\"/></params></user>\n"
        ),
    );
    world.file("directory/default/1002.xml", "\n<user id=\"1002\"/>\n");
    world.file(
        "directory/default.xml",
        "<include>\n<X-PRE-PROCESS cmd=\"set\" data=\"default_password=of 1000\"/>\n\
         <X-PRE-PROCESS cmd=\"set\" data=\"domain=fs.example\"/>\n<domain name=\"$${domain}\">\n\
         <params><param name=\"dial-string\" value=\"x\"/></params>\n<groups><group name=\"default\"><users>\n\
         <X-PRE-PROCESS cmd=\"include\" data=\"default/*.xml\"/>\n</users></group>\n\
         <group name=\"sales\"><users><user id=\"1000\" type=\"pointer\"/></users></group></groups>\n\
         </domain></include>\n",
    );
    let folder = world.place.path("directory").display().to_string();
    let (done, said) = world.device(&["import", "--create", "--add-domains", &folder]);
    let expected = "1002.xml: line 2: it has neither the param password nor a1-hash";
    assert!(!done && said.contains(expected), "{said}");
    let report = world.import(&["--add-domains", "--skip-invalid", &folder]);
    assert_eq!(
        report["changes"],
        serde_json::json!(["+ 1000@fs.example", "+ 1001@fs.example"])
    );
    let server = world.serve();
    all_register(
        &server,
        &[
            ("1000@fs.example", "1000", "of 1000"),
            ("1001@fs.example", "1001", "of 1001"),
            ("100@fs.example", "1000", "of 1000"),
        ],
    );
    let broken = world.file("broken.xml", "<include>\n<user id=\"1\">\n</include>");
    let (done, said) = world.device(&["import", &broken]);
    assert!(
        !done && said.contains("broken.xml: ") && said.contains("3:"),
        "{said}"
    );
}

#[test]
fn variables_of_one_file_are_known_in_all() {
    let world = World::new();
    let vars = world.file(
        "freeswitch/vars.xml",
        "<include>\n<X-PRE-PROCESS cmd=\"set\" data=\"default_password=of 1000\"/>\n\
         <X-PRE-PROCESS cmd=\"set\" data=\"domain=$${local_ip_v4}\"/>\n</include>\n",
    );
    let user = |id: &str, password: &str| {
        format!(
            "<user id=\"{id}\"><params><param name=\"password\" value=\"{password}\"/></params></user>\n"
        )
    };
    let users = user("1000", "$${default_password}") + &user("1001", "of 1001");
    let directory = world.file(
        "freeswitch/directory/default.xml",
        &format!("<include><domain name=\"$${{domain}}\">\n{users}</domain></include>"),
    );
    let (done, said) = world.device(&["import", "--create", &directory]);
    let unset =
        "default.xml: line 2: password: no file that was read sets the variable `default_password`";
    assert!(!done && said.contains(unset), "{said}");
    // FreeSWITCH knows its own address, and nobody else does.
    let (done, said) = world.device(&["import", "--create", &directory, &vars]);
    let unset = "line 2: its domain: no file that was read sets the variable `local_ip_v4`";
    assert!(
        !done && said.contains(unset) && said.contains("--domain"),
        "{said}"
    );
    let folder = world
        .place
        .path("freeswitch/directory")
        .display()
        .to_string();
    let of_example = ["--domain", "example.com"];
    for sources in [[&directory, &vars], [&folder, &vars]] {
        let (done, _) = world.device(&["remove", "1000", "1001"]);
        let report = world.import(&[&of_example[..], &[sources[0], sources[1]]].concat());
        assert_eq!(report["added"], 2, "{done}: {report}");
    }
    all_register(&world.serve(), &[("1000@example.com", "1000", "of 1000")]);
}

#[test]
fn a_whole_configuration_has_users_in_its_directory_only() {
    let world = World::new();
    world.file(
        "freeswitch/dialplan/default.xml",
        "<include><user id=\"9\"/></include>",
    );
    world.file(
        "freeswitch/directory/a.xml",
        "<include><user id=\"1000\"><params><param name=\"password\" value=\"x\"/></params></user></include>",
    );
    let whole = world.file(
        "freeswitch/freeswitch.xml",
        "<?xml version=\"1.0\"?>\n<document type=\"freeswitch/xml\">\n\
         <section name=\"dialplan\"><X-PRE-PROCESS cmd=\"include\" data=\"dialplan/*.xml\"/></section>\n\
         <section name=\"directory\"><X-PRE-PROCESS cmd=\"include\" data=\"directory/*.xml\"/></section>\n\
         </document>\n",
    );
    let report = world.import(&[&whole]);
    assert_eq!(report["changes"], serde_json::json!(["+ 1000"]));
    let missing = world.file(
        "missing.xml",
        "<include>\n<X-PRE-PROCESS cmd=\"include\" data=\"not/there.xml\"/></include>",
    );
    let (done, said) = world.device(&["import", &missing]);
    let expected = "missing.xml: line 2: `not/there.xml` is not there";
    assert!(!done && said.contains(expected), "{said}");
    let deep = ["<a>".repeat(200_000), "</a>".repeat(200_000)].concat();
    let deep = world.file("deep.xml", &deep);
    let (done, said) = world.device(&["import", &deep]);
    assert!(!done && said.contains("deep.xml: "), "{said}");
}
