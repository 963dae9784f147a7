//! Nodes that are heard although they are dead by the last view: they have begun their next life since.

use crate::{lock::lock, server::cluster::node_link::NodeLink};
use busyhour::clock::Instant;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

/// When such nodes were heard last. A view that was read later decides, so each is here for about a beat, or for as long as the
/// database is away; and there are never more than nodes.
#[derive(Debug, Default)]
pub(in crate::server::cluster) struct NextLives {
    heard: Mutex<BTreeMap<u16, Instant>>,
}

impl NextLives {
    fn hear(&self, node: u16, now: Instant) {
        lock(&self.heard).insert(node, now);
    }

    fn has(&self, node: u16) -> bool {
        lock(&self.heard).contains_key(&node)
    }

    /// These nodes live by a view that was read then or later.
    pub(in crate::server::cluster) fn view_is(&self, read_at: Instant, live: &BTreeSet<u16>) {
        lock(&self.heard).retain(|node, at| !live.contains(node) && *at >= read_at);
    }
}

impl NodeLink {
    /// A node has said something.
    pub(in crate::server::cluster) fn hears(&self, node: u16, now: Instant) {
        if !self.is_live(node) {
            self.next_lives.hear(node, now);
        }
    }

    /// Whether messages may come through to a node: it lives by the last view, or was heard since that was read. What was
    /// heard may be late and from a life that is over; then what is told until the next view is read goes to nobody, as if
    /// the node had died that much later.
    pub(in crate::server::cluster) fn may_hear(&self, node: u16) -> bool {
        self.is_live(node) || self.next_lives.has(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_view_that_was_read_later_decides() {
        let (lives, none) = (NextLives::default(), BTreeSet::new());
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        lives.hear(2, at(100));
        lives.hear(3, at(200));
        lives.view_is(at(99), &none);
        assert!(lives.has(2) && lives.has(3) && !lives.has(4));
        lives.view_is(at(101), &none);
        assert!(!lives.has(2) && lives.has(3));
        lives.view_is(at(102), &BTreeSet::from([3]));
        assert!(lock(&lives.heard).is_empty());
    }
}
