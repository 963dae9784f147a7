//! Asterisk's `pjsip.conf` with templates, inheritance and includes; and its tables.

use crate::world::{CONFIGURATION, World, all_register};
use busyhour_sip::auth::Algorithm;
use std::{
    net::UdpSocket,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

#[test]
fn the_users_of_pjsip_conf_register_with_their_old_passwords() {
    let world = World::new();
    let hash = Algorithm::Md5.hash(&[b"carol", b"example.com", b"of carol"]);
    world.file(
        "asterisk/pjsip.d/carol.conf",
        &format!(
            "[carol](phone)\nauth = carol-auth\naors = carol\n\
             [carol-auth]\ntype=auth\nauth_type=md5\nusername=carol\nmd5_cred={hash}\nrealm=example.com\n\
             [carol]\ntype=aor\nmax_contacts=3\nmailboxes=200@default\n"
        ),
    );
    let path = world.file(
        "asterisk/pjsip.conf",
        "; the site\n[transport-udp]\ntype=transport\n[phone](!)\ntype=endpoint\ncontext=from-inside ; all\n\
         [auth](!)\ntype => auth\nauth_type = userpass\n\
         [alice](phone)\nauth=alice\naors=alice\n[alice](auth)\nusername=alice\npassword=semi\\;colon\n\
         [alice]\ntype=aor\nmax_contacts=2\n\
         ;-- a comment\n[mallory](auth)\npassword=x\n--;\n\
         [bob](phone)\nauth=bob-auth\naors=100\n[bob-auth](auth)\nusername=bob\n[bob-auth](+)\npassword=of bob\n\
         [100]\ntype=aor\n\
         [trunk](phone)\noutbound_auth=trunk-auth\n[trunk-auth](auth)\nusername=us\npassword=theirs\n\
         #include \"pjsip.d/*.conf\"\n",
    );
    let report = world.import(&[&path]);
    assert_eq!(
        report["changes"],
        serde_json::json!(["+ alice", "+ bob", "+ carol"]),
        "{report}"
    );
    let (_, shown) = world.device(&["list", "--json"]);
    for expected in [
        "\"max_contacts\": 2",
        "\"mailbox\": \"200@default\"",
        "\"aliases\": [\n        \"100\"",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    all_register(
        &world.serve(),
        &[
            ("alice@example.com", "alice", "semi;colon"),
            ("100@example.com", "bob", "of bob"),
            ("carol@example.com", "carol", "of carol"),
        ],
    );
}

#[test]
fn mistakes_of_pjsip_conf_name_their_file_and_line() {
    let world = World::new();
    for (text, expected) in [
        (
            "[a](nobody)\ntype=auth\n",
            "bad.conf: line 1: there is no template [nobody]",
        ),
        (
            "\n#include other.conf\n",
            "bad.conf: line 2: `other.conf` is not there",
        ),
        (
            "#include \"missing.d/*.conf\"\n",
            "bad.conf: line 1: `missing.d/*.conf` is not there",
        ),
        ("#include \"*/bad.conf\"\n", "bad.conf: line 1: `"),
        ("#exec date\n", "bad.conf: line 1: #exec is not run"),
        (
            "[a](+)\n",
            "bad.conf: line 1: there is no section [a] to add to",
        ),
        (
            "[a]\ntype=auth\nusername=a\n",
            "bad.conf: line 1: it has neither password nor md5_cred",
        ),
        ("#include bad.conf\n", "files include each other"),
    ] {
        let path = world.file("bad.conf", text);
        let (done, said) = world.device(&["import", "--create", &path]);
        assert!(!done && said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn the_tables_of_asterisk_register() {
    let world = World::new();
    let dump = world.file(
        "asterisk.sql",
        "INSERT INTO ps_auths (id, auth_type, username, password) VALUES ('200-auth','userpass','200','of 200');\n\
         INSERT INTO ps_endpoints (id, aors, auth) VALUES ('200','200','200-auth');\n\
         INSERT INTO ps_aors (id, max_contacts) VALUES ('200', 4);\n",
    );
    assert_eq!(world.import(&[&dump])["added"], 1);
    all_register(&world.serve(), &[("200@example.com", "200", "of 200")]);
}

/// The next start has them, as contacts that are asked before they are believed.
#[test]
fn the_contacts_of_asterisk_are_called_from_the_address_that_they_know() {
    let world = World::new();
    let telephone = UdpSocket::bind("127.0.0.1:0").unwrap();
    telephone.set_read_timeout(Some(LONG)).unwrap();
    let outside = telephone.local_addr().unwrap();
    let ends_at = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 3600;
    let dump = world.file(
        "asterisk.sql",
        &format!(
            "INSERT INTO ps_auths (id, auth_type, username, password) VALUES ('200-auth','userpass','alice','of 200');\n\
             INSERT INTO ps_endpoints (id, aors, auth) VALUES ('200','200','200-auth');\n\
             INSERT INTO ps_aors (id, max_contacts) VALUES ('200', 4);\n\
             INSERT INTO ps_contacts (id, uri, expiration_time, path, user_agent, call_id, endpoint, prune_on_boot) VALUES \
             ('200^3B@1','sip:200@{outside}^3Bx-ast-orig-host=10.0.0.5:5070',{ends_at},'','phone','c1','200','no'),\
             ('200^3B@2','sip:200@{outside}^3Btransport=TCP',{ends_at},'','phone','c2','200','yes'),\
             ('200^3B@3','sip:200@192.0.2.77:5060',1000000000,'','phone','c3','200','no');\n"
        ),
    );
    let anywhere = format!("{CONFIGURATION}listen = \"0.0.0.0:5060\"\n");
    world.file("busyhour.toml", &anywhere);
    let (done, said) = world.device(&["import", "--create", "--contacts", &dump]);
    assert!(!done && said.contains("--socket"), "{said}");
    world.file("busyhour.toml", CONFIGURATION);
    // The address of the other server, which has ended.
    let socket = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let socket_text = socket.to_string();
    let report = world.import(&["--contacts", "--socket", &socket_text, &dump]);
    let expected = serde_json::json!({"taken": 1, "unchanged": 0, "ended": 1, "connected": 1});
    assert_eq!(report["contacts"], expected, "{report}");
    let _server = world.serve_at(socket);
    let mut question = [0; 2000];
    let (len, from) = telephone.recv_from(&mut question).unwrap();
    let question = String::from_utf8_lossy(&question[..len]);
    assert!(
        question.starts_with("OPTIONS sip:200@10.0.0.5:5070 "),
        "{question}"
    );
    assert_eq!(from, socket);
}

#[test]
fn sections_of_all_files_are_seen_together() {
    let world = World::new();
    let endpoints = world.file(
        "asterisk/pjsip.conf",
        "[phone](!)\ntype=endpoint\n#tryinclude \"missing.d/*.conf\"\n#include \"pjsip.d/nested.conf\"\n\
         [alice](phone)\nauth=alice\naors=alice\n[trunk](phone)\noutbound_auth=trunk\n",
    );
    // Asterisk looks for what files include in its own folder, wherever they are.
    world.file(
        "asterisk/pjsip.d/nested.conf",
        "#include \"pjsip.d/deeper.conf\"\n",
    );
    let deeper = world.file(
        "asterisk/pjsip.d/deeper.conf",
        "[bob](phone)\nauth=bob\naors=bob\n[bob]\ntype=auth\nusername=bob\npassword=of bob\n",
    );
    let auths = world.file(
        "asterisk/pjsip_auth.conf",
        "[alice]\ntype=auth\nusername=alice\npassword=of alice\n\
         [trunk]\ntype=auth\nusername=us\npassword=theirs\n",
    );
    let report = world.import(&[&endpoints, &auths, &deeper]);
    let expected = serde_json::json!(["+ bob", "+ alice"]);
    assert_eq!(
        report["changes"], expected,
        "a trunk is no account: {report}"
    );
}

#[test]
fn what_comes_on_standard_input_is_found_out() {
    let world = World::new();
    let texts = [
        (
            "[alice]\ntype=auth\nusername=alice\npassword=of alice\n",
            "alice",
        ),
        (
            "CREATE TABLE ps_auths (id TEXT);\nINSERT INTO ps_auths (id, username, password) \
             VALUES ('bob', 'bob', 'of bob');\n",
            "bob",
        ),
        ("user,password\ncarol,of carol\n", "carol"),
        ("[{\"user\": \"dave\", \"password\": \"x\"}]", "dave"),
        (
            "<user id=\"erin\"><params><param name=\"password\" value=\"x\"/></params></user>",
            "erin",
        ),
        (
            "username,domain,password\nfrank,example.com,of frank\n",
            "frank",
        ),
    ];
    for (text, user) in texts {
        let (done, said) = world.device_reads(&["import", "--create", "-"], text);
        assert!(done, "{user}: {said}");
        let (done, said) = world.device(&["show", user]);
        assert!(done, "{user}: {said}");
    }
    let (done, said) = world.device_reads(&["import", "-"], "nothing\n");
    let expected = "standard input: the format of the file is unknown";
    assert!(!done && said.contains(expected), "{said}");
    let (done, said) = world.device_reads(&["import", "-"], "SQLite format 3\0");
    assert!(!done && said.contains("read from its file"), "{said}");
}

#[test]
fn tables_of_two_servers_are_told_apart() {
    let world = World::new();
    let both = world.file(
        "both.sql",
        "INSERT INTO ps_auths (id, username, password) VALUES ('bob', 'bob', 'of bob');\n\
         INSERT INTO subscriber (username, password) VALUES ('alice', 'of alice');\n",
    );
    let (done, said) = world.device(&["import", "--create", &both]);
    assert!(
        !done && said.contains("give --from kamailio or --from asterisk"),
        "{said}"
    );
    for (from, user) in [("kamailio", "+ alice"), ("asterisk", "+ bob")] {
        let report = world.import(&["--from", from, &both]);
        assert_eq!(report["changes"], serde_json::json!([user]), "{from}");
    }
    let own = world.file("own.csv", "user,password\nerin,x\n");
    let (done, said) = world.device(&["import", &both, &own]);
    assert!(!done && said.contains("are of different servers"), "{said}");
    let missing = world.place.path("missing.sql").display().to_string();
    let (done, said) = world.device(&["import", &missing]);
    assert!(
        !done && said.contains("missing.sql: No such file"),
        "{said}"
    );
    let empty = world.file("empty.sql", "SELECT 1;\n");
    let (done, said) = world.device(&["import", &empty]);
    assert!(
        !done && said.contains("neither a table subscriber nor"),
        "{said}"
    );
}

/// Contacts are asked within a minute after the start; the server on a busy machine may start late.
const LONG: Duration = Duration::from_secs(120);
