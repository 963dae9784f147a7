//! The examples of RFC 3261 §19.1.3 and §19.1.4, and RFC 5954.

use busyhour_sip::{Host, Scheme, Uri};

fn same(this: &str, that: &str) -> bool {
    let read = |text| Uri::parse(text).unwrap_or_else(|| panic!("{text} is sound"));
    let (one, other) = (
        read(this).matches(&read(that)),
        read(that).matches(&read(this)),
    );
    assert_eq!(one, other, "comparison is symmetric: {this} {that}");
    one
}

fn aor(text: &str) -> String {
    let mut out = String::from("what was there before");
    Uri::parse(text)
        .as_ref()
        .and_then(Uri::as_sip)
        .expect("a SIP URI")
        .canonical_aor(&mut out);
    out
}

#[test]
fn equivalent_uris() {
    for (this, that) in [
        (
            "sip:%61lice@atlanta.com;transport=TCP",
            "sip:alice@AtlanTa.CoM;Transport=tcp",
        ),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
        (
            "sip:carol@chicago.com;newparam=5",
            "sip:carol@chicago.com;security=on",
        ),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ),
        ("sip:a@[2001:db8::9:1]", "sip:a@[2001:DB8:0:0:0:0:9:01]"),
        ("tel:+1-201", "TEL:+1-201"),
        ("sip:a%2Cb@h", "sip:a%2cb@h"),
    ] {
        assert!(same(this, that), "{this} {that}");
    }
}

#[test]
fn different_uris() {
    for (this, that) in [
        (
            "SIP:ALICE@AtLanTa.CoM;Transport=udp",
            "sip:alice@AtLanTa.CoM;Transport=UDP",
        ),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        (
            "sip:bob@biloxi.com",
            "sip:bob@biloxi.com:6000;transport=tcp",
        ),
        (
            "sip:carol@chicago.com",
            "sip:carol@chicago.com?Subject=next%20meeting",
        ),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        (
            "sip:carol@chicago.com;newparam=5",
            "sip:carol@chicago.com;newparam=6",
        ),
        ("sip:a@b", "sips:a@b"),
        ("sip:a@b", "sip:b"),
        ("sip:a:x@b", "sip:a:y@b"),
        ("sip:a@b;maddr=239.255.255.1", "sip:a@b"),
        ("sip:a@b;user=phone", "sip:a@b"),
        ("sip:a@b;lr", "sip:a@b;lr=on"),
        ("sip:a%2Cb@h", "sip:a,b@h"),
        ("tel:+1201", "sip:+1201@h"),
    ] {
        assert!(!same(this, that), "{this} {that}");
    }
}

#[test]
fn one_user_has_one_address_of_record() {
    assert_eq!(
        aor("sip:alice@Example.ORG;transport=tcp?x=y"),
        "sip:alice@example.org"
    );
    assert_eq!(
        aor("SIPS:%61li%63e:pw@EXAMPLE.org:5061"),
        "sips:alice@example.org:5061"
    );
    assert_eq!(aor("sip:a%40b%2f%00@H"), "sip:a%40b%2F%00@h");
    assert_eq!(aor("sip:[2001:DB8:0::1]"), "sip:[2001:db8::1]");
    assert_eq!(
        aor("sip:user;par=u%40example.net@example.com"),
        "sip:user;par=u%40example.net@example.com"
    );
}

#[test]
fn a_canonical_address_is_not_changed() {
    for text in [
        "sip:a%40b@H",
        "sips:%61;b?c@[::1]:99",
        "sip:%7e%7E@x",
        "sip:h",
    ] {
        let once = aor(text);
        assert_eq!(aor(&once), once);
    }
}

#[test]
fn the_parts_of_a_uri_are_distinguished() {
    let uri = Uri::parse("sips:alice:pw@192.0.2.4;lr;x=%41?a=b&c=").expect("sound");
    let uri = uri.as_sip().expect("a SIP URI");
    assert_eq!(
        (uri.scheme, uri.user, uri.password),
        (Scheme::Sips, Some("alice"), Some("pw"))
    );
    assert_eq!(uri.host, Host::V4([192, 0, 2, 4].into()));
    assert_eq!((uri.port, uri.port_or_default()), (None, 5061));
    assert_eq!(
        uri.params().collect::<Vec<_>>(),
        [("lr", None), ("x", Some("%41"))]
    );
    assert_eq!(uri.headers().collect::<Vec<_>>(), [("a", "b"), ("c", "")]);
    assert_eq!(uri.to_string(), "sips:alice:pw@192.0.2.4;lr;x=%41?a=b&c=");
}

#[test]
fn broken_uris_are_refused() {
    for text in [
        "",
        "sip",
        "sip:",
        "sip:@h",
        "sip:a@",
        "sip:a@b@c",
        "sip:a b@h",
        "sip:a@h:",
        "sip:a@h:99999",
        "sip:a@h:5060x",
        "sip:a@[::1",
        "sip:a@[x]",
        "sip:a@::1",
        "sip:a%4@h",
        "sip:a%zz@h",
        "sip:a@h;",
        "sip:a@h;;b",
        "sip:a@h;=b",
        "sip:a@h;b=<",
        "sip:a@h?&",
        "1x:y",
        ":y",
        "x:",
        "x:a b",
        "x:<y>",
        "sip:\"a\"@h",
        "sip:é@h",
    ] {
        assert_eq!(Uri::parse(text), None, "{text}");
    }
    assert_eq!(
        Uri::parse("sip:h;a;A=1"),
        None,
        "no parameter may occur twice"
    );
    let many =
        |count: usize| (0..count).fold(String::from("sip:h"), |uri, at| format!("{uri};p{at}"));
    assert!(Uri::parse(&many(32)).is_some());
    assert_eq!(Uri::parse(&many(33)), None);
}
