//! What a subscription to a list has in place of a state.

use crate::watch::{
    ListEntry, WatchPolicy,
    list::list_view::{ListBody, ListView, ListWriting},
    notifier::notify_len::NotifyLen,
};
use std::sync::Arc;

/// The list of a subscription, and what was told of it.
#[derive(Debug)]
pub(in crate::watch) struct WatchedList {
    /// The entries that its SUBSCRIBE brought; `None` if the list is known by its URI.
    pub(in crate::watch) recipients: Option<Arc<[ListEntry]>>,
    /// Until it is known which resources the list has.
    pub(in crate::watch) view: Option<ListView>,
    /// The subscriber has gone, and the last NOTIFY needs no state.
    pub(in crate::watch) is_left: bool,
    pub(in crate::watch) len: NotifyLen,
}

impl WatchedList {
    pub(in crate::watch) fn new(
        recipients: Option<Arc<[ListEntry]>>,
        policy: &WatchPolicy,
    ) -> Self {
        Self {
            recipients,
            view: None,
            is_left: false,
            len: NotifyLen::of(policy),
        }
    }

    /// The next body, and whether more has to follow; `None` if there is nothing to tell.
    pub(in crate::watch) fn write(&mut self, writing: ListWriting<'_>) -> Option<(ListBody, bool)> {
        let view = self.view.as_mut()?;
        let body = view.write(writing)?;
        Some((body, view.owes()))
    }
}
