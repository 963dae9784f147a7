use super::{
    entry::{Reported, TableEntry},
    webhooks::secret_of,
};
use crate::server::RegistrarConfig;
use busyhour_sip::Transport;
use std::{net::SocketAddr, time::Duration};

/// Reads a `[[registrar]]`, and the file with its password.
pub(in crate::config) fn read(entry: &mut TableEntry<'_>) -> Result<RegistrarConfig, Reported> {
    let name = entry.required("name", TableEntry::text);
    let address = entry.required("address", TableEntry::text);
    let domains = entry.texts("domains");
    let [expires, keep, rate] =
        ["expires_seconds", "keep_seconds", "per_second"].map(|field| entry.whole(field));
    let user = entry.text("user");
    let password = secret_of(entry, "password_file");
    let (name, address) = (name?, address?);
    let located = located(&address).ok_or_else(|| {
        format!(
            "address: `{address}`: give an IP address and port, with tcp/ or tls/ before it or not"
        )
    });
    let credentials = match (user?, password?) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => return Err(entry.mistake("give both user and password_file, or neither")),
    };
    let (transport, address) = entry.check(located)?;
    Ok(RegistrarConfig {
        name,
        address,
        transport,
        domains: domains?.unwrap_or_default(),
        expires: Duration::from_secs(expires?.unwrap_or(3600)),
        credentials,
        keep: Duration::from_secs(keep?.unwrap_or(3600)),
        rate: u32::try_from(rate?.unwrap_or(100)).unwrap_or(u32::MAX),
    })
}

/// An address, with its transport before it or without one.
fn located(text: &str) -> Option<(Transport, SocketAddr)> {
    let over = |transport: Transport| {
        let rest = text
            .strip_prefix(transport.parameter())?
            .strip_prefix('/')?;
        Some((transport, rest))
    };
    let mut transports = [Transport::Udp, Transport::Tcp, Transport::Tls].into_iter();
    let (transport, address) = transports.find_map(over).unwrap_or((Transport::Udp, text));
    Some((transport, address.parse().ok()?))
}

pub(in crate::config) const FIELDS: &[&str] = &[
    "name",
    "address",
    "domains",
    "expires_seconds",
    "keep_seconds",
    "per_second",
    "user",
    "password_file",
];
