//! What a subscription to watcher information has beside its state.

use crate::watch::{Subscribe, body::watcher_info::ToldWatchers, notifier::notify_len::NotifyLen};

/// The watchers that were told, and how long a NOTIFY may be.
#[derive(Debug)]
pub(in crate::watch) struct WatcherInfoView {
    pub(in crate::watch) told: ToldWatchers,
    pub(in crate::watch) len: NotifyLen,
}

impl WatcherInfoView {
    pub(in crate::watch) fn new(len: NotifyLen) -> Box<Self> {
        let told = ToldWatchers::default();
        Box::new(Self { told, len })
    }

    /// `None` for another package.
    pub(in crate::watch) fn of(subscribe: &Subscribe<'_>) -> Option<Box<Self>> {
        let is_wanted = subscribe.package.watched().is_some();
        is_wanted.then(|| Self::new(subscribe.notify_len))
    }
}
