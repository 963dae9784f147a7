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
