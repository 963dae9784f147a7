//! Finds devices for people: by text and state, in an order, a page at a time.

use crate::server::{Server, device::Device, stats::listing::is_of_domain};
use busyhour::clock::Instant;
use busyhour_registrar::Binding;
use busyhour_store::AccountView;
use serde::Serialize;
use std::{cmp::Ordering, collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceReach {
    /// It is registered, and messages reach it as far as the server knows.
    Registered,
    /// It is registered, but messages do not reach it.
    Unreachable,
    /// It has an account in the store, and is not registered.
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

/// A device that may be on the page.
struct Candidate {
    key: String,
    aor: String,
    /// The user name of an account that is not registered.
    offline: Option<String>,
}

impl Server {
    /// Devices for operators. It visits every device, a few at a time, so it takes long where
    /// there are many, but keeps no more than a page of them.
    pub fn find_devices(&self, query: &DeviceQuery) -> DevicePage {
        let mut page = Gathering::new(query, self.core.clock.now());
        let table = &self.core.devices.table;
        let mut first = 0;
        while let Some(devices) = table.of_shards(first, SHARDS_AT_ONCE) {
            devices.iter().for_each(|device| page.visit(device));
            first += SHARDS_AT_ONCE;
        }
        let is_of_accounts = |state| [DeviceReach::Offline, DeviceReach::Disabled].contains(&state);
        if query.state.is_none_or(is_of_accounts) && query.transport.is_none() {
            self.visit_offline(&mut page);
        }
        let (found, match_count, has_more) = page.into_sorted();
        let last = found.last().filter(|_| has_more);
        let next = last.map(|last| format!("{}|{}", last.key, last.aor));
        let devices = self.shown(&found);
        DevicePage {
            devices,
            match_count,
            next,
        }
    }

    /// The device of a canonical address of record, if it is registered or has an account in the
    /// store.
    pub fn device(&self, aor: &str) -> Option<DeviceView> {
        let one = Candidate {
            key: String::new(),
            aor: aor.to_owned(),
            offline: None,
        };
        let view = self.shown(&[one]).pop();
        view.filter(|view| view.account.is_some() || !view.contacts.is_empty())
    }

    /// Accounts of the store without a contact.
    fn visit_offline(&self, page: &mut Gathering<'_>) {
        let domain = page.query.domain.clone();
        let mut after = None;
        loop {
            let accounts =
                self.stored_accounts(after.as_deref(), ACCOUNTS_AT_ONCE, domain.as_deref());
            let is_wanted = |account: &&AccountView| {
                let state = page.query.state;
                state.is_none_or(|state| state == of_account(account))
            };
            let wanted: Vec<_> = accounts.iter().filter(is_wanted).collect();
            for account in wanted {
                let Some(aor) = self.address_of_record(&account.user) else {
                    continue;
                };
                let device = self.core.devices.table.find(&aor);
                let is_registered =
                    device.is_some_and(|device| !device.active_bindings(page.now).is_empty());
                if !is_registered && page.is_wanted_text(&[&aor]) {
                    page.add(String::new(), &aor, Some(account.user.clone()));
                }
            }
            match accounts.last() {
                Some(last) if accounts.len() == ACCOUNTS_AT_ONCE => after = Some(last.user.clone()),
                _ => return,
            }
        }
    }

    fn shown(&self, found: &[Candidate]) -> Vec<DeviceView> {
        let now = self.core.clock.now();
        let mut watched: HashMap<&str, u64> =
            found.iter().map(|one| (one.aor.as_str(), 0)).collect();
        self.core.watchers.count(&mut watched);
        let shown = found.iter().map(|one| {
            let device = self.core.devices.table.find(&one.aor);
            let bindings = device.map_or(Vec::new(), |device| device.active_bindings(now));
            let contacts: Vec<_> = bindings
                .iter()
                .map(|one| {
                    let latency = self.core.devices.flows.latency(&one.contact.flow());
                    DeviceContact::new(one, latency, now)
                })
                .collect();
            let account = match &one.offline {
                Some(user) => self.stored_account(user),
                None => self.stored_account(self.core.domains.account_of(&one.aor)),
            };
            DeviceView {
                state: match &account {
                    Some(account) if bindings.is_empty() => of_account(account),
                    _ => reach(&bindings),
                },
                account: account.map(|account| account.user),
                last_seen_seconds: contacts.iter().map(|one| one.last_seen_seconds).min(),
                contacts,
                watcher_count: watched[one.aor.as_str()],
                aor: one.aor.clone(),
            }
        });
        shown.collect()
    }
}

/// The first of the devices that are wanted, and how many there are.
struct Gathering<'q> {
    query: &'q DeviceQuery,
    text: Option<WantedText>,
    after: Option<(&'q str, &'q str)>,
    now: Instant,
    found: Vec<Candidate>,
    /// The last one of a full page: what comes behind it is only counted.
    last: Option<(String, String)>,
    match_count: u64,
    has_more: bool,
}

impl<'q> Gathering<'q> {
    fn new(query: &'q DeviceQuery, now: Instant) -> Self {
        Self {
            query,
            text: query.text.as_deref().map(WantedText::new),
            after: query
                .after
                .as_deref()
                .map(|after| after.rsplit_once('|').unwrap_or(("", after))),
            now,
            found: Vec::new(),
            last: None,
            match_count: 0,
            has_more: false,
        }
    }

    fn visit(&mut self, device: &Arc<Device>) {
        let domain = self.query.domain.as_ref();
        if !domain.is_none_or(|domain| is_of_domain(device.aor(), domain)) {
            return;
        }
        let bindings = device.active_bindings(self.now);
        if !bindings.is_empty() && self.is_wanted(device.aor(), &bindings) {
            self.add(self.key(&bindings), device.aor(), None);
        }
    }

    fn is_wanted(&self, aor: &str, bindings: &[Binding]) -> bool {
        let transport = self.query.transport.as_deref();
        let has_transport = |one: &Binding| {
            transport.is_none_or(|wanted| one.contact.parts().flow.transport.parameter() == wanted)
        };
        self.query
            .state
            .is_none_or(|state| state == reach(bindings))
            && bindings.iter().any(has_transport)
            && (self.is_wanted_text(&[aor])
                || bindings.iter().any(|one| {
                    let parts = one.contact.parts();
                    self.is_wanted_text(&[parts.uri, parts.user_agent])
                        || self.is_wanted_source(parts.flow.remote)
                }))
    }

    /// Writing an address takes longer than all the rest, and most texts are in none.
    fn is_wanted_source(&self, source: SocketAddr) -> bool {
        let wanted = self.text.as_ref();
        wanted.is_none_or(|text| text.may_be_of_address && text.is_in(&source.to_string()))
    }

    fn is_wanted_text(&self, texts: &[&str]) -> bool {
        let Some(wanted) = &self.text else {
            return true;
        };
        texts.iter().any(|text| wanted.is_in(text))
    }

    /// Texts in the order of the values.
    fn key(&self, bindings: &[Binding]) -> String {
        let number = |number: Option<u64>| format!("{:020}", number.unwrap_or(0));
        match self.query.order {
            DeviceOrder::Aor => String::new(),
            // By the moment, which does not move between two pages.
            DeviceOrder::LastSeen => {
                let begun = bindings.iter().map(|one| {
                    let granted_ns = u64::from(one.lease.granted_s) * NANOS;
                    one.lease.expires_at.as_nanos().saturating_sub(granted_ns)
                });
                number(begun.max())
            }
            DeviceOrder::Expires => number(
                bindings
                    .iter()
                    .map(|one| one.lease.expires_at.as_nanos())
                    .min(),
            ),
            DeviceOrder::UserAgent => {
                let agents = bindings.iter().map(|one| one.contact.parts().user_agent);
                agents.min().unwrap_or_default().to_lowercase()
            }
            DeviceOrder::Contacts => number(Some(bindings.len() as u64)),
        }
    }

    fn add(&mut self, key: String, aor: &str, offline: Option<String>) {
        self.match_count += 1;
        let is_behind = |other: (&str, &str)| {
            self.directed((key.as_str(), aor).cmp(&other)) == Ordering::Greater
        };
        if self.after.is_some_and(|after| !is_behind(after)) {
            return;
        }
        let last = self.last.as_ref();
        if last.is_some_and(|(key, aor)| is_behind((key.as_str(), aor.as_str()))) {
            self.has_more = true;
            return;
        }
        let aor = aor.to_owned();
        self.found.push(Candidate { key, aor, offline });
        if self.found.len() >= 2 * self.query.limit + 2 {
            self.keep_first();
        }
    }

    fn directed(&self, order: Ordering) -> Ordering {
        match self.query.is_descending {
            true => order.reverse(),
            false => order,
        }
    }

    fn keep_first(&mut self) {
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable_by(|one, other| {
            self.directed((&one.key, &one.aor).cmp(&(&other.key, &other.aor)))
        });
        self.has_more |= found.len() > self.query.limit;
        found.truncate(self.query.limit);
        let last = found.last().filter(|_| found.len() == self.query.limit);
        self.last = last.map(|last| (last.key.clone(), last.aor.clone()));
        self.found = found;
    }

    fn into_sorted(mut self) -> (Vec<Candidate>, u64, bool) {
        self.keep_first();
        (self.found, self.match_count, self.has_more)
    }
}

/// A text that is looked for in any case.
struct WantedText {
    lowercase: String,
    /// An address might have it.
    may_be_of_address: bool,
}

impl WantedText {
    fn new(text: &str) -> Self {
        let lowercase = text.to_lowercase();
        let is_of_address = |one: u8| one.is_ascii_hexdigit() || b".:[]%".contains(&one);
        Self {
            may_be_of_address: lowercase.bytes().all(is_of_address),
            lowercase,
        }
    }

    /// Nearly every text is ASCII, and is then compared as it is.
    fn is_in(&self, text: &str) -> bool {
        let wanted = self.lowercase.as_bytes();
        if !text.is_ascii() || !wanted.is_ascii() {
            return text.to_lowercase().contains(&self.lowercase);
        }
        let Some((first, rest)) = wanted.split_first() else {
            return true;
        };
        let text = text.as_bytes();
        let starts = text.iter().enumerate();
        let mut starts = starts.filter(|(_, one)| one.eq_ignore_ascii_case(first));
        starts.any(|(at, _)| {
            let found = text.get(at + 1..at + wanted.len());
            found.is_some_and(|found| found.eq_ignore_ascii_case(rest))
        })
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
            last_seen_seconds: u64::from(binding.lease.granted_s).saturating_sub(left),
            expires_in_seconds: left,
        }
    }
}

fn reach(bindings: &[Binding]) -> DeviceReach {
    match bindings.iter().any(|one| one.contact.is_reachable()) {
        true => DeviceReach::Registered,
        false if bindings.is_empty() => DeviceReach::Offline,
        false => DeviceReach::Unreachable,
    }
}

/// Of one that is not registered.
fn of_account(account: &AccountView) -> DeviceReach {
    match account.disabled {
        true => DeviceReach::Disabled,
        false => DeviceReach::Offline,
    }
}

const SHARDS_AT_ONCE: usize = 32;
const ACCOUNTS_AT_ONCE: usize = 1000;
const NANOS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_any_case_and_at_any_place() {
        let texts = [
            "",
            "a",
            "aab",
            "Snom D785",
            "sip:Alice@example.com",
            "192.0.2.1:5060",
            "Zoë",
            "ZOË",
        ];
        let wanted = [
            "",
            "A",
            "aB",
            "snom",
            "d785",
            "ALICE@",
            "x",
            "2.1:50",
            "zoë",
            "Zo",
            "snom d785 and more",
        ];
        for (text, wanted) in texts
            .iter()
            .flat_map(|text| wanted.map(|wanted| (text, wanted)))
        {
            let expected = text.to_lowercase().contains(&wanted.to_lowercase());
            assert_eq!(
                WantedText::new(wanted).is_in(text),
                expected,
                "{wanted} in {text}"
            );
        }
    }

    #[test]
    fn what_no_address_has_is_not_looked_for_in_one() {
        let may = |text: &str| WantedText::new(text).may_be_of_address;
        assert!(may("192.0.2.1:5060") && may("[2001:DB8::1]:5060") && may("5060") && may(""));
        assert!(!may("alice") && !may("snom") && !may("192.0.2.1/24"));
    }
}
