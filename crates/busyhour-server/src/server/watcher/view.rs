//! Watchers for people, a page at a time.

use super::{Watcher, watchers::Watchers};
use crate::server::Server;
use busyhour::{bus::Name, clock::Instant};
use busyhour_registrar::watch::Package;
use serde::Serialize;
use utoipa::ToSchema;

/// A page of watchers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct WatcherPage {
    /// The watchers, in the order in which they subscribed.
    pub watchers: Vec<WatcherView>,
    /// How many there are in all.
    pub match_count: u64,
    /// Pass it as `after` for the next page; null on the last.
    pub next: Option<u64>,
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WatcherView {
    /// Its number.
    pub id: u64,
    /// What it watches: an address of record, a mailbox or a list.
    pub resource: String,
    /// Whether that is a list of resources.
    pub is_list: bool,
    /// The event package: `presence`, `dialog`, `message-summary`, `reg`, or one of the first
    /// three with `.winfo` behind it.
    pub package: &'static str,
    /// The account that opened it.
    pub account: Option<String>,
    /// `udp`, `tcp`, `tls`, `ws` or `wss`.
    pub transport: &'static str,
    /// Where it is.
    pub source: String,
    /// Seconds until it runs out.
    pub expires_in_seconds: u64,
    /// Events and messages that wait for it.
    pub queued_len: u64,
}

impl Server {
    /// At most `limit` watchers behind the one with the number `after`; only those that have
    /// `text` in what they watch, in their account or their address.
    pub fn find_watchers(
        &self,
        text: Option<&str>,
        after: Option<u64>,
        limit: usize,
    ) -> WatcherPage {
        let text = text.map(str::to_lowercase);
        let now = self.core.clock.now();
        let mut page = WatcherPage::default();
        for watcher in self.core.watchers.all() {
            let view = watcher.view(now);
            if text.as_ref().is_some_and(|text| !view.has(text)) {
                continue;
            }
            page.match_count += 1;
            if after.is_none_or(|after| view.id > after) {
                match page.watchers.len() < limit {
                    true => page.watchers.push(view),
                    false => page.next = page.watchers.last().map(|last| last.id),
                }
            }
        }
        page
    }
}

impl Watchers {
    /// Subscriptions to what an address does, but not those to lists that have it.
    pub(in crate::server) fn count_of(&self, aor: &str) -> u64 {
        let name = Name::new(aor);
        let of = |package| {
            let watchers = self.of(package, &name).into_iter();
            watchers.filter(|one| *one.device() == *aor).count() as u64
        };
        Package::ALL.into_iter().map(of).sum()
    }
}

impl Watcher {
    fn view(&self, now: Instant) -> WatcherView {
        let queued_len = self.queued_len() as u64;
        let state = self.lock();
        let subscription = &state.subscription;
        let flow = subscription.dialog().flow();
        WatcherView {
            id: self.id,
            resource: subscription.device().to_string(),
            is_list: subscription.is_of_list(),
            package: subscription.package().name(),
            account: subscription.account().map(str::to_owned),
            transport: flow.transport.parameter(),
            source: flow.remote.to_string(),
            expires_in_seconds: subscription.left_s(now).into(),
            queued_len,
        }
    }
}

impl WatcherView {
    fn has(&self, text: &str) -> bool {
        let account = self.account.as_deref().unwrap_or_default();
        let texts = [&self.resource, account, &self.source, self.package];
        texts.iter().any(|one| one.to_lowercase().contains(text))
    }
}
