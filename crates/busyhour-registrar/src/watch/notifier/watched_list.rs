//! What a subscription to a list has in place of a state.

use crate::watch::{
    ListEntry, WatchPolicy,
    list::list_view::{ListBody, ListView, ListWriting},
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
    /// Bytes of a NOTIFY over datagrams, and over a connection.
    notify_len_max: (usize, usize),
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
            notify_len_max: (policy.list_datagram_len_max, policy.list_message_len_max),
        }
    }

    /// Bytes for the body of a NOTIFY whose head has `head_len`.
    pub(in crate::watch) fn body_len_max(&self, is_reliable: bool, head_len: usize) -> usize {
        let (over_datagrams, over_a_connection) = self.notify_len_max;
        let len_max = match is_reliable {
            true => over_a_connection,
            false => over_datagrams,
        };
        len_max.saturating_sub(head_len + CONTENT_HEADERS_LEN)
    }

    /// The next body, and whether more has to follow; `None` if there is nothing to tell.
    pub(in crate::watch) fn write(&mut self, writing: ListWriting<'_>) -> Option<(ListBody, bool)> {
        let view = self.view.as_mut()?;
        let body = view.write(writing)?;
        Some((body, view.owes()))
    }
}

/// Content-Type of a list, and Content-Length.
const CONTENT_HEADERS_LEN: usize = 200;
