use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{fmt, path::Path, sync::Arc};

/// Whose certificates of HTTPS servers are believed.
#[derive(Debug, Clone, Default)]
pub enum TrustedRoots {
    /// The authorities of this machine, read with the first request over TLS.
    #[default]
    System,
    /// These.
    Given(Arc<RootCertStore>),
}

impl TrustedRoots {
    /// Reads authorities in PEM.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, and what to do.
    pub fn read(path: &Path) -> Result<Self, String> {
        let unfit = |problem: &dyn fmt::Display| {
            let path = path.display();
            format!("{path}: {problem}; give a PEM file with the certificates of authorities")
        };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unfit(&error))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unfit(&error))?;
            roots.add(certificate).map_err(|error| unfit(&error))?;
        }
        match roots.is_empty() {
            true => Err(unfit(&"it has no certificate")),
            false => Ok(Self::Given(Arc::new(roots))),
        }
    }

    /// The client's side of TLS; the connector chooses the protocol above it.
    pub(super) fn client_config(&self) -> Result<ClientConfig, rustls::Error> {
        let roots = match self {
            Self::System => Arc::new(of_system()),
            Self::Given(roots) => roots.clone(),
        };
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions()?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Certificates that cannot be used are left out, as every program does.
fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        tracing::warn!(
            "this machine has no certificates of authorities, so no HTTPS server is believed; \
             install ca-certificates, or set http_client.authorities"
        );
    }
    roots
}
