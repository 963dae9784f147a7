use std::path::PathBuf;

/// From whom to get which certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeOptions {
    /// The authority's directory.
    pub directory: String,
    /// The names that the certificate is for.
    pub names: Vec<String>,
    /// Where the authority writes to a person.
    pub contact: Option<String>,
    /// How the authority finds that the names are ours.
    pub challenge: AcmeChallenge,
    /// The program that puts records into DNS, for dns-01.
    pub dns_hook: Option<PathBuf>,
    /// The account's key and the certificate are kept here.
    pub folder: PathBuf,
    /// Who vouches for the authority's own server; without it, those whom this machine believes.
    pub authorities: Option<PathBuf>,
}

/// How an authority finds that a name is ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// It reads a text over HTTP from port 80 (RFC 8555 §8.3).
    #[default]
    Http01,
    /// It is shown a certificate over TLS on port 443 (RFC 8737).
    TlsAlpn01,
    /// It finds a record in DNS, which a program of the operator puts there (RFC 8555 §8.4).
    Dns01,
}

impl AcmeChallenge {
    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Http01, Self::TlsAlpn01, Self::Dns01];
        all.into_iter().find(|challenge| challenge.name() == name)
    }

    /// As RFC 8555 and RFC 8737 call it.
    ///
    /// ```
    /// use busyhour_server::net::AcmeChallenge;
    ///
    /// assert_eq!(AcmeChallenge::Dns01.name(), "dns-01");
    /// assert_eq!(AcmeChallenge::named("dns-01"), Some(AcmeChallenge::Dns01));
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }
}
