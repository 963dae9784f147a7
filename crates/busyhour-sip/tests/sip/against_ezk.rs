//! Random well-formed requests, parsed by this crate and by `ezk-sip-types`.
//! Where both follow the grammar, they must agree on every value.

use busyhour_sip::{Address, Contacts, Message, Uri};
use ezk_sip_types::header::typed::{CSeq, CallID, Contact, Expires, FromTo, MaxForwards, Via};
use ezk_sip_types::msg::{Line, MessageLine, PullParser};
use ezk_sip_types::parse::Parse;
use ezk_sip_types::uri::SipUri;
use ezk_sip_types::{Headers, Name};
use proptest::prelude::*;

/// The values that both parsers give, as text.
type Reading = Vec<(&'static str, String)>;

fn ours(bytes: &[u8]) -> Reading {
    let request = Message::parse(bytes).expect("well formed");
    request.validate().expect("well formed");
    let cseq = request.cseq().expect("well formed");
    let mut reading = vec![
        ("method", request.method().expect("a request").to_string()),
        ("uri", our_uri(&request.request_uri().expect("well formed"))),
        ("cseq", format!("{} {}", cseq.number, cseq.method)),
        (
            "call-id",
            request.call_id().expect("well formed").to_owned(),
        ),
        (
            "max-forwards",
            format!(
                "{:?}",
                request.max_forwards().expect("well formed").map(u32::from)
            ),
        ),
        (
            "expires",
            format!("{:?}", request.expires().expect("well formed")),
        ),
    ];
    let mut address = |name, address: Address<'_>| {
        reading.push((
            name,
            format!("{} {:?}", our_uri(&address.uri), address.tag()),
        ));
    };
    address("from", request.from().expect("well formed"));
    address("to", request.to().expect("well formed"));
    for via in request.vias() {
        let via = via.expect("well formed");
        reading.push((
            "via",
            format!(
                "{} {} {:?} {:?}",
                via.transport,
                via.host,
                via.port,
                via.branch()
            ),
        ));
    }
    let Ok(Contacts::List(contacts)) = request.contacts() else {
        panic!("a list")
    };
    for contact in contacts {
        let address = contact.expect("well formed").address;
        reading.push((
            "contact",
            format!(
                "{} {:?}",
                our_uri(&address.uri),
                address.params.value("expires")
            ),
        ));
    }
    reading
}

fn our_uri(uri: &Uri<'_>) -> String {
    let uri = uri.as_sip().expect("a SIP URI");
    format!(
        "{} {:?} {} {:?}",
        uri.scheme.as_str(),
        uri.user,
        uri.host,
        uri.port
    )
}

fn theirs(bytes: &[u8]) -> Reading {
    let source = bytes::Bytes::copy_from_slice(bytes);
    let mut lines = PullParser::new(&source, 0)
        .map(|line| std::str::from_utf8(line.expect("a whole line")).expect("text"));
    let start = lines.next().expect("a start line");
    let (_, start) = MessageLine::parse(&source)(start).expect("well formed");
    let MessageLine::Request(start) = start else {
        panic!("a request")
    };
    let mut headers = Headers::new();
    for line in lines {
        let (_, line) = Line::parse(&source, line).expect("well formed");
        headers.insert(line.name, line.value);
    }
    let cseq: CSeq = headers.get_named().expect("well formed");
    let call_id: CallID = headers.get_named().expect("well formed");
    let max_forwards: Option<MaxForwards> = headers
        .try_get_named()
        .map(|value| value.expect("well formed"));
    let expires: Option<Expires> = headers
        .try_get_named()
        .map(|value| value.expect("well formed"));
    let mut reading = vec![
        ("method", start.method.to_string()),
        ("uri", their_uri(&start.uri)),
        ("cseq", format!("{} {}", cseq.cseq, cseq.method)),
        ("call-id", call_id.0.to_string()),
        (
            "max-forwards",
            format!("{:?}", max_forwards.map(|value| value.0)),
        ),
        ("expires", format!("{:?}", expires.map(|value| value.0))),
    ];
    for (key, name) in [("from", Name::FROM), ("to", Name::TO)] {
        let address: FromTo = headers.get(name).expect("well formed");
        let tag = address.tag.as_deref().map(str::to_owned);
        reading.push((key, format!("{} {tag:?}", their_uri(&address.uri.uri))));
    }
    for via in headers.get::<Vec<Via>>(Name::VIA).expect("well formed") {
        let branch = via
            .params
            .get_val("branch")
            .map(|branch| branch.to_string());
        let (host, port) = (via.sent_by.host.to_string(), via.sent_by.port);
        reading.push((
            "via",
            format!("{} {host} {port:?} {branch:?}", via.transport),
        ));
    }
    for contact in headers
        .get::<Vec<Contact>>(Name::CONTACT)
        .expect("well formed")
    {
        let expires = contact
            .params
            .get_val("expires")
            .map(|expires| expires.to_string());
        reading.push((
            "contact",
            format!("{} {expires:?}", their_uri(&contact.uri.uri)),
        ));
    }
    reading
}

fn their_uri(uri: &SipUri) -> String {
    use ezk_sip_types::uri::SipUriUserPart::{Empty, User, UserPw};
    let user = match &uri.user_part {
        Empty => None,
        User(user) => Some(user.to_string()),
        UserPw(both) => Some(both.user.to_string()),
    };
    let scheme = if uri.sips { "sips" } else { "sip" };
    format!(
        "{scheme} {user:?} {} {:?}",
        uri.host_port.host, uri.host_port.port
    )
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9]{0,8}(\\.[a-z][a-z0-9-]{0,6}[a-z]){0,3}",
        any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|address| format!("[{address}]")),
    ]
}

fn host_port() -> impl Strategy<Value = String> {
    (host(), proptest::option::of(1..=u16::MAX))
        .prop_map(|(host, port)| port.map_or(host.clone(), |port| format!("{host}:{port}")))
}

fn uri() -> impl Strategy<Value = String> {
    let user = proptest::option::of("[a-zA-Z0-9_.!~*'()&=+$,-]{1,12}");
    let params = proptest::sample::select(vec!["", ";lr", ";transport=tcp", ";ob;x=1"]);
    ("sips?", user, host_port(), params).prop_map(|(scheme, user, host, params)| {
        let user = user.map_or_else(String::new, |user| user + "@");
        format!("{scheme}:{user}{host}{params}")
    })
}

fn address() -> impl Strategy<Value = String> {
    let display = prop_oneof![
        Just(String::new()),
        "[A-Za-z]{1,8}( [A-Za-z]{1,8})?".prop_map(|name| name + " "),
        "[A-Za-z ,;<>@:é]{1,12}".prop_map(|name| format!("\"{name}\" ")),
    ];
    (display, uri()).prop_map(|(display, uri)| format!("{display}<{uri}>"))
}

fn tagged() -> impl Strategy<Value = String> {
    (address(), proptest::option::of("[a-zA-Z0-9.-]{1,10}")).prop_map(|(address, tag)| {
        tag.map_or(address.clone(), |tag| format!("{address};tag={tag}"))
    })
}

fn via() -> impl Strategy<Value = String> {
    let rest = proptest::sample::select(vec![
        "",
        ";rport",
        ";received=192.0.2.1;rport=9",
        ";maddr=239.0.0.1;ttl=4",
    ]);
    ("UDP|TCP|TLS|WS", host_port(), "[a-zA-Z0-9.]{1,12}", rest).prop_map(
        |(transport, host, branch, rest)| {
            format!("SIP/2.0/{transport} {host};branch=z9hG4bK{branch}{rest}")
        },
    )
}

fn contact() -> impl Strategy<Value = String> {
    (address(), proptest::option::of(0..100_000u32)).prop_map(|(address, expires)| {
        expires.map_or(address.clone(), |expires| {
            format!("{address};q=0.5;expires={expires}")
        })
    })
}

fn name(long: &'static str, short: &'static str) -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        long.to_owned(),
        short.to_owned(),
        long.to_ascii_uppercase(),
    ])
}

prop_compose! {
    fn request()(
        method in "REGISTER|OPTIONS|SUBSCRIBE|PUBLISH",
        uri in uri(),
        vias in proptest::collection::vec((name("Via", "v"), via()), 1..4),
        from in (name("From", "f"), tagged()),
        to in (name("To", "t"), tagged()),
        call_id in (name("Call-ID", "i"), "[a-zA-Z0-9.-]{1,20}(@[a-z0-9.]{1,10})?"),
        cseq in 0..(1u32 << 31),
        contacts in proptest::collection::vec((name("Contact", "m"), contact()), 1..4),
        numbers in (0..256u32, any::<u32>()),
    ) -> Vec<u8> {
        let mut text = format!("{method} {uri} SIP/2.0\r\n");
        let mut line = |name: &str, value: &str| text.push_str(&format!("{name}: {value}\r\n"));
        vias.iter().for_each(|(name, value)| line(name, value));
        line(&from.0, &from.1);
        line(&to.0, &to.1);
        line(&call_id.0, &call_id.1);
        line("CSeq", &format!("{cseq} {method}"));
        contacts.iter().for_each(|(name, value)| line(name, value));
        line("Max-Forwards", &numbers.0.to_string());
        line("Expires", &numbers.1.to_string());
        text.push_str("Content-Length: 0\r\n\r\n");
        text.into_bytes()
    }
}

proptest! {
    #[test]
    fn both_parsers_agree(request in request()) {
        prop_assert_eq!(ours(&request), theirs(&request), "{}", String::from_utf8_lossy(&request));
    }
}
