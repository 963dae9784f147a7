//! Which certificate a peer is shown: that of the name it asks for (RFC 6066 §3).

use super::certificate_files::LoadedCertificate;
use crate::net::ChallengeAnswers;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    collections::HashMap,
    fmt::{self, Debug, Formatter},
    sync::Arc,
};

/// Certificates by the names that peers ask for.
pub(super) struct ServerNames {
    /// In lower case; what begins with `*.` stands for one label.
    names: HashMap<String, Arc<CertifiedKey>>,
    /// For peers who ask for no name, or for one that nobody has: most telephones connect to an
    /// address, and take the certificate for what it is.
    default: Arc<CertifiedKey>,
}

impl ServerNames {
    /// Of two certificates with one name, the first one is shown. The default is the first one
    /// that says so, or else the first of all; `None` without any.
    pub(super) fn new(certificates: &[LoadedCertificate]) -> Option<Self> {
        let default = certificates.iter().find(|it| it.is_default);
        let default = default.or(certificates.first())?.own.clone();
        let mut names = HashMap::new();
        for certificate in certificates {
            for name in &certificate.names {
                let own = || certificate.own.clone();
                names.entry(name.clone()).or_insert_with(own);
            }
        }
        Some(Self { names, default })
    }

    pub(super) fn default(&self) -> &Arc<CertifiedKey> {
        &self.default
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            self.names.get(&format!("*.{parent}"))
        };
        self.names.get(&name).or_else(wildcard)
    }
}

impl ResolvesServerCert for ServerNames {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.find(name));
        Some(named.unwrap_or(&self.default).clone())
    }
}

/// As [`ServerNames`], and what an authority is shown that looks whether a name is ours (RFC 8737
/// §3).
pub(super) struct ChallengeNames {
    names: Option<Arc<ServerNames>>,
    answers: ChallengeAnswers,
}

impl ChallengeNames {
    pub(super) fn new(names: Option<Arc<ServerNames>>, answers: ChallengeAnswers) -> Self {
        Self { names, answers }
    }
}

impl ResolvesServerCert for ChallengeNames {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut protocols = hello.alpn().into_iter().flatten();
        match (protocols.next(), protocols.next()) {
            (Some(super::ACME), None) => self.answers.certificate(hello.server_name()?),
            _ => self.names.as_ref()?.resolve(hello),
        }
    }
}

impl Debug for ChallengeNames {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.names.fmt(f)
    }
}

impl Debug for ServerNames {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names.keys()).finish()
    }
}
