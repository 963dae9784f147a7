//! Devices as people name them in hints and lists.

use busyhour::bus::Name;
use busyhour_registrar::{Domains, address_of_record};
use busyhour_sip::Uri;

/// The address of record of a device: a whole one, or that of a user of the first domain;
/// `None` if it is neither, or not ours.
pub(in crate::server) fn device_named(device: &str, domains: &Domains) -> Option<Name> {
    let uri = match (device.contains(':'), domains.first()) {
        (true, _) => device.to_owned(),
        (false, _) if device.contains('@') => format!("sip:{device}"),
        (false, Some(domain)) => format!("sip:{device}@{domain}"),
        (false, None) => return None,
    };
    device_of(&uri, domains)
}

/// The same of what belongs to a domain with accounts of its own: there a user without a domain is
/// of that one.
pub(super) fn device_in(domain: Option<&str>, device: &str, domains: &Domains) -> Option<Name> {
    match domain {
        Some(domain) if !device.contains([':', '@']) => {
            device_named(&format!("{device}@{domain}"), domains)
        }
        _ => device_named(device, domains),
    }
}

/// Whether a domain has accounts of its own.
pub(super) fn has_accounts(domains: &Domains, name: &str) -> bool {
    domains.account_of(&format!("sip:extension@{name}")) != "extension"
}

/// The address of record of a URI with a user.
pub(in crate::server) fn device_of(uri: &str, domains: &Domains) -> Option<Name> {
    let uri = Uri::parse(uri)?;
    uri.as_sip()?.user?;
    let device = address_of_record(&uri, domains).ok()?;
    Some(device.into())
}
