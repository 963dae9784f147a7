use super::{CertificateError, chain_of, subject::names_in};
use rustls::{
    RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::{ParsedCertificate, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use std::{fmt, path::Path, sync::Arc};

/// Those who vouch for the certificates of others.
#[derive(Clone)]
pub struct Authorities {
    roots: Arc<RootCertStore>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    /// Reads their certificates, in PEM.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, and what to do.
    pub fn read(path: &Path) -> Result<Self, CertificateError> {
        let unfit = |problem: &dyn fmt::Display| CertificateError::File {
            setting: AUTHORITIES,
            path: path.to_owned(),
            problem: format!("{problem}; give a PEM file with the certificates of authorities"),
        };
        let mut roots = RootCertStore::empty();
        for certificate in chain_of(AUTHORITIES, path)? {
            roots.add(certificate).map_err(|error| unfit(&error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider);
        Ok(Self {
            roots,
            clients: clients.build().map_err(|error| unfit(&error))?,
        })
    }

    /// Whom the certificate of a client is for; nobody if they do not vouch for it.
    pub(in crate::net::stream) fn names_of_client(
        &self,
        shown: &[CertificateDer<'_>],
    ) -> Vec<String> {
        let Some((own, chain)) = shown.split_first() else {
            return Vec::new();
        };
        let vouched = self.clients.verify_client_cert(own, chain, UnixTime::now());
        vouched.map_or_else(|_| Vec::new(), |_| names_in(own))
    }

    /// The same for a server.
    ///
    /// # Errors
    ///
    /// Why they do not vouch for it.
    pub(in crate::net::stream) fn names_of_server(
        &self,
        shown: &[CertificateDer<'_>],
    ) -> Result<Vec<String>, rustls::Error> {
        let Some((own, chain)) = shown.split_first() else {
            return Ok(Vec::new());
        };
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(own)?,
            &self.roots,
            chain,
            UnixTime::now(),
            algorithms.all,
        )?;
        Ok(names_in(own))
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorities")
    }
}

const AUTHORITIES: &str = "sip.tls_authorities";
