use crate::server::{PeerConfig, TlsTarget};
use busyhour_sip::Transport;
use busyhour_store::is_domain;
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    net::SocketAddr,
    time::Duration,
};
use thiserror::Error;

/// A server behind this one, at which addresses of record are registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// Its name in lists and in the log.
    pub name: String,
    /// Where it takes REGISTER.
    pub address: SocketAddr,
    /// Over UDP, TCP or TLS.
    pub transport: Transport,
    /// The domains whose addresses of record it has; all if there are none.
    pub domains: Vec<String>,
    /// The lifetime to ask for.
    pub expires: Duration,
    /// User and password for all addresses; without them, those of each account.
    pub credentials: Option<(String, String)>,
    /// How long telephones stay registered while it does not answer.
    pub keep: Duration,
    /// New requests to it a second.
    pub rate: u32,
}

/// What is wrong with one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistrarMistake {
    /// Its name.
    #[error("name: give 1 to 64 letters, digits, or any of -_.")]
    Name,
    /// Its name is that of an earlier one.
    #[error("name: there are two registrars `{0}`")]
    SameName(String),
    /// Nothing can be sent there.
    #[error("address: `{0}`: give the address of one host, and a port other than 0")]
    Address(SocketAddr),
    /// A domain that no address of record can have.
    #[error("domains: `{0}`: give a host name or an IP address")]
    Domain(String),
    /// All its domains are those of earlier ones.
    #[error("domains: registrar `{0}` before it has them all, so that it would have no address")]
    NoDomainLeft(String),
    /// Its lifetime.
    #[error("expires_seconds: give 300 to 604800")]
    Expires,
    /// Its patience.
    #[error("keep_seconds: give 0 to 604800")]
    Keep,
    /// Its pace.
    #[error("per_second: give 1 to 10000")]
    Rate,
    /// There is no room for one more.
    #[error("there are too many registrars: at most {REGISTRARS_MAX}")]
    TooMany,
}

impl RegistrarConfig {
    /// Where it is, as it stands in the configuration.
    pub(crate) fn location(&self) -> String {
        match self.transport {
            Transport::Udp => self.address.to_string(),
            stream => format!("{}/{}", stream.parameter(), self.address),
        }
    }

    /// Whose certificate is expected of it over TLS: that of the peer at its address.
    pub(crate) fn tls_target(&self, peers: &[PeerConfig]) -> Option<TlsTarget> {
        let ip = self.address.ip();
        let is_there = |peer: &&PeerConfig| peer.addresses.iter().any(|it| it.is_at(ip));
        let unknown = PeerConfig::default();
        let peer = peers.iter().find(is_there).unwrap_or(&unknown);
        let target = || peer.certificate_at(self.address, &ip.to_string());
        (self.transport == Transport::Tls).then(target)
    }

    /// Checks it alone.
    ///
    /// # Errors
    ///
    /// The first mistake.
    pub fn check(&self) -> Result<(), RegistrarMistake> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=64).contains(&self.name.len()) && self.name.bytes().all(is_allowed);
        let ip = self.address.ip();
        let is_host = !ip.is_unspecified() && !ip.is_multicast() && self.address.port() != 0;
        let is_known = |domain: &&String| !is_domain(&domain.to_ascii_lowercase());
        let unknown = self.domains.iter().find(is_known);
        let expires_s = self.expires.as_secs();
        match unknown {
            _ if !is_name => Err(RegistrarMistake::Name),
            _ if !is_host => Err(RegistrarMistake::Address(self.address)),
            Some(domain) => Err(RegistrarMistake::Domain(domain.clone())),
            _ if !(300..=WEEK_S).contains(&expires_s) => Err(RegistrarMistake::Expires),
            _ if self.keep.as_secs() > WEEK_S => Err(RegistrarMistake::Keep),
            _ if !(1..=10_000).contains(&self.rate) => Err(RegistrarMistake::Rate),
            None => Ok(()),
        }
    }
}

/// What is wrong with registrars beside each other, and with each alone, by their places.
pub(crate) fn mistakes(registrars: &[RegistrarConfig]) -> Vec<(usize, RegistrarMistake)> {
    let mut found = Vec::new();
    let mut by_domain = RegistrarsByDomain::default();
    let mut names = HashSet::new();
    for (place, registrar) in registrars.iter().enumerate() {
        found.extend(registrar.check().err().map(|mistake| (place, mistake)));
        if !names.insert(&registrar.name) {
            found.push((place, RegistrarMistake::SameName(registrar.name.clone())));
        }
        if let Err(earlier) = by_domain.add(place, registrar) {
            let earlier = registrars[earlier].name.clone();
            found.push((place, RegistrarMistake::NoDomainLeft(earlier)));
        }
    }
    if registrars.len() > REGISTRARS_MAX {
        found.push((REGISTRARS_MAX, RegistrarMistake::TooMany));
    }
    found
}

/// Which registrar has a domain: the first one that names it, or names none.
#[derive(Debug, Default)]
pub(super) struct RegistrarsByDomain {
    named: HashMap<Box<str>, usize>,
    /// The one that has all domains that no earlier one names.
    others: Option<usize>,
}

impl RegistrarsByDomain {
    pub(super) fn new(registrars: &[RegistrarConfig]) -> Self {
        let mut by_domain = Self::default();
        for (place, registrar) in registrars.iter().enumerate() {
            // One without a domain has nothing to do.
            let _ = by_domain.add(place, registrar);
        }
        by_domain
    }

    /// The place of the registrar of a domain, which is in lower case as addresses of record have it.
    pub(super) fn of(&self, domain: &str) -> Option<usize> {
        self.named.get(domain).copied().or(self.others)
    }

    /// Adds one behind all others; the place of one that leaves it no domain.
    fn add(&mut self, place: usize, registrar: &RegistrarConfig) -> Result<(), usize> {
        if let Some(earlier) = self.others {
            return Err(earlier);
        }
        if registrar.domains.is_empty() {
            self.others = Some(place);
            return Ok(());
        }
        let mut earlier = None;
        let mut has_one = false;
        for domain in &registrar.domains {
            match self.named.entry(domain.to_ascii_lowercase().into()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(place);
                    has_one = true;
                }
                Entry::Occupied(known) => earlier = Some(*known.get()),
            }
        }
        match earlier.filter(|_| !has_one) {
            Some(earlier) => Err(earlier),
            None => Ok(()),
        }
    }
}

const WEEK_S: u64 = 604_800;
/// A request names its registrar by two digits.
const REGISTRARS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_belongs_to_the_first_that_names_it_or_all() {
        let registrars = [
            named("a", &["One.example"]),
            named("b", &["one.example", "two.example"]),
            named("rest", &[]),
            named("late", &["three.example"]),
            named("c", &["two.example"]),
        ];
        let by_domain = RegistrarsByDomain::new(&registrars);
        let of = |domain| by_domain.of(domain);
        assert_eq!(
            (of("one.example"), of("two.example"), of("three.example")),
            (Some(0), Some(1), Some(2))
        );
        let left_out = |place| (place, RegistrarMistake::NoDomainLeft("rest".into()));
        assert_eq!(mistakes(&registrars), [left_out(3), left_out(4)]);
        let same = RegistrarMistake::NoDomainLeft("a".into());
        let twice = [named("a", &["one.example"]), named("b", &["ONE.example"])];
        assert_eq!(mistakes(&twice), [(1, same)]);
        assert_eq!(RegistrarsByDomain::new(&registrars[..1]).of("x"), None);
    }

    #[test]
    fn there_are_as_many_as_a_request_can_name() {
        let many = |count: usize| -> Vec<_> {
            let one = |place| named(&format!("r{place}"), &[&format!("d{place}.example")]);
            (0..count).map(one).collect()
        };
        assert_eq!(mistakes(&many(256)), []);
        assert_eq!(mistakes(&many(257)), [(256, RegistrarMistake::TooMany)]);
    }

    fn named(name: &str, domains: &[&str]) -> RegistrarConfig {
        RegistrarConfig {
            name: name.to_owned(),
            address: ([192, 0, 2, 12], 5060).into(),
            transport: Transport::Udp,
            domains: domains.iter().map(|it| (*it).to_owned()).collect(),
            expires: Duration::from_secs(3600),
            credentials: None,
            keep: Duration::from_secs(3600),
            rate: 100,
        }
    }
}
