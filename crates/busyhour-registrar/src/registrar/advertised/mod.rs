//! The addresses that the server names in its Contact and Via.

mod subnet;

pub use subnet::{NotSubnet, Subnet};

use busyhour_sip::Flow;
use std::{
    fmt::{self, Display, Formatter},
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
};

/// The addresses that our Contact and Via name, by the network of the other side.
///
/// ```
/// use busyhour_registrar::Advertised;
///
/// let advertised: Advertised = "10.0.0.0/8=10.0.0.1:5060, 192.0.2.1:5060".parse()?;
/// assert_eq!(advertised.to("10.3.0.7".parse()?), Some("10.0.0.1:5060".parse()?));
/// assert_eq!(advertised.to("203.0.113.9".parse()?), Some("192.0.2.1:5060".parse()?));
/// assert_eq!(Advertised::default().to("10.3.0.7".parse()?), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advertised(
    /// Without a network, for all others.
    Arc<[(Option<Subnet>, SocketAddr)]>,
);

/// Not a list of addresses and networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give addresses with ports, each alone or as NETWORK=ADDRESS:PORT")]
pub struct NotAdvertised;

impl Advertised {
    /// The address that is named to `peer`; `None` means the address that its request
    /// came to. If several networks contain `peer`, the smallest one counts.
    pub fn to(&self, peer: IpAddr) -> Option<SocketAddr> {
        let contains = |network: &Option<Subnet>| network.is_none_or(|it| it.contains(peer));
        let holding = self.0.iter().filter(|(network, _)| contains(network));
        let smallest = holding.max_by_key(|(network, _)| network.map(|network| network.bits()));
        smallest.map(|(_, address)| *address)
    }

    /// Our address as it is named to the other side of a flow. The advertised port is that of
    /// datagrams; connections, TLS above all, are taken at the port they came to.
    pub fn for_flow(&self, flow: Flow) -> SocketAddr {
        match self.to(flow.remote.ip()) {
            Some(address) if flow.transport.is_reliable() => {
                SocketAddr::new(address.ip(), flow.local.port())
            }
            Some(address) => address,
            None => flow.local,
        }
    }

    /// Every address that is named to somebody.
    pub fn all(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.0.iter().map(|(_, address)| *address)
    }

    /// Whether nothing is named but the address that a request came to.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<SocketAddr> for Advertised {
    /// This address to everybody.
    fn from(address: SocketAddr) -> Self {
        Self([(None, address)].into())
    }
}

impl FromStr for Advertised {
    type Err = NotAdvertised;

    /// Addresses with ports, separated by commas; each is for the network before its
    /// `=`, and at most one is for all others.
    fn from_str(text: &str) -> Result<Self, NotAdvertised> {
        let entries: Option<Vec<_>> = text.split(',').map(|one| entry(one.trim())).collect();
        let entries = entries.ok_or(NotAdvertised)?;
        let mut networks: Vec<Option<Subnet>> = Vec::new();
        for (network, address) in &entries {
            let is_answerable = !address.ip().is_unspecified() && address.port() != 0;
            if networks.contains(network) || !is_answerable {
                return Err(NotAdvertised);
            }
            networks.push(*network);
        }
        Ok(Self(entries.into()))
    }
}

impl Display for Advertised {
    /// As it is read.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, (network, address)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match network {
                Some(network) => write!(f, "{comma}{network}={address}")?,
                None => write!(f, "{comma}{address}")?,
            }
        }
        Ok(())
    }
}

fn entry(text: &str) -> Option<(Option<Subnet>, SocketAddr)> {
    let Some((network, address)) = text.split_once('=') else {
        return Some((None, text.parse().ok()?));
    };
    let network = network.trim().parse().ok()?;
    Some((Some(network), address.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_network_counts_and_a_plain_address_is_for_the_rest() {
        let text = "192.0.2.1:5060,10.0.0.0/8=10.0.0.1:5060,10.1.0.0/16=10.1.0.1:5070,2001:db8::/32=[2001:db8::1]:5060";
        let advertised: Advertised = text.parse().unwrap();
        let to = |peer: &str| advertised.to(peer.parse().unwrap()).unwrap().to_string();
        assert_eq!(to("10.1.2.3"), "10.1.0.1:5070");
        assert_eq!(to("10.2.2.3"), "10.0.0.1:5060");
        assert_eq!(to("::ffff:10.2.2.3"), "10.0.0.1:5060");
        assert_eq!(to("2001:db8::7"), "[2001:db8::1]:5060");
        assert_eq!(to("2001:db9::7"), "192.0.2.1:5060");
        assert_eq!(advertised.to_string(), text);
    }

    #[test]
    fn an_address_that_cannot_receive_answers_is_refused() {
        for text in [
            "",
            "192.0.2.1",
            "0.0.0.0:5060",
            "192.0.2.1:0",
            "10.0.0.0=10.0.0.1:5060",
            "10.0.0.0/33=10.0.0.1:5060",
            "192.0.2.1:5060,192.0.2.2:5060",
            "10.0.0.0/8=10.0.0.1:5060,10.0.0.0/8=10.0.0.2:5060",
        ] {
            assert_eq!(text.parse::<Advertised>(), Err(NotAdvertised), "{text}");
        }
    }
}
