//! Which addresses of record belong to the server, and the one form of each.

use busyhour_registrar::{Domains, Refusal, address_of_record};
use busyhour_sip::Uri;

#[test]
fn an_address_of_record_has_one_form_however_it_is_written() {
    let domains = Domains::new(["example.com".to_owned()]);
    for uri in [
        "sip:alice@example.com",
        "sips:alice@example.com",
        "sip:alice@EXAMPLE.com:5060",
        "sip:%61lice@example.com;transport=tcp",
    ] {
        assert_eq!(aor(uri, &domains).unwrap(), "sip:alice@example.com");
    }
    for (uri, refusal) in [
        ("tel:123", Refusal::UnsupportedScheme),
        ("sip:example.com", Refusal::NotFound),
        (
            "sip:alice@example.org",
            Refusal::NotServed("Domain example.org Not Served Here".into()),
        ),
        (
            "sip:alice@192.0.2.1",
            Refusal::NotServed("Domain 192.0.2.1 Not Served Here".into()),
        ),
    ] {
        assert_eq!(aor(uri, &domains), Err(refusal), "{uri}");
    }
}

#[test]
fn domains_may_be_addresses_and_without_domains_any_matches() {
    let names = ["192.0.2.1", "[2001:db8::1]", "2001:db8::2"];
    let domains = Domains::new(names.map(str::to_owned));
    for host in ["192.0.2.1", "[2001:db8:0::1]", "[2001:db8::2]"] {
        assert!(aor(&format!("sip:a@{host}"), &domains).is_ok(), "{host}");
    }
    for host in ["192.0.2.2", "[2001:db8::3]", "example.com"] {
        assert!(aor(&format!("sip:a@{host}"), &domains).is_err(), "{host}");
    }
    assert!(aor("sip:a@example.com", &Domains::default()).is_ok());
}

#[test]
fn the_first_domain_is_preferred_to_the_local_address() {
    let home = |text: &str| Some(text.parse().unwrap());
    let named = Domains::new(["b.example.com", "a.example.com"].map(str::to_owned));
    assert_eq!(named.at(home("192.0.2.1")).first(), Some("b.example.com"));
    assert_eq!(Domains::default().first(), None);
    let at = |text: &str| Domains::default().at(home(text));
    assert_eq!(at("192.0.2.1").first(), Some("192.0.2.1"));
    assert_eq!(at("2001:db8::1").first(), Some("[2001:db8::1]"));
    assert_eq!(at("192.0.2.1").at(None).first(), None);
}

fn aor(uri: &str, domains: &Domains) -> Result<String, Refusal> {
    address_of_record(&Uri::parse(uri).unwrap(), domains)
}
