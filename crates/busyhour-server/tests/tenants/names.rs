//! Other names of one person: case, telephone numbers, aliases of domains and of accounts.

use crate::{
    support::{Place, wait_until},
    telephone::Telephone,
    users::run,
};

const RULES: &str = "
[sip]
domains = [\"example.com\"]
algorithms = [\"MD5\"]
[[domain]]
name = \"a.example\"
fold_case = true
phone_numbers = true
country_code = \"49\"
[[domain]]
name = \"example.com\"
aliases = [\"www.example.com\"]
";

#[test]
fn one_person_is_reached_by_every_name() {
    let place = Place::new();
    let server = place.server(RULES);
    let add = |arguments: &[&str]| {
        let (done, said) = run(&place, &[&["device", "add"], arguments].concat(), "secret");
        assert!(done, "{said}");
    };
    add(&["alice@a.example", "--alias", "sales"]);
    add(&["+4930123456@a.example"]);
    add(&["bob", "--alias", "info"]);
    let alice = Telephone::new(&server, "alice@a.example", "secret");
    wait_until(|| alice.registers() == 200, || server.log());
    let number = Telephone::new(&server, "+4930123456@a.example", "secret");
    // Each account reaches the server by itself.
    wait_until(|| number.registers() == 200, || server.log());
    let written = Telephone::new(&server, "030-123.456@a.example", "secret");
    assert_eq!(written.logging_in_as("+4930123456").registers(), 200);
    let bob = Telephone::new(&server, "bob@www.example.com", "secret");
    wait_until(|| bob.registers() == 200, || server.log());
    for name in ["ALICE@a.example", "Sales@A.example"] {
        assert_eq!(number.call(name), 100, "{name}");
        assert!(alice.rings().contains("INVITE sip:alice@127.0.0.1"));
    }
    for name in [
        "info@example.com",
        "bob@www.example.com",
        "info@WWW.example.com",
    ] {
        assert_eq!(alice.call(name), 100, "{name}");
        bob.rings();
    }
    assert_eq!(alice.call("Bob@example.com"), 404, "case counts there");
    let bindings = server.get("/api/bindings/sip:0049-30-123456@a.example");
    assert_eq!(
        bindings.matches("sip:+4930123456@a.example").count(),
        2,
        "{bindings}"
    );
    // An alias that is an account, or of somebody else, is refused over HTTP.
    let (done, said) = run(&place, &["domain", "show", "example.com"], "");
    assert!(done && said.contains("www.example.com"), "{said}");
}
