//! Devices as people see them: which are wanted, in what order, and a page of them.

use crate::server::Server;
use busyhour::clock::Instant;
use busyhour_registrar::{Binding, Domains, address_of_record};
use busyhour_sip::Uri;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// Which devices are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceQuery {
    /// In the address of record, a contact, a source or a user agent, in any case.
    pub text: Option<String>,
    /// Only those in this state.
    pub state: Option<DeviceReach>,
    /// Only those with a contact over this transport: `udp`, `tcp`, `tls`, `ws` or `wss`.
    pub transport: Option<String>,
    /// Only those of this domain.
    pub domain: Option<String>,
    /// The order.
    pub order: DeviceOrder,
    /// Whether the last one comes first.
    pub is_descending: bool,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// The length of the page.
    pub limit: usize,
}

/// Whether a device can be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceReach {
    /// It is registered, and messages reach it as far as the server knows.
    Registered,
    /// It is registered, but messages do not reach it.
    Unreachable,
    /// It has an account in the store, and is not registered.
    #[default]
    Offline,
    /// It has an account in the store which is disabled, and is not registered.
    Disabled,
}

/// What devices are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceOrder {
    /// The address of record.
    #[default]
    Aor,
    /// When it registered last.
    LastSeen,
    /// When its first contact runs out.
    Expires,
    /// The first user agent.
    UserAgent,
    /// The number of its contacts.
    Contacts,
}

/// A page of devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct DevicePage {
    /// The devices.
    pub devices: Vec<DeviceView>,
    /// How many there are in all.
    pub match_count: u64,
    /// Pass it as `after` for the next page; null on the last.
    pub next: Option<String>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeviceView {
    /// Its address of record.
    pub aor: String,
    /// Whether it can be called.
    pub state: DeviceReach,
    /// The account in the store whose address it is.
    pub account: Option<String>,
    /// Its contacts.
    pub contacts: Vec<DeviceContact>,
    /// Seconds since it registered last, if it is registered.
    pub last_seen_seconds: Option<u64>,
    /// Subscriptions to its state.
    pub watcher_count: u64,
    /// Its place in the order of the page, before its address of record; empty if it is of no page.
    #[serde(skip)]
    #[schema(ignore)]
    pub sort_key: String,
}

/// A contact of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeviceContact {
    /// The URI as the device wrote it.
    pub contact: String,
    /// What the device calls itself.
    pub user_agent: String,
    /// `udp`, `tcp`, `tls`, `ws` or `wss`.
    pub transport: &'static str,
    /// Where the registration came from.
    pub source: String,
    /// Our address, at which it came.
    pub local: String,
    /// The number of the connection; 0 for datagrams.
    pub connection: u32,
    /// Whether messages reach it, as far as the server knows.
    pub reachable: bool,
    /// Microseconds from the last OPTIONS or POKE to its answer; null if it was not asked, or was
    /// asked again before it answered.
    pub latency_us: Option<u64>,
    /// Seconds since it was registered or refreshed.
    pub last_seen_seconds: u64,
    /// Seconds until it runs out.
    pub expires_in_seconds: u64,
}

/// The canonical address of record that a text names: an address, or a user of the first domain.
pub(in crate::server) fn address_named(text: &str, domains: &Domains) -> Option<String> {
    let uri = match (text.contains(':'), text.contains('@')) {
        (true, _) => text.to_owned(),
        (false, true) => format!("sip:{text}"),
        (false, false) => format!("sip:{text}@{}", domains.first()?),
    };
    address_of_record(&Uri::parse(&uri)?, domains).ok()
}

impl Server {
    /// The device of a canonical address of record, if it is registered or has an account in the
    /// store.
    pub fn device(&self, aor: &str) -> Option<DeviceView> {
        let view = self.shown_device(aor);
        (view.account.is_some() || !view.contacts.is_empty()).then_some(view)
    }

    fn shown_device(&self, aor: &str) -> DeviceView {
        let now = self.core.clock.now();
        let device = self.core.devices.table.find(aor);
        let bindings = device.map_or(Vec::new(), |device| device.active_bindings(now));
        let contacts = bindings.iter().map(|one| {
            let latency = self.core.devices.flows.latency(&one.contact.flow());
            DeviceContact::new(one, latency, now)
        });
        let contacts: Vec<_> = contacts.collect();
        let directory = &self.core.accounts.directory;
        let account = directory.account(self.core.accounts.account_of(aor));
        let is_disabled = account.as_ref().is_some_and(|one| one.is_disabled);
        DeviceView {
            state: match is_disabled && bindings.is_empty() {
                true => DeviceReach::Disabled,
                false => reach(&bindings),
            },
            account: account.and_then(|account| directory.full_name(&account)),
            last_seen_seconds: contacts.iter().map(|one| one.last_seen_seconds).min(),
            contacts,
            watcher_count: self.core.watchers.count_of(aor),
            aor: aor.to_owned(),
            sort_key: String::new(),
        }
    }
}

impl DeviceContact {
    fn new(binding: &Binding, latency: Option<Duration>, now: Instant) -> Self {
        let parts = binding.contact.parts();
        let left = (binding.expires_at - now).as_secs();
        Self {
            contact: parts.uri.to_owned(),
            user_agent: parts.user_agent.to_owned(),
            transport: parts.flow.transport.parameter(),
            source: parts.flow.remote.to_string(),
            local: parts.flow.local.to_string(),
            connection: parts.flow.connection,
            reachable: binding.contact.is_reachable(),
            latency_us: latency.map(|it| it.as_micros() as u64),
            last_seen_seconds: u64::from(binding.lease().granted_s).saturating_sub(left),
            expires_in_seconds: left,
        }
    }
}

pub(super) fn reach(bindings: &[Binding]) -> DeviceReach {
    match bindings.iter().any(|one| one.contact.is_reachable()) {
        true => DeviceReach::Registered,
        false if bindings.is_empty() => DeviceReach::Offline,
        false => DeviceReach::Unreachable,
    }
}
