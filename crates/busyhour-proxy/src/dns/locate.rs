//! RFC 3263 §4 as a function of what is known of DNS.

use super::{DnsAnswer, HopName, LocatedServer, Naptr, Question, Record, RecordKind, Servers, Srv};
use busyhour_sip::Transport;
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use thiserror::Error;

/// How far the way to a name is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// These questions have to be answered first.
    Asks(Vec<Question>),
    /// Its servers.
    Found(Servers),
    /// It has none, for this time.
    Not(NotLocated, Duration),
}

/// Why a name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotLocated {
    /// There is no such name, or it has no address.
    #[error("no such name")]
    NoSuchName,
    /// Its records say that it has no such service (RFC 2782), or none over a transport that may
    /// be used.
    #[error("no service over a transport that may be used")]
    NoService,
    /// Not everything could be asked.
    #[error("no answer from DNS")]
    NoAnswer,
}

/// The transports that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transports {
    /// Datagrams.
    pub udp: bool,
    /// Connections.
    pub tcp: bool,
    /// Encrypted connections.
    pub tls: bool,
}

/// Finds the servers of a name by what `known` knows: NAPTR, SRV and addresses in the steps of
/// RFC 3263 §4.1 and §4.2. Call it again when its questions are answered, with all answers so far.
pub fn locate(
    name: &HopName,
    transports: Transports,
    known: impl Fn(&Question) -> Option<DnsAnswer>,
) -> Location {
    let mut locator = Locator {
        name,
        transports,
        known,
        missing: Vec::new(),
        ttl: Duration::MAX,
        has_failure: false,
        is_refused: false,
    };
    let servers = locator.run();
    let Locator { ttl, missing, .. } = locator;
    match servers {
        None => Location::Asks(missing),
        Some(servers) if !servers.is_empty() => Location::Found(Servers { servers, ttl }),
        Some(_) => {
            let reason = match (locator.has_failure, locator.is_refused) {
                (true, _) => NotLocated::NoAnswer,
                (_, true) => NotLocated::NoService,
                _ => NotLocated::NoSuchName,
            };
            Location::Not(reason, ttl)
        }
    }
}

struct Locator<'n, K> {
    name: &'n HopName,
    transports: Transports,
    known: K,
    /// What has to be asked.
    missing: Vec<Question>,
    /// The shortest of all answers.
    ttl: Duration,
    has_failure: bool,
    /// The domain says that it has no such service.
    is_refused: bool,
}

/// In each step, `None` means that questions have to be answered first.
impl<K: Fn(&Question) -> Option<DnsAnswer>> Locator<'_, K> {
    fn run(&mut self) -> Option<Vec<LocatedServer>> {
        let name = self.name;
        let host = &name.host;
        let default = match name.is_secure {
            true => Transport::Tls,
            false => Transport::Udp,
        };
        match (name.port, name.transport) {
            _ if name.is_secure && !self.transports.tls => self.refuse(),
            (None, None) => self.by_naptr(default),
            (None, Some(named)) if self.may_use(named) => {
                match self.by_srv(named, &srv_name(named, host))? {
                    Some(servers) => Some(servers),
                    None => self.by_address(host, named, default_port(named)),
                }
            }
            (Some(port), named) => self.by_address(host, named.unwrap_or(default), port),
            (None, Some(_)) => self.refuse(),
        }
    }

    /// Neither port nor transport is given: the domain says which transports it has, in its
    /// order; if it does not, SRV records do.
    fn by_naptr(&mut self, default: Transport) -> Option<Vec<LocatedServer>> {
        let host = &self.name.host;
        let answer = self.ask(host, RecordKind::Naptr)?;
        let mut services: Vec<_> = naptrs(&answer).collect();
        services.sort_by_key(|it| (it.order, it.preference));
        let services = services.into_iter().filter_map(|it| {
            let transport = transport_of(it)?;
            self.may_use(transport)
                .then(|| (transport, it.replacement.clone()))
        });
        for (transport, next) in services.take(NAPTRS_MAX).collect::<Vec<_>>() {
            let servers = self.by_srv(transport, &next)?;
            if let Some(servers) = servers.filter(|servers| !servers.is_empty()) {
                return Some(servers);
            }
        }
        self.by_any_srv(default)
    }

    fn by_any_srv(&mut self, default: Transport) -> Option<Vec<LocatedServer>> {
        let host = &self.name.host;
        let mut asked = Vec::new();
        // All at once, so that one waits for the slowest answer only.
        for transport in BY_PREFERENCE {
            if self.may_use(transport) {
                let answer = self.ask(&srv_name(transport, host), RecordKind::Srv);
                asked.push((transport, answer));
            }
        }
        for (transport, answer) in asked {
            if srvs(&answer?).next().is_some() {
                return self.by_srv(transport, &srv_name(transport, host))?;
            }
        }
        self.by_address(host, default, default_port(default))
    }

    /// The hosts of a service; the inner `None` if it has no records.
    #[allow(
        clippy::option_option,
        reason = "the outer one waits, as everywhere here"
    )]
    fn by_srv(&mut self, transport: Transport, name: &str) -> Option<Option<Vec<LocatedServer>>> {
        let answer = self.ask(name, RecordKind::Srv)?;
        let mut hosts: Vec<_> = srvs(&answer).collect();
        if hosts.is_empty() {
            return Some(None);
        }
        hosts.retain(|host| !host.target.is_empty());
        self.is_refused |= hosts.is_empty();
        hosts.sort_by_key(|host| host.priority);
        hosts.truncate(SERVERS_MAX);
        let addresses: Vec<_> = hosts
            .iter()
            .map(|host| self.addresses(&host.target, host.port))
            .collect();
        let mut servers = Vec::new();
        for (host, addresses) in hosts.into_iter().zip(addresses) {
            servers.push(LocatedServer {
                transport,
                priority: host.priority,
                weight: host.weight,
                addresses: addresses?,
            });
        }
        servers.retain(|server| !server.addresses.is_empty());
        Some(Some(servers))
    }

    fn by_address(
        &mut self,
        host: &str,
        transport: Transport,
        port: u16,
    ) -> Option<Vec<LocatedServer>> {
        if !self.may_use(transport) {
            return self.refuse();
        }
        let addresses = self.addresses(host, port)?;
        let server = LocatedServer {
            transport,
            priority: 0,
            weight: 0,
            addresses,
        };
        let is_there = !server.addresses.is_empty();
        Some(is_there.then_some(server).into_iter().collect())
    }

    /// Those of IPv6 first (RFC 6724); both families are asked at once (RFC 7984 §4).
    fn addresses(&mut self, host: &str, port: u16) -> Option<Vec<SocketAddr>> {
        let kinds = [RecordKind::Aaaa, RecordKind::A];
        let [six, four] = kinds.map(|kind| self.ask(host, kind));
        let (six, four) = (six?, four?);
        let all = addresses(&six).take(ADDRESSES_MAX);
        let all = all.chain(addresses(&four).take(ADDRESSES_MAX));
        let sound = all.filter(|ip| !ip.is_unspecified() && !ip.is_multicast() && port != 0);
        Some(
            sound
                .map(|ip| SocketAddr::new(ip.to_canonical(), port))
                .collect(),
        )
    }

    fn ask(&mut self, name: &str, kind: RecordKind) -> Option<DnsAnswer> {
        let question = Question::new(name, kind);
        let answer = (self.known)(&question);
        match &answer {
            None if self.missing.contains(&question) => {}
            None => self.missing.push(question),
            Some(DnsAnswer::Found(_, ttl) | DnsAnswer::Nothing(ttl)) => {
                self.ttl = self.ttl.min(*ttl)
            }
            Some(DnsAnswer::Failed) => {
                self.has_failure = true;
                self.ttl = self.ttl.min(FAILURE_TTL);
            }
        }
        answer
    }

    fn may_use(&self, transport: Transport) -> bool {
        let is_there = match transport {
            Transport::Udp => self.transports.udp,
            Transport::Tcp => self.transports.tcp,
            Transport::Tls => self.transports.tls,
            // Only clients make them.
            Transport::Ws | Transport::Wss => false,
        };
        is_there && (!self.name.is_secure || transport == Transport::Tls)
    }

    fn refuse(&mut self) -> Option<Vec<LocatedServer>> {
        self.is_refused = true;
        Some(Vec::new())
    }
}

impl Transports {
    /// Every one.
    pub const ALL: Self = Self {
        udp: true,
        tcp: true,
        tls: true,
    };
}

fn records(answer: &DnsAnswer) -> &[Record] {
    match answer {
        DnsAnswer::Found(records, _) => records,
        DnsAnswer::Nothing(_) | DnsAnswer::Failed => &[],
    }
}

fn naptrs(answer: &DnsAnswer) -> impl Iterator<Item = &Naptr> {
    let records = records(answer).iter();
    records.filter_map(|record| match record {
        Record::Naptr(naptr) => Some(naptr),
        _ => None,
    })
}

fn srvs(answer: &DnsAnswer) -> impl Iterator<Item = &Srv> {
    let records = records(answer).iter();
    records.filter_map(|record| match record {
        Record::Srv(srv) => Some(srv),
        _ => None,
    })
}

fn addresses(answer: &DnsAnswer) -> impl Iterator<Item = IpAddr> + '_ {
    let records = records(answer).iter();
    records.filter_map(|record| match record {
        Record::Address(ip) => Some(*ip),
        _ => None,
    })
}

/// The transport of a service that leads to SRV records (RFC 3263 §4.1).
fn transport_of(naptr: &Naptr) -> Option<Transport> {
    let services = [
        ("SIP+D2U", Transport::Udp),
        ("SIP+D2T", Transport::Tcp),
        ("SIPS+D2T", Transport::Tls),
    ];
    let mut services = services.into_iter();
    let service = services.find(|(name, _)| naptr.service.eq_ignore_ascii_case(name));
    let (_, transport) = service.filter(|_| naptr.flags.eq_ignore_ascii_case("s"))?;
    Some(transport)
}

fn srv_name(transport: Transport, host: &str) -> String {
    let service = match transport {
        Transport::Udp => "_sip._udp",
        Transport::Tcp | Transport::Ws => "_sip._tcp",
        Transport::Tls | Transport::Wss => "_sips._tcp",
    };
    format!("{service}.{host}")
}

fn default_port(transport: Transport) -> u16 {
    match transport {
        Transport::Tls | Transport::Wss => 5061,
        Transport::Udp | Transport::Tcp | Transport::Ws => 5060,
    }
}

const BY_PREFERENCE: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];
/// When to ask again what nobody has answered.
const FAILURE_TTL: Duration = Duration::from_secs(5);
/// A domain that lists more is not asked for all of them.
const NAPTRS_MAX: usize = 4;
const SERVERS_MAX: usize = 16;
/// Of each family, of one host.
const ADDRESSES_MAX: usize = 4;
