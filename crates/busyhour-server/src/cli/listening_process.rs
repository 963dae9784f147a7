//! Which process listens at an address, as the kernel says it.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Whether this process listens at this TCP address. `false` for a process of another user.
pub(super) fn listens(pid: u32, address: SocketAddr) -> bool {
    let table = match address {
        SocketAddr::V4(_) => "tcp",
        SocketAddr::V6(_) => "tcp6",
    };
    let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
    let found: BTreeSet<String> = listeners(&table, address).collect();
    !found.is_empty() && sockets_of(pid).any(|socket| found.contains(&socket))
}

/// The sockets of the table that listen at the address, as the links of a process name them.
fn listeners(table: &str, address: SocketAddr) -> impl Iterator<Item = String> {
    table.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let is_it = *state == LISTEN && address_of(local)? == address;
        is_it.then(|| format!("socket:[{inode}]"))
    })
}

/// `0100007F:1F90`: each word of an address as this machine keeps it in memory.
fn address_of(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..ip.len())
        .step_by(8)
        .map(|at| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok())
        .map(|word| word.map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    let ip: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

fn sockets_of(pid: u32) -> impl Iterator<Item = String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"));
    let files = files.into_iter().flatten().flatten();
    files.filter_map(|file| {
        fs::read_link(file.path())
            .ok()?
            .into_os_string()
            .into_string()
            .ok()
    })
}

const LISTEN: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_listener_is_found_and_a_connection_is_none() {
        let own = std::process::id();
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else {
                // Some machines have no IPv6.
                continue;
            };
            let address = listener.local_addr().unwrap();
            assert!(listens(own, address), "{address}");
            assert!(!listens(1, address), "{address}");
            let stream = TcpStream::connect(address).unwrap();
            assert!(!listens(own, stream.local_addr().unwrap()));
            drop(listener);
            assert!(!listens(own, address));
        }
    }
}
