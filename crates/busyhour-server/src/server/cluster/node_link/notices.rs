//! What other nodes have to be told until each has answered.

use super::{NodeLink, NodeMessage};
use crate::lock::lock;
use busyhour::clock::Instant;
use busyhour_cluster::NodeNumber;
use busyhour_sip::source_of;
use std::sync::Arc;

impl NodeLink {
    /// All other nodes have to be told this about something, or one node, now or later.
    pub(in crate::server::cluster) fn add_notice(
        self: &Arc<Self>,
        now: Instant,
        (about, node): (&Arc<str>, Option<u16>),
        message: &NodeMessage<'_>,
    ) {
        let (source, text) = (source_of(message.flow.remote.ip()), message.bytes().into());
        match node.map(NodeNumber) {
            None => lock(&self.notices).add(now, source, about, text),
            Some(node) => lock(&self.notices).add_for(node, now, source, about, text),
        }
        self.send_notices(now);
    }

    /// What other nodes were to be told about this is not true any more.
    pub(in crate::server::cluster) fn withdraw_notices(&self, about: &str) {
        lock(&self.notices).withdraw(about);
    }

    /// Tells other nodes what they have not answered yet.
    pub(in crate::server::cluster) fn send_notices(self: &Arc<Self>, now: Instant) {
        let due = lock(&self.notices).due(now);
        for notice in due {
            let link = Arc::downgrade(self);
            let answered = Box::new(move |is_taken| {
                if let (true, Some(link)) = (is_taken, link.upgrade()) {
                    lock(&link.notices).answered(notice.number);
                }
            });
            // What cannot be sent now is due again.
            let _ = self.ask(&self.subject(notice.to.0), notice.text.to_vec(), answered);
        }
    }

    /// Those that other nodes have not answered.
    pub(in crate::server::cluster) fn notices_waiting(&self) -> u64 {
        lock(&self.notices).len() as u64
    }

    /// Those of which other nodes were not told, since too many waited.
    pub(in crate::server::cluster) fn notices_given_up(&self) -> u64 {
        lock(&self.notices).given_up()
    }

    /// Those of them whose source had more than its share.
    pub(in crate::server::cluster) fn notices_over_share(&self) -> u64 {
        lock(&self.notices).over_share()
    }
}
