//! A client that takes any certificate, and asks a server to read its own again.

use super::ServerProcess;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// The address of this name in the line that says that the server is ready.
pub fn address(server: &ServerProcess, name: &str) -> SocketAddr {
    let ready = server.said.last().unwrap();
    let prefix = format!("{name}=");
    let mut words = ready
        .split(' ')
        .filter_map(|word| word.strip_prefix(&prefix));
    let found = words.next();
    found
        .unwrap_or_else(|| panic!("no {name} in {ready}"))
        .parse()
        .unwrap()
}

/// The certificate that a peer is shown who asks for this name; `None` while there is none.
pub fn shown(address: SocketAddr, name: &str) -> Option<Vec<u8>> {
    let stream = connect(address, name)?;
    Some(stream.conn.peer_certificates()?[0].to_vec())
}

pub fn connect(address: SocketAddr, name: &str) -> Option<TlsStream> {
    over(TcpStream::connect(address).unwrap(), name)
}

/// The same over this connection.
pub fn over(mut stream: TcpStream, name: &str) -> Option<TlsStream> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream).ok()?;
    }
    Some(StreamOwned::new(session, stream))
}

/// Posts nothing to a path, with the token of [`TOKEN`].
pub fn post(server: &ServerProcess, path: &str) -> String {
    let mut stream = TcpStream::connect(server.http).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-token-of-this-test\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Takes any certificate: the tests look at it.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The token of these tests, in the configuration.
pub const TOKEN: &str = "[[token]]\nname = \"test\"\nscope = \"write\"\n\
    sha256 = \"0fb7321b7012da4d334ad40240dee8a1ccb352cd6f2b22fbeaedd3978e1f556a\"\n";
