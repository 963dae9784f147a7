//! RFC 4475 §3.1.1 and §3.3: unusual but valid messages, by their names in the
//! RFC, with the values that must be read.

use busyhour_sip::{Contacts, HeaderName, Message, Method, Start, Uri, unescape};

use crate::message::wire;

/// Asserts that a message is valid and passes it to `check`.
fn sound(text: &str, check: impl FnOnce(&Message<'_>)) {
    let bytes = wire(text);
    let message = Message::parse(&bytes).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(message.validate(), Ok(()), "{text}");
    check(&message);
}

/// A request with all required headers, and more lines.
fn request(start: &str, method: &str, more: &str) -> String {
    format!(
        "{start}\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKx\nFrom: <sip:c@example.net>;tag=1\n\
         To: <sip:u@example.com>\nCall-ID: t\nCSeq: 1 {method}\nMax-Forwards: 70\n{more}"
    )
}

#[test]
fn wsinv_white_space_everywhere() {
    let text = r#"INVITE sip:vivekg@chair-dnrc.example.com;unknownparam SIP/2.0
TO :
 sip:vivekg@chair-dnrc.example.com ;   tag    = 1918181833n
from   : "J Rosenberg \\\""       <sip:jdrosen@example.com>
  ;
  tag = 98asjd8
MaX-fOrWaRdS: 0068
Call-ID: wsinv.ndaksdj@192.0.2.1
cseq: 0009
  INVITE
Via  : SIP  /   2.0
 /UDP
    192.0.2.2;branch=390skdjuw
s :
NewFangledHeader:   newfangled value
 continued newfangled value
UnknownHeaderWithUnusualValue: ;;,,;;,;
Content-Type: application/sdp
Route:
 <sip:services.example.com;lr;unknownwith=value;unknown-no-value>
v:  SIP  / 2.0  / TCP     spindle.example.com   ;
  branch  =   z9hG4bK9ikj8  ,
 SIP  /    2.0   / UDP  192.168.255.111   ; branch=
 z9hG4bK30239
m:"Quoted string \"\"" <sip:jdrosen@example.com> ; newparam =
      newvalue ;
  secondparam ; q = 0.33
"#;
    sound(text, |message| {
        let from = message.from().expect("sound");
        assert_eq!(unescape(from.display), "J Rosenberg \\\"");
        assert_eq!(
            (from.tag(), message.to().expect("sound").tag()),
            (Some("98asjd8"), Some("1918181833n"))
        );
        assert_eq!(message.max_forwards(), Ok(Some(68)));
        assert_eq!(message.cseq().map(|cseq| cseq.number), Ok(9));
        assert_eq!(message.vias().count(), 3);
        assert_eq!(
            message.vias().last().and_then(|via| via.ok()?.branch()),
            Some("z9hG4bK30239")
        );
        assert_eq!(message.header(HeaderName::Subject), Some(""));
        let route = message
            .addresses(HeaderName::Route)
            .next()
            .expect("one")
            .expect("sound");
        assert!(route.uri.as_sip().and_then(|uri| uri.param("lr")).is_some());
        let Ok(Contacts::List(mut contacts)) = message.contacts() else {
            panic!("a list")
        };
        let contact = contacts.next().expect("one").expect("sound");
        assert_eq!(contact.q.map(|q| q.thousandths()), Some(330));
        assert_eq!(contact.address.params.value("newparam"), Some("newvalue"));
    });
}

#[test]
fn intmeth_every_legal_character() {
    let method = "!interesting-Method0123456789_*+`.%indeed'~";
    let uri = "sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com";
    let text = format!(
        "{method} {uri} SIP/2.0\nVia: SIP/2.0/TCP host1.example.com;branch=z9hG4bK-.!%66*_+`'~\n\
         To: \"BEL:\\\x07 NUL:\\\0 DEL:\\\x7f\" <{uri}>\n\
         From: token1~` token2'+_ token3*%!.- <sip:mundane@example.com>\n ;fromParam''~+*_!.-%=\"работающий\"\n ;tag=_token~1'+`*%!-.\n\
         Call-ID: intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}}{{\nCSeq: 139122385 {method}\nMax-Forwards: 255\n\
         extensionHeader-!.%*+_`'~:\u{feff}大停電\nContent-Length: 0\n"
    );
    sound(&text, |message| {
        assert_eq!(message.method(), Some(Method::Other(method)));
        let Ok(Uri::Sip(read)) = message.request_uri() else {
            panic!("a SIP URI")
        };
        assert_eq!(
            read.user,
            Some("1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*")
        );
        assert_eq!(
            read.password,
            Some("&it+has=1,weird!*pas$wo~d_too.(doesn't-it)")
        );
        let from = message.from().expect("sound");
        assert_eq!(from.display, "token1~` token2'+_ token3*%!.-");
        assert_eq!(from.params.value("fromparam''~+*_!.-%"), Some("работающий"));
        assert_eq!(
            message.header_named("EXTENSIONHEADER-!.%*+_`'~"),
            Some("\u{feff}大停電")
        );
    });
}

#[test]
fn esc01_and_escnull_escapes_are_kept_where_they_matter() {
    let contact = "Contact: <sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31>";
    let text = request(
        "INVITE sip:sips%3Auser%40example.com@example.net SIP/2.0",
        "INVITE",
        contact,
    );
    sound(&text, |message| {
        let Ok(Uri::Sip(uri)) = message.request_uri() else {
            panic!("a SIP URI")
        };
        assert_eq!(uri.user, Some("sips%3Auser%40example.com"));
        let Ok(Contacts::List(mut contacts)) = message.contacts() else {
            panic!("a list")
        };
        let contact = contacts.next().expect("one").expect("sound").address.uri;
        let contact = contact.as_sip().expect("a SIP URI");
        assert_eq!(
            contact.param("name"),
            None,
            "an escaped parameter name is another name"
        );
        assert_eq!(contact.param("n%61me"), Some(Some("v%61lue%25%34%31")));
    });
    let nulls = "Contact: <sip:%00@example.com>\nContact: <sip:%00%00@example.com>";
    sound(
        &request("REGISTER sip:example.com SIP/2.0", "REGISTER", nulls),
        |message| {
            let Ok(Contacts::List(contacts)) = message.contacts() else {
                panic!("a list")
            };
            let uris: Vec<_> = contacts
                .map(|contact| contact.expect("sound").address.uri)
                .collect();
            assert!(!uris[0].matches(&uris[1]), "these are two bindings");
        },
    );
}

#[test]
fn esc02_a_percent_in_a_method_is_no_escape() {
    sound(
        &request(
            "RE%47IST%45R sip:registrar.example.com SIP/2.0",
            "RE%47IST%45R",
            "",
        ),
        |message| {
            assert_eq!(message.method(), Some(Method::Other("RE%47IST%45R")));
        },
    );
}

#[test]
fn lwsdisp_no_space_before_the_bracket() {
    let text = request("OPTIONS sip:user@example.com SIP/2.0", "OPTIONS", "");
    let text = text.replace(
        "From: <sip:c@example.net>",
        "From: caller<sip:caller@example.com>",
    );
    sound(&text, |message| {
        assert_eq!(message.from().map(|from| from.display), Ok("caller"))
    });
}

#[test]
fn longreq_long_values() {
    let long = "long".repeat(300);
    let via = format!("Via: SIP/2.0/TCP sip{}.example.com\n", "0".repeat(30)).repeat(40);
    let more = format!("{via}Contact: <sip:{long}@example.net>\nUnknown-{long}: {long}");
    let start = format!("INVITE sip:user;{long}@example.com;{long}={long} SIP/2.0");
    sound(&request(&start, "INVITE", &more), |message| {
        assert_eq!(message.vias().count(), 41);
        assert_eq!(
            message.header_named(&format!("unknown-{long}")),
            Some(&*long)
        );
    });
}

#[test]
fn dblreq_what_follows_the_body_is_not_read() {
    let first = request(
        "REGISTER sip:example.com SIP/2.0",
        "REGISTER",
        "Content-Length: 0\n\n",
    );
    let second = request("INVITE sip:joe@example.com SIP/2.0", "INVITE", "");
    sound(&(first + &second), |message| {
        assert_eq!(message.method(), Some(Method::Register));
        assert_eq!(message.body(), b"");
    });
}

#[test]
fn semiuri_semicolons_belong_to_the_user() {
    let start = "OPTIONS sip:user;par=u%40example.net@example.com SIP/2.0";
    sound(&request(start, "OPTIONS", ""), |message| {
        let Ok(Uri::Sip(uri)) = message.request_uri() else {
            panic!("a SIP URI")
        };
        assert_eq!(uri.user, Some("user;par=u%40example.net"));
        assert_eq!(uri.params().count(), 0);
    });
}

#[test]
fn transports_known_and_not() {
    let vias = ["SCTP", "TLS", "UNKNOWN", "TCP"]
        .map(|name| format!("Via: SIP/2.0/{name} t1.example.com;branch=z9"));
    sound(
        &request(
            "OPTIONS sip:user@example.com SIP/2.0",
            "OPTIONS",
            &vias.join("\n"),
        ),
        |message| {
            let names: Vec<_> = message.vias().flatten().map(|via| via.transport).collect();
            assert_eq!(names, ["UDP", "SCTP", "TLS", "UNKNOWN", "TCP"]);
        },
    );
}

#[test]
fn mpart01_a_body_is_any_bytes() {
    let mut bytes = wire(&request(
        "MESSAGE sip:k@example.org SIP/2.0",
        "MESSAGE",
        "Content-Length: 6\n\n",
    ));
    bytes.extend_from_slice(b"\0\r\n\r\n\xff");
    let message = Message::parse(&bytes).expect("sound");
    assert_eq!(message.body(), b"\0\r\n\r\n\xff");
}

#[test]
fn unreason_and_noreason() {
    let rest = request("", "INVITE", "Content-Length: 0");
    let phrase = "= 2**3 * 5**2 но сто девяносто девять - простое";
    sound(&format!("SIP/2.0 200 {phrase}{rest}"), |message| {
        assert_eq!(
            message.start(),
            Start::Response {
                status: 200,
                reason: phrase
            }
        );
    });
    sound(&format!("SIP/2.0 100 {rest}"), |message| {
        assert_eq!(
            message.start(),
            Start::Response {
                status: 100,
                reason: ""
            }
        );
    });
}

#[test]
fn unkscm_novelsc_unksm2_unknown_schemes() {
    for uri in [
        "nobodyKnowsThisScheme:totallyopaquecontent",
        "soap.beep://192.0.2.103:3002",
    ] {
        sound(
            &request(&format!("OPTIONS {uri} SIP/2.0"), "OPTIONS", ""),
            |message| {
                assert_eq!(
                    message.request_uri().map(|uri| uri.as_sip().is_some()),
                    Ok(false)
                );
            },
        );
    }
    let text = request(
        "REGISTER sip:example.com SIP/2.0",
        "REGISTER",
        "Contact: <name:John_Smith>",
    );
    sound(
        &text.replace("To: <sip:u@example.com>", "To: <isbn:2983792873>"),
        |message| {
            assert_eq!(message.to().map(|to| to.uri_text), Ok("isbn:2983792873"));
        },
    );
}

#[test]
fn bext01_each_required_extension_is_listed() {
    let more = "Require: nothingSupportsThis, nothingSupportsThisEither\nProxy-Require: noProxiesSupportThis";
    sound(
        &request("OPTIONS sip:user@example.com SIP/2.0", "OPTIONS", more),
        |message| {
            let required: Vec<_> = message.elements(HeaderName::Require).collect();
            assert_eq!(
                required,
                ["nothingSupportsThis", "nothingSupportsThisEither"]
            );
            assert!(message.has_token(HeaderName::ProxyRequire, "noproxiessupportthis"));
        },
    );
}

#[test]
fn invut_regaut01_sdp01_unknown_kinds_are_accepted() {
    let more = "Content-Type: application/unknownformat\nAccept: text/nobodyKnowsThis\n\
                Authorization: NoOneKnowsThisScheme opaque-data=here";
    sound(
        &request("REGISTER sip:example.com SIP/2.0", "REGISTER", more),
        |message| {
            let kind = message.content_type().expect("sound").expect("there");
            assert!(kind.covers("application", "unknownformat"));
            assert!(!message.accepts("application", "sdp"));
            assert_eq!(message.credentials(HeaderName::Authorization).count(), 0);
        },
    );
}

#[test]
fn zeromf_is_zero() {
    let text = request("OPTIONS sip:user@example.com SIP/2.0", "OPTIONS", "");
    sound(
        &text.replace("Max-Forwards: 70", "Max-Forwards: 0"),
        |message| {
            assert_eq!(message.max_forwards(), Ok(Some(0)));
        },
    );
}

#[test]
fn cparam01_cparam02_regescrt_parameters_of_header_or_uri() {
    let of = |contact: &str| {
        request(
            "REGISTER sip:example.com SIP/2.0",
            "REGISTER",
            &format!("Contact: {contact}"),
        )
    };
    let read = |text: &str, header: bool| {
        sound(&of(text), |message| {
            let Ok(Contacts::List(mut contacts)) = message.contacts() else {
                panic!("a list")
            };
            let contact = contacts.next().expect("one").expect("sound").address;
            let in_uri = contact
                .uri
                .as_sip()
                .is_some_and(|uri| uri.param("unknownparam").is_some());
            assert_eq!(
                (contact.params.has("unknownparam"), in_uri),
                (header, !header),
                "{text}"
            );
        });
    };
    read("sip:+19725552222@gw1.example.net;unknownparam", true);
    read("<sip:+19725552222@gw1.example.net;unknownparam>", false);
    sound(
        &of("<sip:user@example.com?Route=%3Csip:sip.example.com%3E>"),
        |message| {
            let Ok(Contacts::List(mut contacts)) = message.contacts() else {
                panic!("a list")
            };
            let uri = contacts.next().expect("one").expect("sound").address.uri;
            let route = uri.as_sip().and_then(|uri| uri.headers().next());
            assert_eq!(route, Some(("Route", "%3Csip:sip.example.com%3E")));
        },
    );
}

#[test]
fn inv2543_a_client_of_rfc_2543() {
    let text = "INVITE sip:UserB@example.com SIP/2.0\nVia: SIP/2.0/UDP iftgw.example.com\n\
                From: <sip:+13035551111@ift.client.example.net;user=phone>\nTo: sip:+16505552222@ss1.example.net;user=phone\n\
                Call-ID: inv2543.1717@ift.client.example.com\nCSeq: 56 INVITE\n";
    sound(text, |message| {
        assert_eq!(message.via().map(|via| via.branch()), Ok(None));
        assert_eq!(message.from().map(|from| from.tag()), Ok(None));
        assert!(message.to().is_ok_and(|to| to.params.has("user")));
    });
}

#[test]
fn baddate_and_badbranch_are_accepted() {
    let text = request(
        "OPTIONS sip:u@example.com SIP/2.0",
        "OPTIONS",
        "Date: Fri, 01 Jan 2010 16:00:00 EST",
    );
    sound(&text.replace("z9hG4bKx", "z9hG4bK"), |message| {
        assert_eq!(message.via().map(|via| via.branch()), Ok(Some("z9hG4bK")));
    });
}
