use crate::net::{AcmeChallenge, AcmeOptions};
use std::{net::SocketAddr, path::PathBuf};

/// The `[acme]` section.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcmeSettings {
    /// The authority; `None`: no certificates by ACME.
    pub directory: Option<String>,
    /// The names that the certificate is for.
    pub names: Vec<String>,
    /// Where the authority writes to.
    pub contact: Option<String>,
    /// How the authority finds that the names are ours.
    pub challenge: AcmeChallenge,
    /// The program that puts records into DNS.
    pub dns_hook: Option<PathBuf>,
    /// Where it is answered over HTTP, beside `http.listen`.
    pub listen: Option<SocketAddr>,
    /// Where the account's key and the certificate are kept.
    pub folder: Option<PathBuf>,
    /// Who vouches for the authority's own server.
    pub authorities: Option<PathBuf>,
}

impl AcmeSettings {
    /// What to order, if anything is.
    pub fn options(&self) -> Option<AcmeOptions> {
        Some(AcmeOptions {
            directory: self.directory.clone()?,
            names: self.names.clone(),
            contact: self.contact.clone(),
            challenge: self.challenge,
            dns_hook: self.dns_hook.clone(),
            folder: self.folder.clone()?,
            authorities: self.authorities.clone(),
        })
    }
}
