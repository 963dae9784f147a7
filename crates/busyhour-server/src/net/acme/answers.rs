//! What the authority is answered when it looks whether a name is ours.

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::{
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The answers of the orders in progress; there are as many as names at most.
#[derive(Clone, Default)]
pub struct ChallengeAnswers(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    /// By token.
    texts: HashMap<String, String>,
    /// By name.
    certificates: HashMap<String, Arc<CertifiedKey>>,
}

impl ChallengeAnswers {
    /// The text for a token that is asked for over HTTP.
    pub fn text(&self, token: &str) -> Option<String> {
        self.lock().texts.get(token).cloned()
    }

    /// The certificate for a name that is asked for over TLS.
    pub fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.lock().certificates.get(name).cloned()
    }

    pub(super) fn put_text(&self, token: &str, text: &str) {
        self.lock().texts.insert(token.to_owned(), text.to_owned());
    }

    /// Makes the certificate that shows `digest` for a name (RFC 8737 §3).
    pub(super) fn put_digest(&self, name: &str, digest: &[u8]) -> Result<(), String> {
        let made = certificate(name, digest).map_err(|error| error.to_string())?;
        self.lock()
            .certificates
            .insert(name.to_owned(), Arc::new(made));
        Ok(())
    }

    /// The order is over.
    pub(super) fn clear(&self) {
        *self.lock() = Answers::default();
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let made = params.self_signed(&key)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // `CertifiedKey::from_der` reads the certificate, and refuses the extension.
    let key = ring::sign::any_supported_type(&key)?;
    Ok(CertifiedKey::new(vec![made.der().clone()], key))
}
