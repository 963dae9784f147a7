//! Certificates by ACME from a real authority: Pebble, the one that Let's Encrypt tests with. It
//! refuses some of the nonces that it has given, as real ones may.

#[path = "support/authority.rs"]
mod authority;
mod support;

use authority::Authority;
use rcgen::SanType;
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command},
};
use support::{
    Place, ServerProcess,
    ports::free_port,
    tls_client::{TOKEN, address, post},
    wait_until,
};
use x509_parser::prelude::{FromDer, X509Certificate};

#[test]
fn a_server_without_a_certificate_gets_one_over_http_and_keeps_it() {
    let site = Site::start("http-01");
    let server = site.server();
    let tls = address(&server, "sip-tls");
    wait_until(
        || issuer(tls).is_some_and(|it| it.contains("Pebble")),
        || server.log(),
    );
    let first = shown(tls).unwrap();
    let mode = |name: &str| fs::metadata(site.kept(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode("account.json"), mode("certificate.pem")),
        (0o600, 0o600)
    );
    let account = fs::read(site.kept("account.json")).unwrap();
    assert!(server.get("/api/certificates").contains("\"localhost\""));
    assert!(server.stop().success());
    let server = site.server();
    let tls = address(&server, "sip-tls");
    assert_eq!(
        shown(tls).unwrap(),
        first,
        "it is there at once, and none is ordered"
    );

    assert!(post(&server, "/api/certificates/renew").starts_with("HTTP/1.1 202 "));
    wait_until(|| shown(tls).is_some_and(|it| it != first), || server.log());
    let second = shown(tls).unwrap();
    assert_eq!(
        fs::read(site.kept("account.json")).unwrap(),
        account,
        "the same account"
    );

    // The authority looks where nobody answers: the old certificate stays.
    let mut elsewhere = site.serve(free_port());
    assert!(server.stop().success());
    // A new account: Pebble takes one authorization in a hundred again, even if it is to take none.
    fs::remove_file(site.kept("account.json")).unwrap();
    let server = ServerProcess::start(&mut elsewhere, &site.place);
    let tls = address(&server, "sip-tls");
    assert!(post(&server, "/api/certificates/renew").starts_with("HTTP/1.1 202 "));
    // The authority says so of the name, or of the order, whichever is asked first.
    let is_told = |alerts: String| alerts.contains("are ours") || alerts.contains("acme-challenge");
    wait_until(|| is_told(server.get("/api/alerts")), || server.log());
    assert_eq!(shown(tls).unwrap(), second);
    assert!(server.log().contains("tried again in so many seconds"));
    let again = post(&server, "/api/certificates/renew");
    assert!(
        again.starts_with("HTTP/1.1 429 "),
        "the third in a moment: {again}"
    );
}

#[test]
fn a_server_shows_over_tls_that_a_name_is_its_own() {
    let site = Site::start("tls-alpn-01");
    let server = site.server();
    let tls = address(&server, "sip-tls");
    wait_until(
        || issuer(tls).is_some_and(|it| it.contains("Pebble")),
        || server.log(),
    );
    let https = address(&server, "https");
    assert_eq!(shown(https), shown(tls));
}

#[test]
fn a_program_of_the_operator_shows_in_dns_that_a_name_is_ours() {
    let site = Site::start("dns-01");
    let server = site.server();
    let tls = address(&server, "sip-tls");
    wait_until(
        || issuer(tls).is_some_and(|it| it.contains("Pebble")),
        || server.log(),
    );
    // Nobody answered over HTTP: the record was there, and is there no more.
    let said = || fs::read_to_string(site.place.path("hook.log")).unwrap_or_default();
    wait_until(|| said().contains("remove"), said);
    let said = said();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    let value = lines[0].strip_prefix("present _acme-challenge.localhost ");
    let value = value.expect("the record's name");
    assert_eq!(value.len(), 43, "a SHA-256 in base64url: {value}");
    assert_eq!(
        lines[1],
        format!("remove _acme-challenge.localhost {value}")
    );
}

/// A Pebble, and where the server that it looks at has its files.
struct Site {
    place: Place,
    pebble: Child,
    /// Answers for DNS, and is told what by a program.
    dns: Child,
    directory: String,
    challenge: &'static str,
    http_port: u16,
    tls_port: u16,
}

impl Site {
    fn start(challenge: &'static str) -> Self {
        let place = Place::new();
        let authority = Authority::new();
        let own = authority.vouch(SanType::DnsName("localhost".try_into().unwrap()));
        place.file("authority.pem", &authority.pem());
        let certificate = place.file("pebble.pem", &own.cert.pem());
        let key = place.file("pebble.key", &own.signing_key.serialize_pem());
        let [port, management, http_port, tls_port] = [(); 4].map(|()| free_port());
        let configuration = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": certificate, "privateKey": key,
            "httpPort": http_port, "tlsPort": tls_port,
            "ocspResponderURL": "", "externalAccountBindingRequired": false,
        }});
        let configuration = place.file("pebble.json", &configuration.to_string());
        let log = fs::File::create(place.path("pebble.log")).unwrap();
        let [dns_port, told_port] = [(); 2].map(|()| free_port());
        let dns = Command::new("/usr/bin/pebble-challtestsrv")
            .args([
                "-http01",
                "",
                "-https01",
                "",
                "-tlsalpn01",
                "",
                "-defaultIPv6",
                "",
            ])
            .args(["-dns01", &format!("127.0.0.1:{dns_port}")])
            .args(["-management", &format!("127.0.0.1:{told_port}")])
            .stdout(log.try_clone().unwrap())
            .stderr(log.try_clone().unwrap())
            .spawn()
            .expect("pebble-challtestsrv, which Debian's pebble has");
        let hook = HOOK
            .replace("LOG", &place.path("hook.log").display().to_string())
            .replace("PORT", &told_port.to_string());
        let hook = place.file("dns-hook", &hook);
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
        let pebble = Command::new(pebble())
            .arg("-config")
            .arg(configuration)
            .arg(format!("-dnsserver=127.0.0.1:{dns_port}"))
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "5")
            // It looks again at (almost) each order whether a name is ours.
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_until(is_up, || {
            fs::read_to_string(place.path("pebble.log")).unwrap()
        });
        Self {
            place,
            pebble,
            dns,
            directory: format!("https://localhost:{port}/dir"),
            challenge,
            http_port,
            tls_port,
        }
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.place.path("acme").join(name)
    }

    fn server(&self) -> ServerProcess {
        ServerProcess::start(&mut self.serve(self.http_port), &self.place)
    }

    /// A server that answers over HTTP at this port.
    fn serve(&self, http_port: u16) -> Command {
        let configuration = format!(
            "[sip]\ntls = \"127.0.0.1:0\"\nauth = \"open\"\n\
             [http]\ntls_listen = \"127.0.0.1:{}\"\n\
             [acme]\ndirectory = {:?}\nnames = [\"localhost\"]\nchallenge = {:?}\n\
             listen = \"127.0.0.1:{http_port}\"\nfolder = {:?}\nauthorities = {:?}\n\
             dns_hook = {:?}\n{TOKEN}",
            self.tls_port,
            self.directory,
            self.challenge,
            self.place.path("acme"),
            self.place.path("authority.pem"),
            self.place.path("dns-hook"),
        );
        let mut command = self.place.serve();
        command
            .arg("--config")
            .arg(self.place.file("busyhour.toml", &configuration));
        command
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for child in [&mut self.pebble, &mut self.dns] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Tells the server of DNS by an HTTP request, as bash can write one.
const HOOK: &str = r#"#!/bin/bash
echo "$@" >>LOG
case $1 in present) path=set-txt ;; *) path=clear-txt ;; esac
body="{\"host\":\"$2.\",\"value\":\"$3\"}"
exec 3<>/dev/tcp/127.0.0.1/PORT
printf 'POST /%s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s' "$path" ${#body} "$body" >&3
grep -q ' 200 ' <&3
"#;

/// The authority's program, which `scripts/install-deps.sh` installs.
fn pebble() -> PathBuf {
    let path = PathBuf::from("/usr/bin/pebble");
    assert!(
        path.exists(),
        "no {}: run scripts/install-deps.sh",
        path.display()
    );
    path
}

fn issuer(address: SocketAddr) -> Option<String> {
    let shown = shown(address)?;
    let (_, certificate) = X509Certificate::from_der(&shown).ok()?;
    Some(certificate.issuer().to_string())
}

/// The certificate that is shown at an address; `None` while there is none.
fn shown(address: SocketAddr) -> Option<Vec<u8>> {
    support::tls_client::shown(address, "localhost")
}
