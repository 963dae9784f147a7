//! A machine of the cluster: the lives of its node, one after the other.

use super::{broker::Arrival, node::Node};
use crate::{client::NEVER, network::Packet};

#[derive(Default)]
pub struct Place {
    pub node: Option<Node>,
    /// Until then its program is frozen.
    pub frozen_until: u64,
    /// What came meanwhile.
    pub held: Vec<Held>,
    /// When it is started again, if it is to be.
    pub start_at: Option<u64>,
    /// When it stops after it has left.
    pub stop_at: Option<u64>,
}

/// What waits for a frozen program.
pub enum Held {
    FromNode(Packet),
    FromBroker(u64, Arrival),
}

impl Place {
    pub fn is_frozen(&self, now: u64) -> bool {
        now < self.frozen_until
    }

    /// The node, if it can do something now.
    pub fn awake(&self, now: u64) -> Option<&Node> {
        self.node.as_ref().filter(|_| !self.is_frozen(now))
    }

    pub fn next_event(&self, now: u64) -> u64 {
        let planned = [self.start_at, self.stop_at].into_iter().flatten().min();
        let own = match &self.node {
            Some(_) if self.is_frozen(now) => Some(self.frozen_until),
            Some(_) if !self.held.is_empty() => Some(now),
            Some(node) => node.next_timer(),
            None => None,
        };
        planned.unwrap_or(NEVER).min(own.unwrap_or(NEVER))
    }
}
