//! Addresses of record, and whether they are ours.

use super::Refusal;
use crate::proto::sip::{Host, Scheme, Uri};
use std::net::IpAddr;

/// The hosts whose addresses of record are ours.
#[derive(Debug, Clone, Default)]
pub struct Domains {
    hosts: Vec<String>,
    /// Where users are who are named without a host, if there are no domains.
    home: Option<String>,
}

impl Domains {
    /// These hosts, names without regard to case; none means any host.
    pub fn new(hosts: impl IntoIterator<Item = String>) -> Self {
        Self {
            hosts: hosts.into_iter().collect(),
            home: None,
        }
    }

    /// The same domains; if there are none, users who are named without a host
    /// are at this address.
    #[must_use]
    pub fn at(self, address: Option<IpAddr>) -> Self {
        let home = address.map(|address| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        Self { home, ..self }
    }

    /// The host of users who are named without one: the first domain, or the address
    /// of [`at`](Self::at).
    ///
    /// ```
    /// use busyhour_server::registrar::Domains;
    ///
    /// let none = Domains::default().at("127.0.0.1".parse().ok());
    /// assert_eq!(none.first(), Some("127.0.0.1"));
    /// ```
    pub fn first(&self) -> Option<&str> {
        self.hosts
            .first()
            .or(self.home.as_ref())
            .map(String::as_str)
    }

    /// Whether `host` is ours.
    ///
    /// ```
    /// use busyhour_server::{proto::sip::Host, registrar::Domains};
    ///
    /// let domains = Domains::new(["example.com".to_owned()]);
    /// assert!(domains.contain(&Host::Name("EXAMPLE.com")));
    /// assert!(!domains.contain(&Host::Name("example.org")));
    /// assert!(Domains::default().contain(&Host::Name("example.org")));
    /// ```
    pub fn contain(&self, host: &Host<'_>) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|domain| names(domain, host))
    }
}

/// The key of an address of record: `sip:user@host`, the user with needless
/// escapes undone and the host in lower case (RFC 3261 §10.3, step 5).
///
/// Port, password, parameters and headers do not belong to it; `sip` and
/// `sips` name the same one (RFC 5630 §3.3).
///
/// # Errors
///
/// [`Refusal::UnsupportedScheme`] for other schemes, [`Refusal::NotFound`]
/// without a user or outside of `domains`.
///
/// ```
/// use busyhour_server::{proto::sip::Uri, registrar::{Domains, address_of_record}};
///
/// let uri = Uri::parse("sips:%61lice@EXAMPLE.com:5061;transport=tcp").unwrap();
/// let aor = address_of_record(&uri, &Domains::default()).unwrap();
/// assert_eq!(aor, "sip:alice@example.com");
/// ```
pub fn address_of_record(uri: &Uri<'_>, domains: &Domains) -> Result<String, Refusal> {
    let uri = uri.as_sip().ok_or(Refusal::UnsupportedScheme)?;
    if uri.user.is_none() || !domains.contain(&uri.host) {
        return Err(Refusal::NotFound);
    }
    let mut key = *uri;
    key.scheme = Scheme::Sip;
    key.port = None;
    let mut aor = String::with_capacity(uri.text.len());
    key.canonical_aor(&mut aor);
    Ok(aor)
}

/// The user part of an address of record; empty without one.
pub(crate) fn user_of(aor: &str) -> &str {
    let (_, address) = aor.split_once(':').unwrap_or(("", aor));
    address.rsplit_once('@').map_or("", |(user, _)| user)
}

fn names(domain: &str, host: &Host<'_>) -> bool {
    match host {
        Host::Name(name) => name.eq_ignore_ascii_case(domain),
        Host::V4(address) => domain.parse() == Ok(*address),
        Host::V6(address) => domain.trim_matches(['[', ']']).parse() == Ok(*address),
    }
}
