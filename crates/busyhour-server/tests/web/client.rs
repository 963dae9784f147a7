//! Requests to other servers over HTTP, which are slow, wrong, dead and back.

use crate::authority::Authority;
use crate::http_receiver::{Answer, HttpReceiver};
use crate::ports::free_port;
use busyhour_server::{
    net::{HttpSender, HttpSenderOptions, TrustedRoots},
    server::{HttpAnswer, HttpClient, HttpFailure, HttpPurpose, HttpRequest},
};
use hyper::{Method, Version, body::Bytes};
use std::{
    net::SocketAddr,
    sync::mpsc::{self, Receiver},
    time::Duration,
};
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

type Outcome = Result<HttpAnswer, HttpFailure>;

fn sender() -> HttpSender {
    HttpSender::new(HttpSenderOptions {
        connections_per_host: 2,
        ..HttpSenderOptions::default()
    })
}

fn request(url: &str) -> HttpRequest {
    let mut request = HttpRequest::new(HttpPurpose::Webhooks, Method::POST, url.parse().unwrap());
    request.body = Bytes::from_static(b"{}");
    request.time_limit = GENEROUS;
    request
}

fn send(sender: &HttpSender, request: HttpRequest) -> Receiver<Outcome> {
    let (told, outcome) = mpsc::channel();
    let listener = move |outcome| _ = told.send(outcome);
    sender
        .send(request, Box::new(listener))
        .expect("there is room");
    outcome
}

fn outcome(outcome: &Receiver<Outcome>) -> Outcome {
    outcome
        .recv_timeout(GENEROUS)
        .expect("the listener is called")
}

#[test]
fn an_answer_comes_whole_and_connections_are_kept() {
    let receiver = HttpReceiver::start(|request| match request.path.as_str() {
        "/moved" => Answer::With(302, "location", "http://192.0.2.1/".into(), "there".into()),
        _ => Answer::Now(200, "x".repeat(100_000)),
    });
    let sender = sender();
    let moved = outcome(&send(&sender, request(&receiver.url("/moved")))).unwrap();
    assert_eq!((moved.status.as_u16(), &*moved.body), (302, &b"there"[..]));
    assert_eq!(moved.headers["location"], "http://192.0.2.1/");
    let mut long = request(&receiver.url("/long"));
    long.answer_bytes_max = 100_000;
    assert_eq!(
        outcome(&send(&sender, long.clone())).unwrap().body.len(),
        100_000
    );
    long.answer_bytes_max -= 1;
    let without_body = outcome(&send(&sender, long.clone())).unwrap();
    assert_eq!(
        (without_body.status.as_u16(), without_body.body.len()),
        (200, 0)
    );
    long.needs_body = true;
    assert_eq!(
        outcome(&send(&sender, long)).unwrap_err(),
        HttpFailure::TooLong
    );
    let received = receiver.received();
    assert_eq!(received[0].text(), "{}");
    assert!(received[0].header("user-agent").starts_with("busyhour/"));
    assert_eq!((received[0].connection, received[1].connection), (0, 0));
    let stats = sender.stats();
    assert_eq!((stats.requests, stats.answered, stats.broken), (4, 3, 1));
}

#[test]
fn a_slow_host_holds_up_nobody_but_its_own_lane() {
    let slow = HttpReceiver::start(|request| match request.path.as_str() {
        "/never" => Answer::Never,
        _ => Answer::Now(204, String::new()),
    });
    let quick = HttpReceiver::start(|_| Answer::Now(200, String::new()));
    let sender = sender();
    let waiting: Vec<_> = (0..2)
        .map(|_| send(&sender, request(&slow.url("/never"))))
        .collect();
    // Behind both, in the same lane, with a time limit of its own.
    let mut short = request(&slow.url("/"));
    short.time_limit = Duration::from_millis(50);
    assert_eq!(
        outcome(&send(&sender, short)).unwrap_err(),
        HttpFailure::Late
    );
    assert!(outcome(&send(&sender, request(&quick.url("/")))).is_ok());
    let mut other = request(&slow.url("/"));
    other.purpose = HttpPurpose::Credentials;
    assert_eq!(outcome(&send(&sender, other)).unwrap().status, 204);
    assert_eq!(sender.stats().waiting_count, 2);
    // Those that are given up are told so.
    drop(sender);
    for waiting in waiting {
        assert_eq!(outcome(&waiting).unwrap_err(), HttpFailure::Stopped);
    }
}

#[test]
fn a_dead_host_is_told_and_found_when_it_is_back() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let sender = sender();
    let url = format!("http://{address}/");
    let failure = outcome(&send(&sender, request(&url))).unwrap_err();
    assert!(
        matches!(&failure, HttpFailure::Connect(why) if why.contains("refused")),
        "{failure}"
    );
    for _ in 0..2 {
        let back = HttpReceiver::start_at(address, None, |_| Answer::Now(200, String::new()));
        assert!(outcome(&send(&sender, request(&url))).is_ok());
        // Its connections end with it; the next request needs a new one.
        drop(back);
        assert!(outcome(&send(&sender, request(&url))).is_err());
    }
    let unknown = outcome(&send(&sender, request("http://nowhere.invalid/"))).unwrap_err();
    assert!(matches!(unknown, HttpFailure::Connect(_)), "{unknown}");
}

#[test]
fn the_requests_that_wait_for_a_host_are_bounded() {
    let slow = HttpReceiver::start(|_| Answer::Never);
    let sender = sender();
    let waiting: Vec<_> = (0..2 + 1024)
        .map(|_| send(&sender, request(&slow.url("/"))))
        .collect();
    let refused = sender.send(
        request(&slow.url("/")),
        Box::new(|_| panic!("it is called")),
    );
    assert_eq!(refused.unwrap_err(), HttpFailure::Full);
    assert_eq!(sender.stats().refused_full, 1);
    drop(sender);
    let stopped = |waiting| matches!(outcome(waiting), Err(HttpFailure::Stopped));
    assert!(waiting.iter().all(stopped));
}

#[test]
fn a_listener_that_panics_ends_nothing_else() {
    let receiver = HttpReceiver::start(|_| Answer::Now(200, String::new()));
    let sender = sender();
    let panics = Box::new(|_| panic!("on purpose"));
    sender.send(request(&receiver.url("/")), panics).unwrap();
    assert!(outcome(&send(&sender, request(&receiver.url("/")))).is_ok());
}

/// HTTP/2 is what the push service of Apple wants.
#[test]
fn tls_believes_the_given_authorities_alone_and_speaks_http2() {
    let authority = Authority::new();
    let receiver = |authority: &Authority, protocols: &[&str]| {
        let tls = server_config(authority, protocols);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        HttpReceiver::start_at(address, Some(tls), |_| Answer::Now(200, String::new()))
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authorities.pem");
    std::fs::write(&path, authority.pem()).unwrap();
    let sender = HttpSender::new(HttpSenderOptions {
        roots: TrustedRoots::read(&path).unwrap(),
        ..HttpSenderOptions::default()
    });
    let url = |receiver: &HttpReceiver| format!("https://localhost:{}/", receiver.address.port());
    for (protocol, version) in [("h2", Version::HTTP_2), ("http/1.1", Version::HTTP_11)] {
        let known = receiver(&authority, &[protocol]);
        assert!(outcome(&send(&sender, request(&url(&known)))).is_ok());
        assert_eq!(known.received()[0].version, version);
        // The certificate is for the name alone.
        let by_address = url(&known).replace("localhost", "127.0.0.1");
        assert!(outcome(&send(&sender, request(&by_address))).is_err());
    }
    let stranger = receiver(&Authority::new(), &["h2"]);
    let refused = outcome(&send(&sender, request(&url(&stranger)))).unwrap_err();
    assert!(
        matches!(&refused, HttpFailure::Connect(why) if why.contains("certificate")),
        "{refused}"
    );
    assert!(stranger.received().is_empty());
    std::fs::write(&path, "nothing").unwrap();
    assert!(
        TrustedRoots::read(&path)
            .unwrap_err()
            .contains("give a PEM file")
    );
}

fn server_config(authority: &Authority, protocols: &[&str]) -> ServerConfig {
    let name = rcgen::SanType::DnsName("localhost".try_into().unwrap());
    let own = authority.vouch(name);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(ring::default_provider().into());
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let mut config = config
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    config
}

/// Reached by a failing test alone.
const GENEROUS: Duration = Duration::from_secs(60);
