use std::{fmt, path::PathBuf, str::FromStr};

/// Where a `pmcd` listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PmcdAddress {
    /// The path of its socket.
    Unix(PathBuf),
    /// A host and a port, such as `127.0.0.1:44321`.
    Tcp(String),
}

impl FromStr for PmcdAddress {
    type Err = ();

    /// A path begins with `/`. A host without a port has PCP's own.
    fn from_str(text: &str) -> Result<Self, ()> {
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        let is_host = |host: &str| {
            let mut bytes = host.bytes();
            !host.is_empty()
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
        };
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(drop)?),
            _ => (text, PORT),
        };
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        match is_host(host) && !is_bare_ipv6 && port != 0 {
            true => Ok(Self::Tcp(format!("{host}:{port}"))),
            false => Err(()),
        }
    }
}

impl fmt::Display for PmcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// Of `pmcd`, as registered.
const PORT: u16 = 44_321;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_or_a_host_with_a_port() {
        for (text, shown) in [
            ("/run/pcp/pmcd.socket", "/run/pcp/pmcd.socket"),
            ("web1.example.com", "web1.example.com:44321"),
            ("192.0.2.1:44322", "192.0.2.1:44322"),
            ("[2001:db8::1]", "[2001:db8::1]:44321"),
            ("[2001:db8::1]:1", "[2001:db8::1]:1"),
        ] {
            let address = PmcdAddress::from_str(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), Ok(shown), "{text}");
        }
        for text in [
            "",
            ":44321",
            "a b",
            "web1:0",
            "web1:99999",
            "2001:db8::1",
            "pcp://web1",
        ] {
            assert_eq!(PmcdAddress::from_str(text), Err(()), "{text}");
        }
    }
}
