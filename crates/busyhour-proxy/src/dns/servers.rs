//! The servers of a domain, and in which order a request tries them.

use busyhour_sip::Transport;
use std::{net::SocketAddr, time::Duration};

/// The servers that DNS led to; not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// By their priority.
    pub(super) servers: Vec<LocatedServer>,
    /// For how long.
    pub(super) ttl: Duration,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedServer {
    /// How it is reached.
    pub transport: Transport,
    /// Lower ones come first.
    pub priority: u16,
    /// Its part of the requests among those of its priority.
    pub weight: u16,
    /// Its addresses, which are tried in this order.
    pub addresses: Vec<SocketAddr>,
}

impl Servers {
    /// All servers, by their priority.
    pub fn servers(&self) -> &[LocatedServer] {
        &self.servers
    }

    /// For how long they are valid.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Every address.
    pub fn addresses(&self) -> impl Iterator<Item = (Transport, SocketAddr)> + '_ {
        self.servers.iter().flat_map(LocatedServer::addresses)
    }

    /// The addresses in the order in which one request tries them (RFC 2782, RFC 3263 §4.3):
    /// by priority; of those with the same one, the next is chosen by weight. `random` gives any
    /// number; each request needs others, so that the servers get their parts.
    ///
    /// # Examples
    ///
    /// ```
    /// # use busyhour_proxy::dns::*;
    /// # use busyhour_sip::Transport;
    /// # use std::{sync::Arc, time::Duration};
    /// let name = HopName { port: Some(5060), ..HopName::new("sip.example.net").expect("a name") };
    /// let known = |question: &Question| Some(match question.kind {
    ///     RecordKind::A => {
    ///         let address = Record::Address([192, 0, 2, 7].into());
    ///         DnsAnswer::Found(Arc::new([address]), Duration::from_secs(60))
    ///     }
    ///     _ => DnsAnswer::Nothing(Duration::from_secs(60)),
    /// });
    /// let Location::Found(servers) = locate(&name, Transports::ALL, known) else { panic!("found") };
    /// let order = servers.order(|| 7);
    /// assert_eq!(order, [(Transport::Udp, "192.0.2.7:5060".parse()?)]);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn order(&self, mut random: impl FnMut() -> u64) -> Vec<(Transport, SocketAddr)> {
        let mut order = Vec::new();
        for group in self
            .servers
            .chunk_by(|one, next| one.priority == next.priority)
        {
            let mut left: Vec<_> = group.iter().collect();
            while !left.is_empty() {
                let chosen = choose(&left, &mut random);
                order.extend(left.remove(chosen).addresses());
            }
        }
        order
    }
}

impl LocatedServer {
    fn addresses(&self) -> impl Iterator<Item = (Transport, SocketAddr)> + '_ {
        let with = |address: &SocketAddr| (self.transport, *address);
        self.addresses.iter().map(with)
    }
}

/// The place of the next one. Those with weight 0 have a very small chance beside others, which
/// RFC 2782 leaves them by counting the number 0.
fn choose(left: &[&LocatedServer], random: &mut impl FnMut() -> u64) -> usize {
    if left.len() == 1 {
        return 0;
    }
    let sum: u64 = left.iter().map(|server| u64::from(server.weight)).sum();
    if sum == 0 {
        return (random() % left.len() as u64) as usize;
    }
    let mut drawn = random() % (sum + 1);
    if drawn == 0 {
        let light = left.iter().position(|server| server.weight == 0);
        drawn = 1;
        if let Some(light) = light {
            return light;
        }
    }
    let reaches = |server: &&LocatedServer| {
        let weight = u64::from(server.weight);
        let is_it = weight >= drawn;
        drawn = drawn.saturating_sub(weight);
        is_it
    };
    left.iter().position(reaches).unwrap_or(left.len() - 1)
}
