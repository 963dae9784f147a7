//! A certificate with its chain and its key, as two files have them.

use super::{CertificateError, chain_of, private_key, subject::names_in};
use crate::server::CertificateStats;
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Where a certificate and its key are, and to whom it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate with its chain, ours first, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// Peers who ask for one of these names are shown it; without any, those that it is for.
    pub names: Vec<String>,
    /// Peers who ask for none of the known names, or for none, are shown it.
    pub is_default: bool,
    /// The settings that name the two files.
    pub settings: [&'static str; 2],
}

/// A certificate that was read.
#[derive(Clone)]
pub(super) struct LoadedCertificate {
    pub(super) own: Arc<CertifiedKey>,
    /// In lower case.
    pub(super) names: Vec<String>,
    pub(super) is_default: bool,
    file: PathBuf,
    subject: CertificateSubject,
}

/// What stands in a certificate.
#[derive(Clone)]
struct CertificateSubject {
    issuer: String,
    /// Seconds since 1970.
    not_before: i64,
    not_after: i64,
    sha256: String,
}

impl CertificateFiles {
    /// The two files of `sip.tls_certificate` and `sip.tls_key`, which is the default.
    pub fn of_sip(certificate: &Path, key: &Path) -> Self {
        Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            names: Vec::new(),
            is_default: true,
            settings: [super::CERTIFICATE, super::KEY],
        }
    }

    /// What is wrong with one of the files, or with both together.
    pub fn errors(&self) -> Vec<CertificateError> {
        let [certificate, key] = self.settings;
        let chain = chain_of(certificate, &self.certificate);
        let key = private_key(key, &self.key);
        match (chain, key) {
            (Ok(_), Ok(_)) => self.read().err().into_iter().collect(),
            (chain, key) => chain.err().into_iter().chain(key.err()).collect(),
        }
    }

    /// Whether the certificate is for all of these names, is valid now, and has its key. Returns
    /// from when until when it is valid, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check_for(&self, names: &[String]) -> Result<(i64, i64), String> {
        let read = self.read().map_err(|error| error.to_string())?;
        let own = read.own.cert.first().map(names_in).unwrap_or_default();
        let is_there = |name: &&String| own.iter().any(|it| it.eq_ignore_ascii_case(name));
        if let Some(missing) = names.iter().find(|name| !is_there(name)) {
            return Err(format!("it is not for {missing}"));
        }
        let (from, until) = (read.subject.not_before, read.subject.not_after);
        let now = UnixTime::now().as_secs() as i64;
        match (from - CLOCKS_DIFFER..until).contains(&now) {
            true => Ok((from, until)),
            false => Err("it is not valid now".to_owned()),
        }
    }

    pub(super) fn read(&self) -> Result<LoadedCertificate, CertificateError> {
        let [setting, key_setting] = self.settings;
        let chain = chain_of(setting, &self.certificate)?;
        let private = private_key(key_setting, &self.key)?;
        let faulty = |problem: String| CertificateError::File {
            setting,
            path: self.certificate.clone(),
            problem,
        };
        check_chain(&chain).map_err(faulty)?;
        let own = chain.first().ok_or_else(|| faulty(String::new()))?;
        let names = names_in(own);
        let subject = CertificateSubject::of(own).ok_or_else(|| {
            faulty("its first certificate cannot be read; give one of X.509".into())
        })?;
        let own = CertifiedKey::from_der(chain, private, &ring::default_provider());
        let own = own.map_err(|problem| CertificateError::Unusable {
            setting: key_setting,
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            problem: Box::new(problem),
        })?;
        let names = match self.names.is_empty() {
            true => names,
            false => self.names.clone(),
        };
        Ok(LoadedCertificate {
            own: Arc::new(own),
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            is_default: self.is_default,
            file: self.certificate.clone(),
            subject,
        })
    }
}

impl LoadedCertificate {
    /// As it is `now`, in seconds since 1970.
    pub(super) fn stats(&self, now: i64) -> CertificateStats {
        let time = |seconds| {
            let time = jiff::Timestamp::from_second(seconds);
            time.map_or_else(|_| seconds.to_string(), |time| time.to_string())
        };
        let subject = &self.subject;
        let first = self.names.first().cloned();
        CertificateStats {
            name: first.unwrap_or_else(|| self.file.display().to_string()),
            names: self.names.clone(),
            is_default: self.is_default,
            file: self.file.display().to_string(),
            issuer: subject.issuer.clone(),
            sha256: subject.sha256.clone(),
            not_before: time(subject.not_before),
            not_after: time(subject.not_after),
            left_seconds: subject.not_after - now,
        }
    }
}

impl CertificateSubject {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, read) = X509Certificate::from_der(certificate).ok()?;
        let mut sha256 = String::new();
        for byte in Sha256::digest(certificate) {
            // Writing to a String can't fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Some(Self {
            issuer: read.issuer().to_string(),
            not_before: read.validity().not_before.timestamp(),
            not_after: read.validity().not_after.timestamp(),
            sha256,
        })
    }
}

/// The clock of an authority may be so many seconds ahead.
const CLOCKS_DIFFER: i64 = 300;

/// Whether each certificate was issued by the one after it (RFC 5246 §7.4.2).
fn check_chain(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    let read = |(place, der): (usize, &CertificateDer<'_>)| {
        let read = X509Certificate::from_der(der);
        read.map(|(_, it)| (it.subject().to_string(), it.issuer().to_string()))
            .map_err(|_| {
                format!(
                    "its certificate {} cannot be read; give one of X.509",
                    place + 1
                )
            })
    };
    let chain: Vec<_> = chain
        .iter()
        .enumerate()
        .map(read)
        .collect::<Result<_, _>>()?;
    for (place, pair) in chain.windows(2).enumerate() {
        let [(_, issuer), (next, _)] = pair else {
            continue;
        };
        if issuer != next {
            return Err(format!(
                "its certificate {} was issued by `{issuer}`, and the one after it is of `{next}`; \
                 give the server's own certificate first, and then the issuer of each",
                place + 1
            ));
        }
    }
    Ok(())
}
