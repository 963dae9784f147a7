//! A server that takes connections, and somebody who calls over UDP.

use crate::{
    client::{Client, connect},
    exchange::{digest_config, proof},
};
use busyhour::runtime::Runtime;
use busyhour_server::{
    net::{self, Authorities, Sockets, StreamOptions, Streams, Udp, UdpOptions},
    server::{PeerConfig, Server, ServerConfig},
};
use busyhour_sip::{HeaderName, Message, Transport};
use busyhour_store::MemoryStore;
use rcgen::{Certificate, CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use std::{
    fs,
    net::{SocketAddr, TcpStream, UdpSocket},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

pub type Made = CertifiedKey<KeyPair>;
pub type Connection = Client<StreamOwned<ClientConnection, TcpStream>>;

pub struct Site {
    pub runtime: Runtime,
    pub network: Arc<Sockets>,
    pub server: Server,
    pub made: Made,
}

impl Site {
    /// A server with these peers, which shows `made`, and trusts this authority.
    pub fn new(peers: Vec<PeerConfig>, made: Made, authority: Option<&Certificate>) -> Self {
        Self::with(peers, made, authority, StreamOptions::default())
    }

    /// The same with these options, as far as they do not follow from that.
    pub fn with(
        peers: Vec<PeerConfig>,
        made: Made,
        authority: Option<&Certificate>,
        options: StreamOptions,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let write = |name: &str, pem: String| {
            let path = folder.path().join(name);
            fs::write(&path, pem).unwrap();
            path
        };
        let certificate = write("certificate.pem", made.cert.pem());
        let key = write("key.pem", made.signing_key.serialize_pem());
        let authorities = authority.map(|it| write("authorities.pem", it.pem()));
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let own = net::Certificate::read_asking_clients(&certificate, &key).unwrap();
        let network = Arc::new(Sockets {
            sip: Udp::bind(&UdpOptions::new([here])).unwrap(),
            streams: Streams::bind(StreamOptions {
                tcp: vec![here],
                tls: vec![here],
                certificate: Some(own),
                authorities: authorities.map(|path| Authorities::read(&path).unwrap()),
                tls_targets: peers.iter().flat_map(PeerConfig::tls_targets).collect(),
                ..options
            })
            .unwrap(),
            iax2: Udp::bind(&UdpOptions::new([])).unwrap(),
            capture: Udp::bind(&UdpOptions::new([])).unwrap(),
            media: Udp::bind(&UdpOptions::new([])).unwrap(),
            nodes: Arc::new(Udp::bind(&UdpOptions::new([])).unwrap()),
        });
        let config = ServerConfig {
            peers,
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

    pub fn address(&self, transport: Transport) -> SocketAddr {
        let mut addresses = self.network.streams.addresses(transport);
        addresses.next().unwrap()
    }

    /// A client over TLS that shows this certificate, or none.
    pub fn connect(&self, own: Option<&Made>) -> Connection {
        self.connect_at(self.address(Transport::Tls), own)
    }

    /// The same at this address.
    pub fn connect_at(&self, address: SocketAddr, own: Option<&Made>) -> Connection {
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
        Client::over(StreamOwned::new(session, connect(address)))
    }

    pub fn end(self) {
        self.network.stop_receiving();
        self.server.shutdown(Duration::from_secs(10));
        self.runtime.shutdown(Duration::from_secs(10));
    }
}

/// Bob's telephone, over UDP.
pub struct Bob {
    socket: UdpSocket,
    server: SocketAddr,
    sent: u32,
}

impl Bob {
    pub fn new(site: &Site) -> Self {
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
    pub fn ask(&mut self, method: &str, uri: &str, to: &str) -> String {
        let request = self.request(method, uri, to);
        self.send(&request);
        let challenge = self.answer();
        let request = self.request(method, uri, to);
        self.send(&proven(&request, &challenge));
        self.answer()
    }

    /// The next response to the last request.
    fn answer(&self) -> String {
        let own = format!("Call-ID: b{}@", self.sent);
        loop {
            let heard = self.hear();
            if heard.starts_with("SIP/2.0 ") && heard.contains(&own) {
                return heard;
            }
        }
    }

    /// The final response to the last request; a refused INVITE is acknowledged.
    pub fn final_answer(&self) -> String {
        loop {
            let answer = self.answer();
            if status(&answer) >= 300 {
                self.send(&ack_of(&answer));
            }
            if status(&answer) >= 200 {
                return answer;
            }
        }
    }

    /// The next request of this method.
    pub fn hear_request(&self, method: &str) -> String {
        loop {
            let heard = self.hear();
            if heard.starts_with(method) {
                return heard;
            }
        }
    }

    /// A request within the dialog that the answer to the last INVITE has made.
    pub fn within(&self, method: &str, answer: &str) -> String {
        let message = Message::parse(answer.as_bytes()).unwrap();
        let routes = message.headers(HeaderName::RecordRoute);
        let mut routes: Vec<_> = routes.flat_map(|line| line.split(", ")).collect();
        routes.reverse();
        let of = |name| message.header(name).unwrap();
        let (address, sent) = (self.socket.local_addr().unwrap(), self.sent);
        let cseq = if method == "ACK" { sent } else { sent + 1 };
        format!(
            "{method} {} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK{method}{sent};rport\r\nMax-Forwards: 70\r\n\
             Route: {}\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {cseq} {method}\r\n\
             Content-Length: 0\r\n\r\n",
            of(HeaderName::Contact).trim_matches(['<', '>']),
            routes.join(", "),
            of(HeaderName::From),
            of(HeaderName::To),
            of(HeaderName::CallId),
        )
    }

    pub fn request(&mut self, method: &str, uri: &str, to: &str) -> String {
        self.sent += 1;
        let (sent, address) = (self.sent, self.socket.local_addr().unwrap());
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bKb{sent};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:bob@example.com>;tag=b{sent}\r\nTo: <{to}>\r\n\
             Call-ID: b{sent}@{address}\r\nCSeq: {sent} {method}\r\n\
             Contact: <sip:bob@{address}>\r\nContent-Length: 0\r\n\r\n"
        )
    }

    pub fn send(&self, text: &str) {
        self.socket.send_to(text.as_bytes(), self.server).unwrap();
    }

    pub fn hear(&self) -> String {
        let mut room = [0; 4096];
        let len = self.socket.recv(&mut room).unwrap();
        String::from_utf8(room[..len].to_vec()).unwrap()
    }
}

/// A request of bob's with his proof.
pub fn proven(request: &str, challenge: &str) -> String {
    let plain = challenge.replace("Proxy-Authenticate: ", "WWW-Authenticate: ");
    let proof = proof(request, &plain, "bob", "bob").counted(1, "cnonce");
    let name = match challenge.starts_with("SIP/2.0 407 ") {
        true => "Proxy-Authorization",
        false => "Authorization",
    };
    let line = format!("{name}: {proof}\r\nContent-Length");
    request.replace("Content-Length", &line)
}

/// The ACK of a refusal (RFC 3261 §17.1.1.3).
fn ack_of(refusal: &str) -> String {
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let lines = refusal.lines();
    let lines = lines.filter(|line| kept.iter().any(|name| line.starts_with(name)));
    let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
    let lines = lines.replace(" INVITE\r\n", " ACK\r\n");
    format!(
        "ACK sip:0123@example.com SIP/2.0\r\n{lines}Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    )
}

/// The response of a telephone to a request.
pub fn respond(request: &str, status: &str, contact: &str) -> String {
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

/// A certificate that nobody vouches for.
pub fn self_signed(name: &str) -> Made {
    generate_simple_self_signed([name.to_owned()]).unwrap()
}

pub fn status(text: &str) -> u16 {
    let message = Message::parse(text.as_bytes()).unwrap();
    message.status().unwrap_or(0)
}
