//! Several certificates in the real program: who is shown which, and how they are read again.

mod support;

use nix::sys::signal::Signal;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use std::{
    fs,
    io::{Read, Write},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};
use support::{
    Place, ServerProcess, busyhour,
    tls_client::{TOKEN, TlsStream, address, connect, post},
    wait_until,
};

#[test]
fn peers_are_shown_the_certificate_of_the_name_that_they_ask_for() {
    let site = Site::new();
    let server = site.start();
    let tls = sip_tls(&server);
    assert_eq!(shown(tls, "sip.example.com"), site.of("sip"));
    assert_eq!(shown(tls, "PHONES.example.net"), site.of("net"));
    assert_eq!(shown(tls, "any.example.org"), site.of("org"));
    assert_eq!(
        shown(tls, "a.b.example.org"),
        site.of("sip"),
        "one label only"
    );
    assert_eq!(shown(tls, "elsewhere.test"), site.of("sip"), "the default");
    assert_eq!(shown(tls, "127.0.0.1"), site.of("sip"), "no name");
    let https = address(&server, "https");
    assert_eq!(shown(https, "phones.example.net"), site.of("net"));
    assert!(get(https, "localhost", "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(get(https, "localhost", "/api/certificates").contains("phones.example.net"));
    let stats = server.stats();
    let certificates = stats["certificates"].as_array().unwrap();
    assert_eq!(certificates.len(), 3);
    assert_eq!(certificates[0]["is_default"], true);
    assert!(certificates[0]["left_seconds"].as_i64().unwrap() > 1_000_000);
    let metrics = server.get("/metrics");
    assert!(
        metrics.contains("busyhour_certificates_left_seconds{name=\"sip.example.com\"}"),
        "{metrics}"
    );
}

#[test]
fn a_changed_file_is_noticed_and_a_bad_one_replaces_nothing() {
    let site = Site::new();
    let server = site.start();
    let tls = sip_tls(&server);
    let mut kept = connect(tls, "sip.example.com").unwrap();
    kept.write_all(b"\r\n\r\n").unwrap();
    let mut pong = [0; 2];
    kept.read_exact(&mut pong).unwrap();
    let before = site.of("sip");
    site.make("sip", &["sip.example.com"]);
    let after = site.of("sip");
    assert_ne!(before, after);
    wait_until(|| shown(tls, "sip.example.com") == after, || server.log());
    kept.write_all(b"\r\n\r\n").unwrap();
    kept.read_exact(&mut pong).unwrap();
    assert_eq!(pong, *b"\r\n", "the connection that there was goes on");

    fs::copy(site.path("net", "key"), site.path("sip", "key")).unwrap();
    server.signal(Signal::SIGHUP);
    server.wait_for_log("the old one stays");
    assert_eq!(shown(tls, "sip.example.com"), after);
    let alerts = server.get("/api/alerts");
    let file = site.path("sip", "key").display().to_string();
    assert!(
        alerts.contains("certificate not reloaded") && alerts.contains(&file),
        "{alerts}"
    );
    let answer = post(&server, "/api/certificates/reload");
    assert!(
        answer.starts_with("HTTP/1.1 409 ") && answer.contains(&file),
        "{answer}"
    );

    site.make("sip", &["sip.example.com"]);
    assert!(post(&server, "/api/certificates/reload").starts_with("HTTP/1.1 204 "));
    assert_eq!(shown(tls, "sip.example.com"), site.of("sip"));
    assert!(
        !server
            .get("/api/alerts")
            .contains("certificate not reloaded")
    );
}

/// The certificate is replaced while two telephones talk over TLS: hold, and the end of the call,
/// come over the connections that there were.
#[test]
fn a_call_over_tls_goes_on_when_the_certificate_is_replaced() {
    let site = Site::new();
    let server = site.start();
    let tls = sip_tls(&server);
    let mut alice = Caller::new(tls, "alice");
    let mut bob = Caller::new(tls, "bob");
    alice.send(&alice.request(
        "INVITE",
        "sip:bob@example.com",
        2,
        "<sip:bob@example.com>",
        "",
    ));
    let invite = bob.hear("INVITE ");
    bob.answer(&invite);
    let answer = alice.hear("SIP/2.0 200 ");
    let within = |method: &str, cseq: u32| {
        let to = value(&answer, "To");
        let mut routes: Vec<_> = values(&answer, "Record-Route").collect();
        routes.reverse();
        let routes = format!("Route: {}\r\n", routes.join(", "));
        let target = value(&answer, "Contact")
            .trim_matches(['<', '>'])
            .to_owned();
        Caller::written("alice", method, &target, cseq, to, &routes)
    };
    alice.send(&within("ACK", 2));
    bob.hear("ACK ");

    let before = site.of("sip");
    site.make("sip", &["sip.example.com"]);
    assert!(post(&server, "/api/certificates/reload").starts_with("HTTP/1.1 204 "));
    let after = shown(tls, "sip.example.com");
    assert!(after == site.of("sip") && after != before);

    alice.send(&within("INVITE", 3));
    let again = bob.hear("INVITE ");
    bob.answer(&again);
    alice.hear("SIP/2.0 200 ");
    alice.send(&within("ACK", 3));
    bob.hear("ACK ");
    assert_eq!(server.stat("/calls/dialogs/call_count"), 1);
    alice.send(&within("BYE", 4));
    let bye = bob.hear("BYE ");
    bob.answer(&bye);
    alice.hear("SIP/2.0 200 ");
    server.wait_for("/calls/dialogs/call_count", |count| count == 0);
    // Two telephones and who has looked; none of them has connected again.
    assert_eq!(server.stat("/network/streams/accepted"), 3);
}

/// The server has none when it starts, and no authority answers.
#[test]
fn a_certificate_that_is_put_where_acme_keeps_its_own_is_noticed() {
    let site = Site::new();
    let folder = site.place.path("acme");
    let server = site.place.server(&format!(
        "[sip]\ntls = \"127.0.0.1:0\"\nauth = \"open\"\n[http]\ntls_listen = \"127.0.0.1:0\"\n\
         [acme]\ndirectory = \"https://127.0.0.1:9/dir\"\nnames = [\"sip.example.com\"]\n\
         challenge = \"tls-alpn-01\"\nfolder = {folder:?}\n{TOKEN}"
    ));
    let tls = sip_tls(&server);
    assert_eq!(support::tls_client::shown(tls, "sip.example.com"), None);
    fs::create_dir_all(&folder).unwrap();
    let read = |what| fs::read_to_string(site.path("sip", what)).unwrap();
    fs::write(
        folder.join("certificate.pem"),
        read("certificate") + &read("key"),
    )
    .unwrap();
    let is_shown = || support::tls_client::shown(tls, "sip.example.com") == Some(site.of("sip"));
    wait_until(is_shown, || server.log());
}

#[test]
fn certificates_that_end_soon_are_told_and_listed() {
    let site = Site::new();
    let mut params = CertificateParams::new(["phones.example.net".to_owned()]).unwrap();
    let seconds = jiff::Timestamp::now().as_second() + 20 * 24 * 3600;
    let soon = jiff::Timestamp::from_second(seconds).unwrap();
    let soon = soon.to_zoned(jiff::tz::TimeZone::UTC).date();
    let (month, day) = (soon.month() as u8, soon.day() as u8);
    params.not_after = rcgen::date_time_ymd(soon.year().into(), month, day);
    site.write("net", params);
    let server = site.start();
    let alerts = server.get("/api/alerts");
    assert!(
        alerts.contains("a certificate ends at ") && alerts.contains("phones.example.net"),
        "{alerts}"
    );
    assert!(!alerts.contains("sip.example.com"), "{alerts}");
    let mut show = busyhour();
    site.place.keep_sockets_here(&mut show);
    let output = show.args(["show", "certificates"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("phones.example.net") && text.contains("sip.example.com"),
        "{text}"
    );
}

#[test]
fn faults_of_certificates_are_named_with_their_files() {
    let site = Site::new();
    let check = || {
        let config = site.place.file("busyhour.toml", &site.configuration());
        let output = busyhour().arg("check-config").arg(config).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            output.status.success(),
            text + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (is_good, text) = check();
    assert!(is_good, "{text}");
    fs::copy(site.path("org", "key"), site.path("net", "key")).unwrap();
    let (is_good, text) = check();
    assert!(!is_good && text.contains("net-key.pem"), "{text}");
    assert!(
        text.contains("give the key that the certificate was made for"),
        "{text}"
    );
    site.make("net", &["phones.example.net"]);
    let chain = [
        site.path("net", "certificate"),
        site.path("org", "certificate"),
    ];
    let chain = chain.map(|path| fs::read_to_string(path).unwrap()).concat();
    fs::write(site.path("net", "certificate"), chain).unwrap();
    let (is_good, text) = check();
    assert!(!is_good && text.contains("net-certificate.pem"), "{text}");
    assert!(
        text.contains("give the server's own certificate first"),
        "{text}"
    );
}

/// A telephone on a connection over TLS.
struct Caller {
    user: &'static str,
    stream: TlsStream,
    heard: Vec<u8>,
}

impl Caller {
    /// One that has registered.
    fn new(server: SocketAddr, user: &'static str) -> Self {
        let stream = connect(server, "sip.example.com").unwrap();
        let patience = Some(Duration::from_secs(60));
        stream.sock.set_read_timeout(patience).unwrap();
        let mut caller = Self {
            user,
            stream,
            heard: Vec::new(),
        };
        let own = format!("<sip:{user}@example.com>");
        caller.send(&caller.request("REGISTER", "sip:example.com", 1, &own, ""));
        caller.hear("SIP/2.0 200 ");
        caller
    }

    fn request(&self, method: &str, uri: &str, cseq: u32, to: &str, more: &str) -> String {
        Self::written(self.user, method, uri, cseq, to, more)
    }

    fn written(user: &str, method: &str, uri: &str, cseq: u32, to: &str, more: &str) -> String {
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/TLS {user}.invalid;branch=z9hG4bK{user}{method}{cseq}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{user}@example.com>;tag={user}\r\nTo: {to}\r\n\
             Call-ID: of-{user}\r\nCSeq: {cseq} {method}\r\n{more}\
             Contact: <sip:{user}@{user}.invalid;transport=tls;ob>\r\nContent-Length: 0\r\n\r\n"
        )
    }

    fn send(&mut self, message: &str) {
        self.stream.write_all(message.as_bytes()).unwrap();
    }

    /// The next message that begins so. None has a body.
    fn hear(&mut self, begin: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.heard).into_owned();
            if let Some((message, rest)) = text.split_once("\r\n\r\n") {
                self.heard = rest.into();
                if message.starts_with(begin) {
                    return message.to_owned();
                }
                continue;
            }
            let mut room = [0; 4096];
            let len = self.stream.read(&mut room).unwrap();
            assert_ne!(len, 0, "the connection has ended");
            self.heard.extend_from_slice(&room[..len]);
        }
    }

    /// Answers a request with 200.
    fn answer(&mut self, request: &str) {
        let kept = ["Via", "From", "Call-ID", "CSeq", "Record-Route"];
        let lines = kept.iter().flat_map(|name| {
            values(request, name).map(move |value| format!("{name}: {value}\r\n"))
        });
        let lines: String = lines.collect();
        let (user, to) = (self.user, value(request, "To"));
        let tag = if to.contains("tag=") { "" } else { ";tag=t" };
        let contact = format!("<sip:{user}@{user}.invalid;transport=tls;ob>");
        self.send(&format!(
            "SIP/2.0 200 OK\r\n{lines}To: {to}{tag}\r\nContact: {contact}\r\nContent-Length: 0\r\n\r\n"
        ));
    }
}

fn values<'m>(message: &'m str, name: &'m str) -> impl Iterator<Item = &'m str> {
    let of = move |line: &'m str| line.strip_prefix(name)?.strip_prefix(": ");
    message.lines().filter_map(of)
}

fn value<'m>(message: &'m str, name: &'m str) -> &'m str {
    values(message, name)
        .next()
        .unwrap_or_else(|| panic!("no {name} in {message}"))
}

struct Site {
    place: Place,
}

impl Site {
    fn new() -> Self {
        let site = Self {
            place: Place::new(),
        };
        site.make("sip", &["sip.example.com"]);
        site.make("net", &["phones.example.net"]);
        site.make("org", &["*.example.org"]);
        site
    }

    fn path(&self, name: &str, what: &str) -> PathBuf {
        self.place.path(&format!("{name}-{what}.pem"))
    }

    fn make(&self, name: &str, names: &[&str]) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        self.write(name, CertificateParams::new(names).unwrap());
    }

    fn write(&self, name: &str, mut params: CertificateParams) {
        let common = rcgen::DnType::CommonName;
        params
            .distinguished_name
            .push(common, format!("{name} of a test"));
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        fs::write(self.path(name, "certificate"), made.pem()).unwrap();
        fs::write(self.path(name, "key"), key.serialize_pem()).unwrap();
    }

    /// The certificate in a file.
    fn of(&self, name: &str) -> Vec<u8> {
        use rustls::pki_types::pem::PemObject;
        let path = self.path(name, "certificate");
        CertificateDer::from_pem_file(path).unwrap().to_vec()
    }

    fn configuration(&self) -> String {
        let pair = |name: &str| {
            let [certificate, key] = ["certificate", "key"].map(|what| self.path(name, what));
            format!("[[certificate]]\ncertificate = {certificate:?}\nkey = {key:?}\n")
        };
        format!(
            "[sip]\ntls = \"127.0.0.1:0\"\nauth = \"open\"\ntls_certificate = {:?}\ntls_key = {:?}\n\
             [http]\ntls_listen = \"127.0.0.1:0\"\n{}{}\
             {TOKEN}",
            self.path("sip", "certificate"),
            self.path("sip", "key"),
            pair("net"),
            pair("org"),
        )
    }

    fn start(&self) -> ServerProcess {
        self.place.server(&self.configuration())
    }
}

fn shown(address: SocketAddr, name: &str) -> Vec<u8> {
    support::tls_client::shown(address, name).unwrap()
}

fn sip_tls(server: &ServerProcess) -> SocketAddr {
    address(server, "sip-tls")
}

fn get(address: SocketAddr, host: &str, path: &str) -> String {
    let mut stream = connect(address, host).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The server need not say goodbye.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}
