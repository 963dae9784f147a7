//! Who we are to the peers of TLS, and who they are.

mod authorities;
mod expected;
mod subject;

pub use authorities::Authorities;
pub(super) use expected::session_with;

use busyhour_sip::Transport;
use rustls::{
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::{CertifiedKey, SingleCertAndKey},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

/// A certificate with its chain and its private key, ready to be shown.
#[derive(Clone)]
pub struct Certificate {
    server: Arc<ServerConfig>,
    /// For browsers, which would ask their user for a certificate of his own.
    browsers: Arc<ServerConfig>,
    own: Arc<CertifiedKey>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or does not contain what it should.
    #[error("{setting}: {path}: {problem}")]
    File {
        /// Which setting names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The two files do not belong together, or the certificate is unusable.
    #[error(
        "sip.tls_key: {key}: cannot be used with the certificate in {certificate}: {problem}; give the key that the certificate was made for"
    )]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong.
        problem: rustls::Error,
    },
}

impl Certificate {
    /// Reads a certificate with its chain, ours first, and its key, both in PEM.
    ///
    /// # Errors
    ///
    /// What is wrong with which file, and what to do.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let nobody = WebPkiClientVerifier::no_client_auth();
        Self::read_for(certificate, key, nobody)
    }

    /// As [`read`](Self::read); clients are asked for a certificate of their own, and need not
    /// have one: [`Network::shown_certificate`](crate::server::Network::shown_certificate)
    /// tells it.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn read_asking_clients(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let anybody = Arc::new(AnyClient(ring::default_provider()));
        Self::read_for(certificate, key, anybody)
    }

    fn read_for(
        certificate: &Path,
        key: &Path,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<Self, CertificateError> {
        let unusable = |problem| CertificateError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            problem,
        };
        let provider = ring::default_provider();
        let (chain, private) = (chain_of(CERTIFICATE, certificate)?, private_key(key)?);
        let own = CertifiedKey::from_der(chain, private, &provider).map_err(unusable)?;
        let own = Arc::new(own);
        let provider = Arc::new(provider);
        let config_for = |clients| {
            let versions = ServerConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions();
            let config = versions
                .map_err(unusable)?
                .with_client_cert_verifier(clients)
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(own.clone())));
            Ok(Arc::new(config))
        };
        Ok(Self {
            server: config_for(clients)?,
            browsers: config_for(WebPkiClientVerifier::no_client_auth())?,
            own,
        })
    }
}

impl Certificate {
    /// All problems of the two files; each may be missing in the configuration.
    pub fn errors(certificate: Option<&Path>, key: Option<&Path>) -> Vec<CertificateError> {
        let chain_error = certificate.and_then(|path| chain_of(CERTIFICATE, path).err());
        let key_error = key.and_then(|path| private_key(path).err());
        let mut errors: Vec<_> = chain_error.into_iter().chain(key_error).collect();
        if let (true, Some(certificate), Some(key)) = (errors.is_empty(), certificate, key) {
            errors.extend(Self::read(certificate, key).err());
        }
        errors
    }
}

impl CertificateError {
    /// The setting to repair.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::File { setting, .. } => setting,
            Self::Unusable { .. } => KEY,
        }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

/// Takes the certificate of any client, who proves that he has its key. Who he is follows from
/// its fingerprint, which the operator has written down, or from its names if an authority
/// vouches for it, which is looked at later.
#[derive(Debug)]
struct AnyClient(CryptoProvider);

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The certificate that new connections are shown, and who vouches for those of others.
pub(super) struct Identity(RwLock<(Option<Certificate>, Option<Authorities>)>);

impl Identity {
    pub(super) fn new(certificate: Option<Certificate>, authorities: Option<Authorities>) -> Self {
        Self(RwLock::new((certificate, authorities)))
    }

    /// For a connection that comes in.
    pub(super) fn server(&self, transport: Transport) -> Option<Arc<ServerConfig>> {
        let config = |it: &Certificate| match transport.is_web_socket() {
            true => it.browsers.clone(),
            false => it.server.clone(),
        };
        self.read().0.as_ref().map(config)
    }

    /// For one that goes out.
    pub(super) fn own(&self) -> Option<Arc<CertifiedKey>> {
        self.read().0.as_ref().map(|it| it.own.clone())
    }

    pub(super) fn authorities(&self) -> Option<Authorities> {
        self.read().1.clone()
    }

    pub(super) fn replace(
        &self,
        certificate: Option<Certificate>,
        authorities: Option<Authorities>,
    ) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (certificate, authorities);
    }

    fn read(&self) -> RwLockReadGuard<'_, (Option<Certificate>, Option<Authorities>)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The certificates in a file; at least one.
fn chain_of(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let wrap = |error| file_error(setting, path, &error, "certificate");
    let chain = CertificateDer::pem_file_iter(path).map_err(wrap)?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(wrap)?;
    match chain.is_empty() {
        true => Err(wrap(pem::Error::NoItemsFound)),
        false => Ok(chain),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let key = PrivateKeyDer::from_pem_file(path);
    key.map_err(|error| file_error(KEY, path, &error, "private key without a password"))
}

fn file_error(
    setting: &'static str,
    path: &Path,
    error: &pem::Error,
    wanted: &str,
) -> CertificateError {
    let problem = match error {
        pem::Error::Io(error) => {
            format!("cannot be read: {error}; give the path of a PEM file that the server may read")
        }
        pem::Error::NoItemsFound => format!("contains no {wanted}; give a PEM file with one"),
        other => format!("is not a valid PEM file: {other}; give one with a {wanted}"),
    };
    CertificateError::File {
        setting,
        path: path.to_owned(),
        problem,
    }
}

const CERTIFICATE: &str = "sip.tls_certificate";
const KEY: &str = "sip.tls_key";
