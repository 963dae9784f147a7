//! Every mistake in a configuration or an import is reported at once, with its
//! place.

use crate::support::{Place, ServerProcess, busyhour};
use std::process::Command;

/// The lines that a failing command prints about its input, without the first
/// one.
fn mistakes(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let lines = said
        .lines()
        .map(|line| line.strip_prefix("busyhour: ").expect(line));
    lines.map(str::to_owned).collect()
}

/// Checks that each line begins as expected, and that there are no more lines.
fn assert_lines(found: &[String], expected: &[&str]) {
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}\ninstead of\n{expected}");
    }
}

#[test]
fn no_mistake_of_a_configuration_hides_another() {
    let place = Place::new();
    let text = "[sip]\nlisten = \"nowhere\"\nmin_expires_seconds = 4000\n\
        [[account]]\nuser = \"alice\"\n\
        [[account]]\nuser = \"b b\"\npassword = \"x\"\nmd5 = \"y\"\npasword = \"z\"\nrealm = \"r\"\n\
        [[account]]\nuser = \"carol\"\npassword = \"x\"\nsha256 = \"";
    let hash = "0".repeat(64);
    let rest = "\"\n[[hint]]\nextension = \"1 0\"\ndevices = [\"alice\"]\n\
        [[hint]]\nextension = \"100\"\ndevices = []\n[[account_range]]\nprefix = \"\"\n\
        count = 0\npassword = \"\"\n";
    let file = place.file("bad.toml", &format!("{text}{hash}{rest}"));
    let found = mistakes(
        busyhour()
            .arg("check-config")
            .arg(&file)
            .env("BUSYHOUR_LOG_LEVL", "x"),
    );
    let at = |place: &str| format!("bad.toml:{place}");
    let expected = [
        at("2:10: sip.listen: `nowhere` is not allowed"),
        at("4:1: account: give a password, or hashes"),
        at("6:1: account: `b b` is not a user name"),
        at("6:1: account: give either password or hashes"),
        at("6:1: account: md5: give 32 hexadecimal digits"),
        at("10:1: account: unknown field `pasword`"),
        at("11:1: account: unknown field `realm`"),
        at("12:1: account: give either password or hashes"),
        at("22:1: account_range: count"),
        at("22:1: account_range: `` is not a user name"),
        at("22:1: account_range: password: give at least one"),
        at("3:23: sip.min_expires_seconds (4000) must not be more than"),
        at("16:1: hint `1 0`: an extension is"),
        at("19:1: hint `100`: a hint has 1 to 64 devices"),
        "BUSYHOUR_LOG_LEVL: unknown setting (did you mean BUSYHOUR_LOG_LEVEL?)".to_owned(),
    ];
    let folder = place.path("").display().to_string();
    let mut found: Vec<String> = found.iter().map(|line| line.replace(&folder, "")).collect();
    let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_lines(&found, &expected);
}

/// If a value has the wrong type, the other mistakes of its entry are reported all
/// the same; a misspelt name is reported once; and the second of two equal names is
/// reported whatever else is wrong with it.
#[test]
fn no_mistake_of_an_entry_hides_another() {
    let place = Place::new();
    let text = "[[account]]\nuser = 7\npassword = 8\nmailbox = \"m m\"\n\
        [[account]]\nuser = \"alice\"\npasword = \"secret\"\n\
        [[account]]\nuser = \"alice\"\npassword = [\"secret\"]\nmd5 = \"\"\n\
        [[account_range]]\nprefix = true\ncount = 0\ndigits = \"2\"\n\
        [[token]]\nname = \"\"\nscope = 1\nsha256 = \"00\"\n\
        [[hint]]\nextension = \"1 0\"\ndevices = \"alice\"\n\
        [[hint]]\nextension = \"1 1\"\ndevices = []\n\
        [[hint]]\nextensoin = \"101\"\ndevices = [\"sip:a b\", \"sip:c d\"]\n";
    let file = place.file("bad.toml", text);
    let found = mistakes(busyhour().arg("check-config").arg(&file));
    assert_lines(
        &found,
        &[
            "bad.toml:1:1: account: mailbox: `m m`",
            "bad.toml:2:8: account: user: found integer; give a text in quotes",
            "bad.toml:3:12: account: password: found integer; give a text",
            "bad.toml:7:1: account: unknown field `pasword` (did you mean password?)",
            "bad.toml:8:1: account: user `alice` already exists",
            "bad.toml:8:1: account: md5: give 32 hexadecimal digits",
            "bad.toml:8:1: account: give either password or hashes",
            "bad.toml:10:12: account: password: found array; give a text",
            "bad.toml:12:1: account_range: count: give a whole number from 1",
            "bad.toml:12:1: account_range: password is missing",
            "bad.toml:13:10: account_range: prefix: found boolean; give a text",
            "bad.toml:15:10: account_range: digits: found string; give a whole number",
            "bad.toml:16:1: token: name: give 1 to 64 characters",
            "bad.toml:16:1: token: sha256: give 64 hexadecimal digits",
            "bad.toml:18:9: token: scope: found integer; give a text",
            "bad.toml:22:11: hint: devices: found string; give texts",
            "bad.toml:27:1: hint: unknown field `extensoin` (did you mean extension?)",
            "bad.toml:20:1: hint `1 0`: an extension is",
            "bad.toml:23:1: hint `1 1`: an extension is",
            "bad.toml:23:1: hint `1 1`: a hint has 1 to 64 devices",
            "bad.toml:26:1: hint: device `sip:a b`",
            "bad.toml:26:1: hint: device `sip:c d`",
        ],
    );
    assert!(!found.concat().contains("secret"), "{found:?}");
}

/// A bad certificate hides no other mistake, and no other mistake hides it; the same
/// holds for the server itself.
#[test]
fn a_certificate_that_cannot_be_read_hides_nothing() {
    let place = Place::new();
    let key = place.file("key.pem", "no key");
    let (missing, key) = (place.path("none.pem"), key.display());
    let text = format!(
        "[sip]\nauth = \"none\"\ntls = \"127.0.0.1:0\"\ntls_certificate = \"{}\"\n\
         tls_key = \"{key}\"\n",
        missing.display(),
    );
    let file = place.file("tls.toml", &text);
    let expected = [
        "tls.toml:2:8: sip.auth: `none` is not allowed",
        "tls.toml:4:19: sip.tls_certificate: ",
        "tls.toml:5:11: sip.tls_key: ",
    ];
    assert_lines(
        &mistakes(busyhour().arg("check-config").arg(&file)),
        &expected,
    );
    assert_lines(
        &mistakes(place.serve().arg("--config").arg(&file)),
        &expected,
    );
}

/// A file that cannot be read hides no mistake in the environment.
#[test]
fn a_file_that_cannot_be_read_hides_nothing() {
    let place = Place::new();
    let mut check = busyhour();
    check.arg("check-config").arg(place.path("none.toml"));
    check
        .args(["--log-level", "loud"])
        .env("BUSYHOUR_LOG_LEVL", "x");
    let expected = [
        "none.toml: cannot be read: ",
        "--log-level: log.level: `loud` is not allowed",
        "BUSYHOUR_LOG_LEVL: unknown setting",
    ];
    assert_lines(&mistakes(&mut check), &expected);
}

#[test]
fn a_mistyped_variable_is_a_mistake_and_a_server_warns_of_it() {
    let place = Place::new();
    let found = mistakes(
        busyhour()
            .arg("check-config")
            .env("BUSYHOUR_SIP_REALMS", "x"),
    );
    assert_lines(
        &found,
        &["BUSYHOUR_SIP_REALMS: unknown setting (did you mean BUSYHOUR_SIP_REALM?)"],
    );
    let mut serve = place.serve();
    serve.env("BUSYHOUR_SIP_REALMS", "x");
    let server = ServerProcess::start(&mut serve, &place);
    server.wait_for_log("did you mean BUSYHOUR_SIP_REALM?");
    assert!(server.stop().success());
}

/// An import of a file with mistakes creates no database.
#[test]
fn an_import_names_every_line_with_mistakes() {
    let place = Place::new();
    let import = |name: &str, text: &str| {
        let mut command = busyhour();
        command.args(["device", "import", "--create"]);
        command.arg(place.file(name, text));
        command.arg("--store-path").arg(place.path("busyhour.db"));
        mistakes(&mut command)
    };
    let csv = "user,password,iax2,max_contacts,mailbox\n\
        a b,x,,,\nb,,,,\nc,x,perhaps,,\nd,x,,many,\ne,x\nf,x,,0,m m\nf2,x,,,\nf2,x,,,\n";
    let expected = [
        "devices.csv: line 2: `a b` is not a user name",
        "devices.csv: line 3: give a password, or hashes",
        "devices.csv: line 4: iax2: `perhaps` is not allowed",
        "devices.csv: line 5: max_contacts: give a whole number",
        "devices.csv: line 6: 2 fields, but the first line names 5",
        "devices.csv: line 7: max_contacts: give a whole number from 1 to 1000; mailbox: `m m`",
        "devices.csv: line 9: user `f2` is given twice",
    ];
    assert_lines(&import("devices.csv", csv), &expected);
    let columns = import("columns.csv", "user,pasword,relm\na,x,y\n");
    assert_lines(
        &columns,
        &["columns.csv: line 1: unknown columns: pasword, relm; there are"],
    );
    let json = "[\n  {\"user\": \"a b\", \"password\": \"x\"},\n  {\"user\": \"b\",\n   \
        \"pasword\": \"secret\"},\n  {\"user\": \"c\", \"password\": \"x\", \"iax2\": \"secret\"},\n  \
        {\"user\": \"d\", \"password\": \"x\"}, 3\n]";
    let expected = [
        "devices.json: line 2: `a b` is not a user name",
        "devices.json: line 4: unknown field `pasword`; there are: user, password",
        "devices.json: line 5: found a text where true or false belongs",
        "devices.json: line 6: found another number where an object belongs",
    ];
    let found = import("devices.json", json);
    assert_lines(&found, &expected);
    assert!(!found.concat().contains("secret"), "{found:?}");
    let broken = import("broken.json", "[{\"user\": \"a\"");
    assert_lines(
        &broken,
        &["broken.json: line 1, column 13: the JSON ends too early"],
    );
    assert!(!place.path("busyhour.db").exists());
}

#[test]
fn a_registrar_behind_is_checked() {
    let place = Place::new();
    let registrar = |name: &str, address: &str, domain: &str, more: &str| {
        format!(
            "[[registrar]]\nname = \"{name}\"\naddress = \"{address}\"\ndomains = [\"{domain}\"]\n{more}"
        )
    };
    let known = "192.0.2.13:5060";
    let text = [
        registrar("pbx", "192.0.2.12:5060", "a.example", ""),
        registrar("p b", known, "b.example", ""),
        registrar("short", known, "c.example", "expires_seconds = 60\n"),
        registrar("fast", known, "d.example", "per_second = 0\n"),
        registrar("half", known, "e.example", "user = \"trunk\"\n"),
        registrar("named", "pbx.example.com", "f.example", ""),
        registrar("known", known, "g.example", ""),
        registrar("known", known, "h.example", ""),
        registrar("silent", "192.0.2.13:0", "i.example", ""),
        registrar("wrong", known, "j example", ""),
        registrar("late", known, "A.EXAMPLE", ""),
        "[[peer]]\nname = \"known\"\naddresses = [\"192.0.2.13\"]\nmay_call = true\n".to_owned(),
    ];
    let file = place.file("bad.toml", &text.concat());
    let found = mistakes(busyhour().arg("check-config").arg(&file));
    assert_lines(
        &found,
        &[
            "19:1: registrar: give both user and password_file, or neither",
            "24:1: registrar: address: `pbx.example.com`: give an IP address and port",
            "5:1: registrar `p b`: name: give 1 to 64 letters",
            "9:1: registrar `short`: expires_seconds: give 300 to 604800",
            "14:1: registrar `fast`: per_second: give 1 to 10000",
            "32:1: registrar `known`: name: there are two registrars `known`",
            "36:1: registrar `silent`: address: `192.0.2.13:0`: give the address of one host",
            "40:1: registrar `wrong`: domains: `j example`: give a host name or an IP address",
            "44:1: registrar `late`: domains: registrar `pbx` before it has them all",
            "1:1: registrar `pbx`: its calls would be refused: give a [[peer]] with addresses = \
             [\"192.0.2.12\"] and may_call = true",
        ],
    );
}

#[test]
fn the_domain_of_an_account_has_accounts_of_its_own() {
    let place = Place::new();
    let text = "[sip]\ndomains = \"example.com\"\n[[domain]]\nname = \"a.example\"\n\
        [[account]]\nuser = \"alice\"\ndomain = \"a.example\"\npassword = \"x\"\n\
        [[account]]\nuser = \"alice\"\npassword = \"x\"\n\
        [[account]]\nuser = \"alice\"\ndomain = \"a.example\"\npassword = \"x\"\n\
        [[account]]\nuser = \"bob\"\ndomain = \"B example\"\npassword = \"x\"\n\
        [[account]]\nuser = \"bob\"\ndomain = \"b.example\"\npassword = \"x\"\n\
        [[account]]\nuser = \"carol\"\ndomain = \"example.com\"\npassword = \"x\"\n";
    let file = place.file("bad.toml", text);
    let found = mistakes(busyhour().arg("check-config").arg(&file));
    assert_lines(
        &found,
        &[
            "12:1: account: user `alice@a.example` already exists",
            "16:1: account: domain: `B example`: give a host name in lower case",
            "20:1: account `bob`: domain `b.example`: there is no [[domain]] with name = \"b.example\"",
            "24:1: account `carol`: domain `example.com`: it has the accounts of the server: leave \
             domain out",
        ],
    );
}
