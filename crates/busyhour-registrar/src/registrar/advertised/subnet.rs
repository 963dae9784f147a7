//! The first bits that the addresses of a network share.

use std::{
    fmt::{self, Display, Formatter},
    net::IpAddr,
    str::FromStr,
};

/// A network, as its address and the number of bits that all its addresses share (RFC 4632).
///
/// ```
/// use busyhour_registrar::Subnet;
///
/// let office: Subnet = "192.0.2.0/24".parse()?;
/// assert!(office.contains("192.0.2.7".parse()?));
/// assert!(office.contains("::ffff:192.0.2.7".parse()?));
/// assert!(!office.contains("198.51.100.7".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    bits: u8,
}

/// Not a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give an address and a number of bits, such as 192.0.2.0/24")]
pub struct NotSubnet;

impl Subnet {
    /// The number of bits that its addresses share.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether an address is in the network; one of IPv4 that is written as IPv6 counts as
    /// what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = u32::from(own) ^ u32::from(other);
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = u128::from(own) ^ u128::from(other);
                differing.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Subnet {
    type Err = NotSubnet;

    fn from_str(text: &str) -> Result<Self, NotSubnet> {
        let (address, bits) = text.split_once('/').ok_or(NotSubnet)?;
        let address: IpAddr = address.parse().map_err(|_| NotSubnet)?;
        let bits = bits.parse().map_err(|_| NotSubnet)?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        match bits <= bits_max {
            true => Ok(Self { address, bits }),
            false => Err(NotSubnet),
        }
    }
}

impl Display for Subnet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}
