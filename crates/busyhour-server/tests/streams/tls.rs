//! TLS, with a certificate made by the test and a client of rustls.

use crate::{
    client::{Client, connect, pause, register},
    sockets::Fixture,
};
use busyhour_server::net::{Certificate, StreamOptions, StreamPolicy};
use busyhour_sip::Transport;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring,
    pki_types::CertificateDer,
};
use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A certificate for `localhost` and its key, in files.
struct Files {
    folder: TempDir,
    made: CertifiedKey<KeyPair>,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            folder: TempDir::new().unwrap(),
            made: generate_simple_self_signed(["localhost".to_owned()]).unwrap(),
        };
        fs::write(files.certificate(), files.made.cert.pem()).unwrap();
        fs::write(files.key(), files.made.signing_key.serialize_pem()).unwrap();
        files
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    fn read(&self) -> Certificate {
        Certificate::read(&self.certificate(), &self.key()).unwrap()
    }

    fn fixture(&self) -> Fixture {
        self.fixture_with(StreamPolicy::default())
    }

    fn fixture_with(&self, policy: StreamPolicy) -> Fixture {
        Fixture::with(StreamOptions {
            tls: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            certificate: Some(self.read()),
            policy,
            ..StreamOptions::default()
        })
    }

    fn der(&self) -> CertificateDer<'static> {
        self.made.cert.der().clone()
    }
}

/// A client that trusts only this certificate.
fn client(
    fixture: &Fixture,
    trusted: CertificateDer<'static>,
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = connect(fixture.address(Transport::Tls));
    Client::over(StreamOwned::new(session, socket))
}

#[test]
fn a_device_registers_over_tls() {
    let files = Files::new();
    let fixture = files.fixture();
    let mut client = client(&fixture, files.der());
    client.send(b"\r\n\r\n");
    assert_eq!(client.bytes(2), b"\r\n");
    for number in 0..200 {
        client.send(register(&format!("device{number}"), "TLS", 1).as_bytes());
    }
    for _ in 0..200 {
        assert!(client.message().starts_with("SIP/2.0 200 OK\r\n"));
    }
    let stats = fixture.streams.stream_stats();
    assert_eq!((stats.tls_handshakes, stats.received), (1, 200));
}

#[test]
fn a_client_without_tls_is_closed_and_counted() {
    let fixture = Files::new().fixture();
    let mut plain = Client::new(fixture.address(Transport::Tls));
    plain.send(register("alice", "TCP", 1).as_bytes());
    while plain.stream.write_all(b"\r\n").is_ok() {
        pause();
    }
    let stats = fixture.wait_for(|stats| stats.connection_count == 0);
    assert_eq!((stats.tls_failures, stats.received), (1, 0));
}

#[test]
fn a_handshake_has_a_time_limit() {
    let fixture = Files::new().fixture_with(StreamPolicy {
        handshake: Duration::from_millis(20),
        ..StreamPolicy::default()
    });
    let mut silent = Client::new(fixture.address(Transport::Tls));
    assert_eq!(silent.next(), None);
    let stats = fixture.wait_for(|stats| stats.connection_count == 0);
    assert_eq!((stats.closed_handshake, stats.closed_stalled), (1, 0));
}

#[test]
fn unfinished_handshakes_of_one_source_are_limited_and_finished_ones_do_not_count() {
    let files = Files::new();
    let fixture = files.fixture_with(StreamPolicy {
        handshakes_per_source_max: 1,
        ..StreamPolicy::default()
    });
    for _ in 0..3 {
        let mut phone = client(&fixture, files.der());
        phone.send(b"\r\n\r\n");
        assert_eq!(phone.bytes(2), b"\r\n");
    }
    let silent = connect(fixture.address(Transport::Tls));
    fixture.wait_for(|stats| stats.accepted == 4);
    assert_eq!(Client::new(fixture.address(Transport::Tls)).next(), None);
    fixture.wait_for(|stats| stats.refused_handshakes == 1);
    drop(silent);
    fixture.wait_for(|stats| stats.connection_count == 0);
    let mut phone = client(&fixture, files.der());
    phone.send(b"\r\n\r\n");
    assert_eq!(phone.bytes(2), b"\r\n");
}

#[test]
fn connections_beyond_the_limit_of_unfinished_handshakes_wait_and_are_served_later() {
    let files = Files::new();
    let fixture = files.fixture_with(StreamPolicy {
        handshakes_max: 1,
        handshake: LONG,
        handshake_grace: LONG,
        ..StreamPolicy::default()
    });
    let silent = connect(fixture.address(Transport::Tls));
    fixture.wait_for(|stats| stats.accepted == 1);
    thread::scope(|scope| {
        let phone = scope.spawn(|| {
            let mut phone = client(&fixture, files.der());
            phone.send(b"\r\n\r\n");
            phone.bytes(2)
        });
        fixture.wait_for(|stats| stats.handshake_waits > 0);
        assert_eq!(fixture.streams.stream_stats().accepted, 1);
        drop(silent);
        assert_eq!(phone.join().unwrap(), b"\r\n");
    });
}

#[test]
fn only_abandoned_handshakes_are_closed_for_new_ones() {
    let files = Files::new();
    let fixture = files.fixture_with(StreamPolicy {
        handshakes_max: 4,
        handshake: LONG,
        handshake_grace: Duration::from_millis(20),
        ..StreamPolicy::default()
    });
    let mut first = client(&fixture, files.der());
    first.send(b"\r\n\r\n");
    assert_eq!(first.bytes(2), b"\r\n");
    let address = fixture.address(Transport::Tls);
    let mut silent = Vec::from_iter((0..4).map(|_| Client::new(address)));
    fixture.wait_for(|stats| stats.accepted == 5);
    for displaced in 1..=2 {
        let mut phone = client(&fixture, files.der());
        phone.send(b"\r\n\r\n");
        assert_eq!(phone.bytes(2), b"\r\n");
        fixture.wait_for(|stats| stats.displaced_handshakes == displaced);
        assert_eq!(silent.remove(0).next(), None, "the oldest one is closed");
        // So that the number is at its limit again.
        silent.push(Client::new(address));
        fixture.wait_for(|stats| stats.accepted == 5 + 2 * displaced);
    }
    first.send(b"\r\n\r\n");
    assert_eq!(
        first.bytes(2),
        b"\r\n",
        "a connection with a finished handshake stays"
    );
    let stats = fixture.streams.stream_stats();
    assert_eq!((stats.closed_handshake, stats.displaced), (0, 0));
}

#[test]
fn a_new_certificate_is_used_for_new_connections() {
    let (old, new) = (Files::new(), Files::new());
    let fixture = old.fixture();
    let mut before = client(&fixture, old.der());
    before.send(b"\r\n\r\n");
    assert_eq!(before.bytes(2), b"\r\n");
    fixture.streams.replace_certificate(Some(new.read()), None);
    let mut after = client(&fixture, new.der());
    after.send(b"\r\n\r\n");
    assert_eq!(after.bytes(2), b"\r\n");
    before.send(b"\r\n\r\n");
    assert_eq!(before.bytes(2), b"\r\n", "the old connection continues");
    fixture.streams.replace_certificate(None, None);
    assert!(client(&fixture, new.der()).stream.flush().is_err());
    fixture.wait_for(|stats| stats.refused_no_certificate == 1);
}

#[test]
fn an_invalid_file_is_reported_with_the_reason() {
    let files = Files::new();
    let missing = files.folder.path().join("none.pem");
    let error = Certificate::read(&missing, &files.key())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!(
            "sip.tls_certificate: {}: cannot be read: ",
            missing.display()
        )),
        "{error}"
    );
    assert!(error.contains("; give the path of a PEM file"), "{error}");

    let error = Certificate::read(&files.certificate(), &files.certificate()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("sip.tls_key: "), "{error}");
    assert!(
        error.contains("contains no private key without a password; give a PEM file with one"),
        "{error}"
    );

    let error = Certificate::read(&files.key(), &files.key())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("contains no certificate; give a PEM file with one"),
        "{error}"
    );

    let other = Files::new();
    let error = Certificate::read(&files.certificate(), &other.key())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("give the key that the certificate was made for"),
        "{error}"
    );
}

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
