//! The same user name in two domains: two accounts, each with its own password and realm.

use crate::{
    support::{Place, busyhour, wait_until},
    telephone::{Telephone, status},
};
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// Two domains of the file, beside the server's own.
pub const DOMAINS: &str = "
[sip]
domains = [\"example.com\"]
algorithms = [\"MD5\"]
[[account]]
user = \"alice\"
password = \"of the server\"
[[domain]]
name = \"a.example\"
[[domain]]
name = \"b.example\"
realm = \"The B company\"
";

/// Runs a command on the database of the place; what it printed.
pub fn run(place: &Place, arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = busyhour();
    command
        .args(arguments)
        .args(["--config"])
        .arg(place.path("busyhour.toml"));
    command.arg("--store-path").arg(place.path("busyhour.db"));
    output(&mut command, input)
}

fn output(command: &mut Command, input: &str) -> (bool, String) {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    // It may end before it has read all.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    // A warning is no answer.
    let text = match output.status.success() {
        true => output.stdout,
        false => output.stderr,
    };
    (
        output.status.success(),
        String::from_utf8(text).expect("text"),
    )
}

#[test]
fn each_domain_challenges_for_its_realm_and_has_its_own_passwords() {
    let place = Place::new();
    let server = place.server(DOMAINS);
    for (user, password) in [("alice@a.example", "of a"), ("alice@b.example", "of b")] {
        let (done, said) = run(&place, &["device", "add", user], password);
        assert!(done, "{said}");
    }
    let of = |address: &str, password: &str| Telephone::new(&server, address, password);
    let a = of("alice@a.example", "of a");
    wait_until(|| a.registers() == 200, || server.log());
    for (address, realm, password) in [
        ("alice@a.example", "a.example", "of a"),
        ("alice@b.example", "The B company", "of b"),
        ("alice@example.com", "busyhour", "of the server"),
    ] {
        let telephone = of(address, password);
        wait_until(|| telephone.registers() == 200, || server.log());
        let (challenge, _) = telephone.register();
        let challenge = challenge.expect("a challenge");
        assert!(
            challenge.contains(&format!("realm=\"{realm}\"")),
            "{challenge}"
        );
        let others = ["of a", "of b", "of the server"];
        for other in others.into_iter().filter(|other| *other != password) {
            let (_, answer) = of(address, other).register();
            assert!(answer.contains("403 Wrong User Or Password"), "{answer}");
        }
        let whole = of(address, password).logging_in_as(address);
        assert_eq!(
            whole.registers(),
            if address.ends_with(".com") { 403 } else { 200 }
        );
    }
    let bindings = server.get("/api/bindings");
    for domain in ["a.example", "b.example", "example.com"] {
        assert!(
            bindings.contains(&format!("sip:alice@{domain}")),
            "{bindings}"
        );
    }
    let (_, listed) = run(&place, &["device", "list"], "");
    assert!(
        listed.contains("alice@a.example") && listed.contains("alice@b.example"),
        "{listed}"
    );
    let (done, _) = run(&place, &["device", "remove", "alice@b.example"], "");
    assert!(done);
    let b = of("alice@b.example", "of b");
    wait_until(|| b.registers() == 403, || server.log());
    assert_eq!(a.registers(), 200);
}

#[test]
fn an_account_acts_in_no_other_domain() {
    let place = Place::new();
    let server = place.server(DOMAINS);
    for user in ["alice@a.example", "alice@b.example", "bob@a.example"] {
        assert!(run(&place, &["device", "add", user], "same").0);
    }
    let alice = Telephone::new(&server, "alice@a.example", "same");
    wait_until(|| alice.registers() == 200, || server.log());
    let bob = Telephone::new(&server, "bob@a.example", "same");
    // Each account reaches the server by itself.
    wait_until(|| bob.registers() == 200, || server.log());
    // Bob says that he is Alice, at home and elsewhere.
    for address in ["alice@a.example", "alice@b.example", "alice@example.com"] {
        let thief = Telephone::new(&server, address, "same").logging_in_as("bob");
        assert_eq!(thief.registers(), 403, "{address}");
        assert_eq!(thief.call("alice@a.example"), 403, "{address}");
    }
    // From there he may call, since everybody may.
    assert_eq!(bob.call("alice@a.example"), 100);
    let invite = alice.rings();
    assert!(
        !invite.contains("Proxy-Authorization"),
        "its credentials are not forwarded: {invite}"
    );
    let named = Telephone::new(&server, "bob@a.example", "same").logging_in_as("bob@a.example");
    assert_eq!(status(&named.register().1), 200);
}

#[test]
fn a_domain_comes_and_goes_while_the_server_runs() {
    let place = Place::new();
    let server = place.server("[sip]\ndomains = [\"example.com\"]\n");
    let alice = Telephone::new(&server, "alice@a.example", "of a");
    assert_eq!(alice.registers(), 404, "no domain of ours");
    let (done, said) = run(&place, &["device", "add", "alice@a.example"], "of a");
    assert!(
        !done && said.contains("busyhour domain add a.example"),
        "{said}"
    );
    let (done, said) = run(
        &place,
        &["domain", "add", "a.example", "--alias", "www.a.example"],
        "",
    );
    assert!(done, "{said}");
    let (done, said) = run(
        &place,
        &["domain", "add", "b.example", "--alias", "a.example"],
        "",
    );
    assert!(
        !done && said.contains("is a host of the domain `a.example`"),
        "{said}"
    );
    assert!(run(&place, &["device", "add", "alice@a.example"], "of a").0);
    wait_until(|| alice.registers() == 200, || server.log());
    let alias = Telephone::new(&server, "alice@www.a.example", "of a");
    assert_eq!(alias.registers(), 200);
    let bindings: serde_json::Value = serde_json::from_str(&server.get("/api/bindings")).unwrap();
    let aors: Vec<_> = bindings["bindings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["aor"])
        .collect();
    assert_eq!(aors, ["sip:alice@a.example"; 2]);
    let (done, shown) = run(&place, &["domain", "show", "a.example"], "");
    assert!(
        done && shown.contains("aliases = [\"www.a.example\"]"),
        "{shown}"
    );
    assert!(
        run(&place, &["domain", "list"], "")
            .1
            .contains("1 domain of")
    );
    assert!(run(&place, &["domain", "remove", "a.example"], "").0);
    wait_until(|| alice.registers() == 404, || server.log());
    server.wait_for("/registrar/binding_count", |count| count == 0);
}

/// The same user name in the file: of the server, and of two domains.
#[test]
fn an_account_of_the_file_may_be_of_a_domain() {
    let place = Place::new();
    let of = |domain: &str| {
        format!(
            "[[account]]\nuser = \"alice\"\ndomain = \"{domain}\"\npassword = \"of {domain}\"\n"
        )
    };
    let accounts = ["a.example", "b.example"].map(of).concat();
    let server = place.server(&format!("{DOMAINS}{accounts}"));
    for (address, password) in [
        ("alice@example.com", "of the server"),
        ("alice@a.example", "of a.example"),
        ("alice@b.example", "of b.example"),
    ] {
        assert_eq!(Telephone::new(&server, address, password).registers(), 200);
        let other = match password {
            "of a.example" => "of b.example",
            _ => "of a.example",
        };
        assert_eq!(Telephone::new(&server, address, other).registers(), 403);
    }
}

/// What a block of the recipe for many customers says, of each of this kind.
fn blocks_of_recipe(kind: &str) -> Vec<String> {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/book/src/recipes/customers.md"
    );
    let text = std::fs::read_to_string(page).expect("the page");
    let begin = format!("```{kind}\n");
    let parts = text.split(&begin).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn the_recipe_for_many_customers_keeps_them_apart() {
    let place = Place::new();
    let server = place.server(&blocks_of_recipe("toml").concat());
    let devices = place.file("devices.csv", "user,password\nalice,of two\n");
    for line in blocks_of_recipe("sh").concat().lines() {
        let line = line.replace(" --config /etc/busyhour/busyhour.toml", "");
        let line = line.replace("devices.csv", &devices.display().to_string());
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let (done, said) = run(&place, &words, "of one");
        assert!(done, "{line}: {said}");
    }
    let one = Telephone::new(&server, "alice@one.example.com", "of one");
    let two = Telephone::new(&server, "alice@two.example.com", "of two");
    wait_until(
        || one.registers() == 200 && two.registers() == 200,
        || server.log(),
    );
    for login in ["alice", "alice@one.example.com"] {
        let thief = Telephone::new(&server, "alice@two.example.com", "of one");
        assert_eq!(thief.logging_in_as(login).registers(), 403, "{login}");
    }
    assert_eq!(one.subscribe("presence", "alice@two.example.com"), 403);
}
