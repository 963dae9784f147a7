//! Who vouches for certificates.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, CertifiedKey, DnType, IsCa,
    KeyPair, SanType,
};
use std::ops::Deref;

/// An authority, and those for whom it vouches.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Deref for Authority {
    type Target = Certificate;

    fn deref(&self) -> &Certificate {
        self.0.as_ref()
    }
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for this name, and its key.
    pub fn vouch(&self, name: SanType) -> CertifiedKey<KeyPair> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let signing_key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&signing_key, &self.0).unwrap();
        CertifiedKey { cert, signing_key }
    }
}
