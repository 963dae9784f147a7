use super::Authorities;
use crate::server::TlsTarget;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::{CertifiedKey, SingleCertAndKey},
};
use sha2::{Digest, Sha256};
use std::{net::IpAddr, sync::Arc};

/// The client's side of a new connection to this target, which shows `own` if it is asked.
pub(in crate::net::stream) fn session_with(
    target: &TlsTarget,
    authorities: Option<Authorities>,
    own: Option<Arc<CertifiedKey>>,
) -> Result<ClientConnection, Error> {
    let provider = ring::default_provider();
    let expected = Expected {
        target: target.clone(),
        authorities,
        provider: provider.clone(),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(expected));
    let config = match own {
        Some(own) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
        None => config.with_no_client_auth(),
    };
    ClientConnection::new(Arc::new(config), server_name(target))
}

/// What the client says whom it wants: the first domain, or the address.
fn server_name(target: &TlsTarget) -> ServerName<'static> {
    let is_domain = |name: &&String| name.parse::<IpAddr>().is_err();
    let domain = target.names.iter().find(is_domain);
    let domain = domain.and_then(|name| ServerName::try_from(name.clone()).ok());
    domain.unwrap_or_else(|| ServerName::from(target.address.ip()))
}

/// Checks the certificate of a server.
#[derive(Debug)]
struct Expected {
    target: TlsTarget,
    authorities: Option<Authorities>,
    provider: CryptoProvider,
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _ocsp: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fingerprint: [u8; 32] = Sha256::digest(own).into();
        if self.target.fingerprints.contains(&fingerprint) {
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authorities = self.authorities.as_ref().ok_or(unknown)?;
        let shown: Vec<_> = std::iter::once(own).chain(chain).cloned().collect();
        let names = authorities.names_of_server(&shown)?;
        let is_expected = |name: &String| {
            let mut expected = self.target.names.iter();
            expected.any(|it| it.eq_ignore_ascii_case(name))
        };
        match names.iter().any(is_expected) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
