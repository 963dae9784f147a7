use super::{
    entry::{Reported, TableEntry},
    webhooks::secret_of,
};
use crate::server::RegistrarConfig;
use std::time::Duration;

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
    let parsed = address.parse();
    let parsed = parsed.map_err(|_| format!("address: `{address}`: give an IP address and port"));
    let credentials = match (user?, password?) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => return Err(entry.mistake("give both user and password_file, or neither")),
    };
    Ok(RegistrarConfig {
        name,
        address: entry.check(parsed)?,
        domains: domains?.unwrap_or_default(),
        expires: Duration::from_secs(expires?.unwrap_or(3600)),
        credentials,
        keep: Duration::from_secs(keep?.unwrap_or(3600)),
        rate: u32::try_from(rate?.unwrap_or(100)).unwrap_or(u32::MAX),
    })
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
