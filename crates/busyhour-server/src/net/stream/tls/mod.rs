//! Who we are to the peers of TLS, and who they are.

mod authorities;
mod certificate_files;
mod expected;
mod server_names;
mod subject;

pub use authorities::Authorities;
pub use certificate_files::CertificateFiles;
pub(super) use expected::session_with;

use crate::{net::ChallengeAnswers, server::CertificateStats};
use busyhour_sip::Transport;
use certificate_files::LoadedCertificate;
use rustls::{
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem, pem::PemObject},
    server::{
        ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
};
use server_names::{ChallengeNames, ServerNames};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

/// Certificates with their chains and private keys, ready to be shown: which one depends on the
/// name that a peer asks for.
#[derive(Clone)]
pub struct Certificate {
    server: Arc<ServerConfig>,
    /// For browsers, which would ask their user for a certificate of his own.
    browsers: Arc<ServerConfig>,
    https: Arc<ServerConfig>,
    own: Arc<CertifiedKey>,
    all: Arc<[LoadedCertificate]>,
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
        "{setting}: {key}: cannot be used with the certificate in {certificate}: {problem}; give the key that the certificate was made for"
    )]
    Unusable {
        /// Which setting names the key.
        setting: &'static str,
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong.
        problem: Box<rustls::Error>,
    },
}

impl Certificate {
    /// Reads a certificate with its chain, ours first, and its key, both in PEM.
    ///
    /// # Errors
    ///
    /// What is wrong with which file, and what to do.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        Self::read_all(&[CertificateFiles::of_sip(certificate, key)], false)
    }

    /// Reads several certificates, one at least. Clients are asked for one of their own if it
    /// `asks_clients`, as with [`read_asking_clients`](Self::read_asking_clients).
    ///
    /// # Errors
    ///
    /// The first that is wrong with one of the files, and what to do.
    ///
    /// # Panics
    ///
    /// Without files.
    pub fn read_all(
        files: &[CertificateFiles],
        asks_clients: bool,
    ) -> Result<Self, CertificateError> {
        Self::read_with(files, asks_clients, None)
    }

    /// As [`read_all`](Self::read_all); over HTTPS an authority that looks whether a name is ours
    /// by TLS (RFC 8737) gets its answer.
    ///
    /// # Errors
    ///
    /// The same.
    ///
    /// # Panics
    ///
    /// The same.
    pub fn read_with(
        files: &[CertificateFiles],
        asks_clients: bool,
        answers: Option<&ChallengeAnswers>,
    ) -> Result<Self, CertificateError> {
        let all: Vec<_> = files
            .iter()
            .map(CertificateFiles::read)
            .collect::<Result<_, _>>()?;
        let clients: Arc<dyn ClientCertVerifier> = match asks_clients {
            true => Arc::new(AnyClient(ring::default_provider())),
            false => WebPkiClientVerifier::no_client_auth(),
        };
        let names = Arc::new(ServerNames::new(&all).expect("one certificate at least"));
        let server = server_config(names.clone(), clients);
        let browsers = server_config(names.clone(), WebPkiClientVerifier::no_client_auth());
        let https = match answers {
            Some(answers) => challenge_config(Some(names.clone()), answers),
            None => https_config(browsers.clone(), &[HTTP]),
        };
        Ok(Self {
            server: Arc::new(server),
            browsers: Arc::new(browsers),
            https: Arc::new(https),
            own: names.default().clone(),
            all: all.into(),
        })
    }

    /// How connections over HTTPS are encrypted.
    pub fn https(&self) -> Arc<ServerConfig> {
        self.https.clone()
    }

    /// As [`read`](Self::read); clients are asked for a certificate of their own, and need not
    /// have one: [`Network::shown_certificate`](crate::server::Network::shown_certificate)
    /// tells it.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn read_asking_clients(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        Self::read_all(&[CertificateFiles::of_sip(certificate, key)], true)
    }
}

impl Certificate {
    /// All problems of the two files; each may be missing in the configuration.
    pub fn errors(certificate: Option<&Path>, key: Option<&Path>) -> Vec<CertificateError> {
        if let (Some(certificate), Some(key)) = (certificate, key) {
            return CertificateFiles::of_sip(certificate, key).errors();
        }
        let chain_error = certificate.and_then(|path| chain_of(CERTIFICATE, path).err());
        let key_error = key.and_then(|path| private_key(KEY, path).err());
        chain_error.into_iter().chain(key_error).collect()
    }
}

/// How HTTPS is encrypted while there is no certificate yet: an authority gets its answer, and
/// nobody else is served.
pub fn answers_only(answers: &ChallengeAnswers) -> Arc<ServerConfig> {
    Arc::new(challenge_config(None, answers))
}

fn challenge_config(names: Option<Arc<ServerNames>>, answers: &ChallengeAnswers) -> ServerConfig {
    let resolver = ChallengeNames::new(names, answers.clone());
    let nobody = WebPkiClientVerifier::no_client_auth();
    https_config(server_config(Arc::new(resolver), nobody), &[HTTP, ACME])
}

fn https_config(mut config: ServerConfig, protocols: &[&[u8]]) -> ServerConfig {
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    config
}

const HTTP: &[u8] = b"http/1.1";
const ACME: &[u8] = b"acme-tls/1";

/// # Panics
///
/// Never: the versions are those of the provider.
fn server_config(
    names: Arc<dyn ResolvesServerCert>,
    clients: Arc<dyn ClientCertVerifier>,
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let versions =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.expect("ring has the safe versions");
    versions
        .with_client_cert_verifier(clients)
        .with_cert_resolver(names)
}

impl CertificateError {
    /// The setting to repair.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::File { setting, .. } | Self::Unusable { setting, .. } => setting,
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

    /// All certificates, as they are now.
    pub(super) fn stats(&self) -> Vec<CertificateStats> {
        let now = UnixTime::now().as_secs() as i64;
        let certificate = self.read();
        let all = certificate.0.iter().flat_map(|it| it.all.iter());
        all.map(|it| it.stats(now)).collect()
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

fn private_key(
    setting: &'static str,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let key = PrivateKeyDer::from_pem_file(path);
    key.map_err(|error| file_error(setting, path, &error, "private key without a password"))
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
