//! What a watcher gets of the server. README.md in the folder above says what a watcher
//! does with each part.
//!
//! The context owns the table, the table owns the watchers, and each watcher has a weak
//! reference to the context. So all of them end with the server's last handle, but for a
//! turn that has begun: it has every part that it needs until it is done.

use super::{Watcher, resource_feeds::ResourceFeeds, watchers::Watchers};
use crate::server::{
    access::account_policy::AccountPolicy,
    device::device_context::DeviceContext,
    load::shares::{Holder, Holders},
    persistence::Persistence,
    server_clock::ServerClock,
    settings::{hints::Hints, lists::Lists, mailboxes::Mailboxes},
    sip::responder::Responder,
    spans::span_source::SpanSource,
};
use busyhour::timer::Timers;
use busyhour_registrar::{
    Advertised, Domains,
    watch::{End, WatchPolicy},
};
use busyhour_sip::Flow;
use std::sync::Arc;

/// The table of watchers, what they listen to, and the parts that they use.
pub(in crate::server) struct WatcherContext {
    pub(in crate::server) watchers: Arc<Watchers>,
    pub(in crate::server) resource_feeds: Arc<ResourceFeeds>,
    pub(in crate::server) hints: Arc<Hints>,
    pub(in crate::server) lists: Arc<Lists>,
    pub(in crate::server) devices: Arc<DeviceContext>,
    pub(in crate::server) mailboxes: Arc<Mailboxes>,
    pub(in crate::server) clock: Arc<ServerClock>,
    pub(in crate::server) timers: Timers,
    pub(in crate::server) responder: Arc<Responder>,
    pub(in crate::server) persistence: Arc<Persistence>,
    pub(in crate::server) accounts: Arc<AccountPolicy>,
    pub(in crate::server) holders: Holders,
    pub(in crate::server) spans: Arc<SpanSource>,
    pub(in crate::server) policy: WatchPolicy,
    pub(in crate::server) advertised: Advertised,
    /// Whose addresses of record lists may have.
    pub(in crate::server) domains: Domains,
    /// Nobody needs an account.
    pub(in crate::server) is_open: bool,
}

impl WatcherContext {
    /// Ends a subscription if the account that opened it is gone.
    pub(in crate::server) fn revoke(&self, watcher: &Arc<Watcher>) {
        let accounts = &self.accounts;
        let device = watcher.device();
        let watched = accounts.account_of(&device);
        let may_not =
            |account: &str| accounts.is_gone(account) || !accounts.may_watch(account, watched);
        if accounts.are_looked_for() && watcher.is_of(may_not) {
            watcher.push_end(End::Rejected);
        }
    }

    /// The holder to which a watcher's shares are charged.
    pub(super) fn holder(&self, flow: Flow, account: Option<&str>) -> Holder {
        self.holders.of(flow.remote.ip(), account)
    }
}
