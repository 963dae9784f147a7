//! A peer that is known by its certificate, over real sockets.

use crate::{
    client::{Client, connect},
    exchange::{digest_config, proof},
};
use busyhour::runtime::Runtime;
use busyhour_server::{
    net::{Certificate, Sockets, StreamOptions, Streams, Udp, UdpOptions},
    server::{CertificateFingerprint, PeerConfig, Server, ServerConfig},
};
use busyhour_sip::{Message, Transport};
use busyhour_store::MemoryStore;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use sha2::{Digest, Sha256};
use std::{
    fs,
    net::{SocketAddr, TcpStream, UdpSocket},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

type Made = CertifiedKey<KeyPair>;
type Connection = Client<StreamOwned<ClientConnection, TcpStream>>;

struct Site {
    runtime: Runtime,
    network: Arc<Sockets>,
    server: Server,
    made: Made,
}

impl Site {
    fn new(pbx: &Made) -> Self {
        let folder = TempDir::new().unwrap();
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|it| folder.path().join(it));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let network = Arc::new(Sockets {
            sip: Udp::bind(&UdpOptions::new([here])).unwrap(),
            streams: Streams::bind(StreamOptions {
                tls: vec![here],
                certificate: Some(Certificate::read_asking_clients(&certificate, &key).unwrap()),
                ..StreamOptions::default()
            })
            .unwrap(),
            iax2: Udp::bind(&UdpOptions::new([])).unwrap(),
            capture: Udp::bind(&UdpOptions::new([])).unwrap(),
        });
        let shown = Sha256::digest(pbx.cert.der());
        let config = ServerConfig {
            peers: vec![PeerConfig {
                name: "pbx".to_owned(),
                certificates: vec![CertificateFingerprint(shown.into())],
                may_call: true,
                prefixes: vec!["0".to_owned()],
                ..PeerConfig::default()
            }],
            ..digest_config()
        };
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, network.clone(), store).unwrap();
        network.attach(&server, &runtime).unwrap();
        Self {
            runtime,
            network,
            server,
            made,
        }
    }

    /// A client over TLS that shows this certificate, or none.
    fn connect(&self, own: Option<&Made>) -> Connection {
        let mut roots = RootCertStore::empty();
        roots.add(self.made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            Some(own) => {
                let key = own.signing_key.serialize_pem();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![own.cert.der().clone()], key)
            }
            None => Ok(config.with_no_client_auth()),
        };
        let name = "localhost".try_into().unwrap();
        let session = ClientConnection::new(Arc::new(config.unwrap()), name).unwrap();
        let address = self
            .network
            .streams
            .addresses(Transport::Tls)
            .next()
            .unwrap();
        Client::over(StreamOwned::new(session, connect(address)))
    }

    fn end(self) {
        self.network.stop_receiving();
        self.server.shutdown(Duration::from_secs(10));
        self.runtime.shutdown(Duration::from_secs(10));
    }
}

/// Bob's telephone, over UDP.
struct Bob {
    socket: UdpSocket,
    server: SocketAddr,
    sent: u32,
}

impl Bob {
    fn new(site: &Site) -> Self {
        let socket = UdpSocket::bind("127.0.0.2:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let server = site.network.sip.addresses()[0];
        Self {
            socket,
            server,
            sent: 0,
        }
    }

    /// Sends a request, answers the challenge, and returns the next response.
    fn ask(&mut self, method: &str, uri: &str, to: &str) -> String {
        let request = self.request(method, uri, to);
        self.send(&request);
        let challenge = self.hear();
        let plain = challenge.replace("Proxy-Authenticate: ", "WWW-Authenticate: ");
        let request = self.request(method, uri, to);
        let proof = proof(&request, &plain, "bob", "bob").counted(1, "cnonce");
        let name = match challenge.starts_with("SIP/2.0 407 ") {
            true => "Proxy-Authorization",
            false => "Authorization",
        };
        let line = format!("{name}: {proof}\r\nContent-Length");
        self.send(&request.replace("Content-Length", &line));
        self.hear()
    }

    fn request(&mut self, method: &str, uri: &str, to: &str) -> String {
        self.sent += 1;
        let (sent, address) = (self.sent, self.socket.local_addr().unwrap());
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bKb{sent};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:bob@example.com>;tag=b{sent}\r\nTo: <{to}>\r\n\
             Call-ID: b{sent}@{address}\r\nCSeq: {sent} {method}\r\n\
             Contact: <sip:bob@{address}>\r\nContent-Length: 0\r\n\r\n"
        )
    }

    fn send(&self, text: &str) {
        self.socket.send_to(text.as_bytes(), self.server).unwrap();
    }

    fn hear(&self) -> String {
        let mut room = [0; 4096];
        let len = self.socket.recv(&mut room).unwrap();
        String::from_utf8(room[..len].to_vec()).unwrap()
    }
}

/// An INVITE for bob in the name of a stranger, who says so of himself.
fn invite(call_id: &str) -> String {
    format!(
        "INVITE sip:bob@example.com SIP/2.0\r\n\
         Via: SIP/2.0/TLS 192.0.2.9:5061;branch=z9hG4bK{call_id};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:0123@pbx.example.net>;tag=p\r\nTo: <sip:bob@example.com>\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 INVITE\r\nContact: <sip:0123@192.0.2.9:5061;transport=tls>\r\n\
         P-Asserted-Identity: <sip:0123@pbx.example.net>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// The response of a telephone to a request.
fn respond(request: &str, status: &str, contact: &str) -> String {
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"];
    let lines = request
        .lines()
        .filter(|line| kept.iter().any(|name| line.starts_with(name)))
        .map(
            |line| match line.starts_with("To:") && !line.contains("tag=") {
                true => format!("{line};tag=t\r\n"),
                false => format!("{line}\r\n"),
            },
        );
    let lines: String = lines.collect();
    format!("SIP/2.0 {status}\r\n{lines}Contact: <{contact}>\r\nContent-Length: 0\r\n\r\n")
}

fn status(text: &str) -> u16 {
    let message = Message::parse(text.as_bytes()).unwrap();
    message.status().unwrap_or(0)
}

#[test]
fn a_peer_is_who_shows_its_certificate_and_is_called_on_its_connection() {
    let pbx = generate_simple_self_signed(["pbx".to_owned()]).unwrap();
    let other = generate_simple_self_signed(["pbx".to_owned()]).unwrap();
    let site = Site::new(&pbx);
    let mut bob = Bob::new(&site);
    let registered = bob.ask("REGISTER", "sip:example.com", "sip:bob@example.com");
    assert_eq!(status(&registered), 200, "{registered}");
    let before = bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com");
    assert_eq!(status(&before), 480, "it is not connected: {before}");

    for own in [None, Some(&other)] {
        let mut stranger = site.connect(own);
        stranger.send(invite("stranger").as_bytes());
        assert_eq!(status(&stranger.message()), 403, "From is not of ours");
    }

    let mut peer = site.connect(Some(&pbx));
    peer.send(invite("from-pbx").as_bytes());
    assert_eq!(status(&peer.message()), 100);
    let ringing = bob.hear();
    assert!(
        ringing.contains("P-Asserted-Identity: <sip:0123@"),
        "{ringing}"
    );
    bob.send(&respond(&ringing, "486 Busy Here", "sip:bob@127.0.0.2"));
    assert_eq!(status(&peer.message()), 486);
    assert!(bob.hear().starts_with("ACK "));

    let trying = bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com");
    assert_eq!(status(&trying), 100, "{trying}");
    let called = peer.message();
    assert!(
        called.starts_with("INVITE sip:0123@example.com "),
        "{called}"
    );
    let contact = "sip:0123@192.0.2.9:5061;transport=tls";
    peer.send(respond(&called, "200 OK", contact).as_bytes());
    let answer = bob.hear();
    assert_eq!(status(&answer), 200, "{answer}");
    assert_eq!(site.server.calls(10).len(), 1);

    let views = site.server.peers();
    assert_eq!((views.len(), views[0].state), (1, Some("up")));
    assert!(views[0].address.starts_with("tls/127.0.0.1:"), "{views:?}");

    drop(peer);
    while site.network.streams.stream_stats().connection_count > 0 {
        std::thread::yield_now();
    }
    let after = bob.ask("INVITE", "sip:0123@example.com", "sip:0123@example.com");
    assert_eq!(status(&after), 480, "{after}");
    site.end();
}
