//! TLS to PostgreSQL, with the modes that its own clients know.
//!
//! | `sslmode` | encrypted | by whom the certificate must be signed | its name |
//! |---|---|---|---|
//! | `disable` | no | – | – |
//! | `prefer` (default) | where the database offers it | anybody | any |
//! | `require` | yes | anybody; `sslrootcert` where there is one | any |
//! | `verify-ca` | yes | `sslrootcert` | any |
//! | `verify-full` | yes | `sslrootcert` | the host of the URL |
//!
//! Without `sslrootcert` it is `~/.postgresql/root.crt`. With `sslrootcert=system` the mode
//! is `verify-full`, and no other is allowed; with a file, `prefer` is not.
//!
//! Without a check of the certificate, TLS protects against eavesdropping, but an
//! attacker in between can read and change everything.

use postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, InvalidDnsNameError, ServerName, UnixTime,
        pem::{self, PemObject},
    },
};
use std::{
    convert::Infallible,
    fmt, io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, client};

/// How a connection is made secret.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    /// The authorities that may sign the certificate of the database, if that is
    /// checked.
    roots: Option<PathBuf>,
}

/// What is checked of the database's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Nothing,
    Signature,
    SignatureAndName,
}

impl Tls {
    /// # Errors
    ///
    /// A sentence when the roots cannot be read.
    pub(super) fn new(check: Check, roots: Option<&Path>) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let (verifier, roots): (Arc<dyn ServerCertVerifier>, _) = match check {
            Check::Nothing => (Arc::new(Anybody(provider.clone())), None),
            Check::Signature | Check::SignatureAndName => {
                let path = root_file(roots)?;
                let verifier = verifier(&path, &provider)?;
                let is_named = check == Check::SignatureAndName;
                (Arc::new(Signed { verifier, is_named }), Some(path))
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        let config = Arc::new(config);
        Ok(Self { config, roots })
    }

    /// Advice about a handshake that failed for this reason, if there is any.
    pub(super) fn advice(&self, reason: &str) -> Option<String> {
        let roots = self.roots.as_ref()?.display();
        // The second where one of them has the name of the one that did.
        let is_unknown = ["UnknownIssuer", "BadSignature"].map(|word| reason.contains(word));
        is_unknown.contains(&true).then(|| {
            format!("no certificate in {roots} has signed the database's certificate; give sslrootcert=FILE with the certificate that has")
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Tls");
        shown.field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = Infallible;

    /// Asked for each connection, also by a socket, which has no name.
    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Infallible> {
        Ok(Handshake {
            connector: self.config.clone().into(),
            name: ServerName::try_from(host.to_owned()),
        })
    }
}

/// A handshake with the host of this name.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: Result<ServerName<'static>, InvalidDnsNameError>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let name = self.name.map_err(io::Error::other)?;
            let stream = self.connector.connect(name, stream).await?;
            Ok(Encrypted(Box::new(stream)))
        })
    }
}

/// A connection that others cannot read.
pub(super) struct Encrypted(Box<client::TlsStream<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The root file: the given one, the system's, or the user's own, as PostgreSQL's
/// clients look for it.
fn root_file(given: Option<&Path>) -> Result<PathBuf, String> {
    match given {
        Some(path) if is_system(path) => {
            let mut known = SYSTEM_ROOTS.iter().map(PathBuf::from);
            known.find(|path| path.exists()).ok_or_else(|| {
                format!(
                    "sslrootcert=system: none of these files exists: {}",
                    SYSTEM_ROOTS.join(", ")
                )
            })
        }
        Some(path) => Ok(path.to_owned()),
        None => own_roots().ok_or(NO_ROOT.into()),
    }
}

/// Whether the authorities are those of the operating system.
pub(super) fn is_system(path: &Path) -> bool {
    path.as_os_str() == SYSTEM
}

/// The user's own root file, if there is one.
pub(super) fn own_roots() -> Option<PathBuf> {
    let own = dirs::home_dir().map(|home| home.join(".postgresql/root.crt"));
    own.filter(|path| path.exists())
}

fn verifier(
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let said = |problem: &dyn fmt::Display| format!("sslrootcert {}: {problem}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| match error {
        pem::Error::Io(error) => said(&error),
        error => said(&error),
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| said(&error))?;
        // The system's file may contain certificates that are unusable by now.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(said(&"there is no certificate in it; give a PEM file"));
    }
    WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone())
        .build()
        .map_err(|error| said(&error))
}

/// A certificate that one of the roots has signed.
#[derive(Debug)]
struct Signed {
    verifier: Arc<WebPkiServerVerifier>,
    is_named: bool,
}

impl ServerCertVerifier for Signed {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let outcome = (self.verifier).verify_server_cert(own, others, name, staple, now);
        match outcome {
            // The name is checked last, after everything else.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.is_named => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        (self.verifier).verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        (self.verifier).verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Any server, with any certificate.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _staple: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.0.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

const SYSTEM: &str = "system";
const SYSTEM_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
const NO_ROOT: &str = "sslmode needs to know who may sign the database's certificate; give \
    sslrootcert=FILE, or sslrootcert=system";
