//! What the operator allows.

use crate::registrar::granted_seconds;
use crate::watch::{Package, WatcherList};
use std::time::Duration;

/// Lifetimes of subscriptions and publications (RFC 6665 §4.2.1, RFC 3903 §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchPolicy {
    /// Granted to a subscription that asks for nothing.
    pub expires_default: Duration,
    /// Shorter wishes, other than zero, are refused with 423, except for publications of
    /// dialogs: a call may end sooner. Wishes of an hour
    /// and more never are (RFC 6665 §4.2.1.1), whatever stands here.
    pub expires_min: Duration,
    /// Longer wishes are cut to this.
    pub expires_max: Duration,
    /// Least time between two changes that one watcher is told; those between
    /// are conflated to the last one. Zero tells as fast as it answers.
    pub notify_interval: Duration,
    /// Longest body of a publication, in bytes; more is refused with 413.
    /// Written anew for watchers it may take as many, or 6 KiB if that is more;
    /// else it is refused with 400.
    pub publication_len_max: usize,
    /// Longest NOTIFY for a list or for watcher information over datagrams, in bytes; what does
    /// not fit follows in the next ones. One resource is told in any case.
    pub list_datagram_len_max: usize,
    /// The same over a connection.
    pub list_message_len_max: usize,
    /// Resources of a list, with those of the lists that it names.
    pub list_resources_max: usize,
}

impl WatchPolicy {
    /// Longest that a publication may be when it is written anew, in bytes.
    pub(super) fn written_len_max(&self) -> usize {
        self.publication_len_max.max(WRITTEN_LEN_USUAL)
    }

    /// Least time between two changes that one watcher is told in a package.
    pub(super) fn notify_interval(&self, package: Package) -> Duration {
        match package.watched() {
            Some(_) => self.notify_interval.max(WatcherList::INTERVAL),
            None => self.notify_interval,
        }
    }

    /// The lifetime in seconds for a wish, `None` when the wish is too short.
    pub(super) fn grant(&self, wish_s: Option<u32>) -> Option<u32> {
        self.grant_from(wish_s, self.expires_min)
    }

    /// As [`grant`](Self::grant), where no wish is too short.
    pub(super) fn grant_any(&self, wish_s: Option<u32>) -> Option<u32> {
        self.grant_from(wish_s, Duration::ZERO)
    }

    fn grant_from(&self, wish_s: Option<u32>, min: Duration) -> Option<u32> {
        granted_seconds(wish_s, self.expires_default, min, self.expires_max)
    }
}

impl Default for WatchPolicy {
    fn default() -> Self {
        Self {
            expires_default: Duration::from_secs(3600),
            expires_min: Duration::from_secs(60),
            expires_max: Duration::from_secs(7200),
            notify_interval: Duration::ZERO,
            publication_len_max: 4096,
            list_datagram_len_max: 1300,
            list_message_len_max: 60_000,
            list_resources_max: 5_000,
        }
    }
}

/// Half as much again as the usual limit of a body, in bytes: what declares its
/// namespaces once has them in several elements afterwards.
const WRITTEN_LEN_USUAL: usize = 6 << 10;
