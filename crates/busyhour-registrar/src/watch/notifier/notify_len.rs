//! How long a NOTIFY may be that tells many resources or watchers.

use crate::watch::WatchPolicy;

/// Bytes of a NOTIFY; what does not fit follows in the next one.
#[derive(Debug, Clone, Copy)]
pub struct NotifyLen {
    over_datagrams: usize,
    over_a_connection: usize,
}

impl NotifyLen {
    pub(in crate::watch) fn of(policy: &WatchPolicy) -> Self {
        Self {
            over_datagrams: policy.list_datagram_len_max,
            over_a_connection: policy.list_message_len_max,
        }
    }

    /// Bytes for the body of a NOTIFY whose head has `head_len`.
    pub(in crate::watch) fn body_max(self, is_reliable: bool, head_len: usize) -> usize {
        let len_max = match is_reliable {
            true => self.over_a_connection,
            false => self.over_datagrams,
        };
        len_max.saturating_sub(head_len + CONTENT_HEADERS_LEN)
    }
}

/// Content-Type of a list, and Content-Length.
const CONTENT_HEADERS_LEN: usize = 200;
