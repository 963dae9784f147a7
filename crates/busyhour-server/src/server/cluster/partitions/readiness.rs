//! When a node that has started has its part of the partitions.
//!
//! It has them when it knows what the others say of devices, and is reached by datagrams. Until then it has much to do, and
//! requests that are handed to it would go over NATS behind all that is said of devices; so whoever sent them would wait for both.
//! Without others that have partitions nobody serves its part meanwhile, so it does not wait.

use crate::server::{
    cluster::{cluster_node::ClusterNode, direct::node_paths::NodePaths},
    core::Core,
};
use busyhour::timer::AddError;
use std::{sync::Arc, time::Duration};

impl Core {
    /// The server has started: it is assigned partitions as soon as it is ready for them, or after some time.
    pub(in crate::server) fn serve_when_ready(self: &Arc<Self>) -> Result<(), AddError> {
        if self.cluster.is_none() {
            return Ok(());
        }
        let (core, given_up_at) = (Arc::downgrade(self), self.clock.now() + PATIENCE);
        let look = move || {
            let Some(core) = core.upgrade() else {
                return Duration::ZERO;
            };
            let Some(cluster) = &core.cluster else {
                return Duration::ZERO;
            };
            if cluster.is_ready() || core.clock.now() >= given_up_at {
                cluster.can_serve();
                return Duration::ZERO;
            }
            PAUSE
        };
        let timer = self.runtime.timers().timer().label("cluster");
        let timer = timer.after(Duration::ZERO).on(self.runtime.pool());
        timer.run_with_next_delay(look).map(drop)
    }
}

impl ClusterNode {
    /// Whether all is known that others say, and each of them hears this node by datagrams.
    fn is_ready(&self) -> bool {
        if !self.link.knows_nodes() {
            return false;
        }
        let others = self.other_owners();
        if others.is_empty() {
            return true;
        }
        let figures = self.live.figures();
        let is_open = |paths: &NodePaths| others.iter().all(|it| paths.is_open_to(*it));
        let are_open = self.link.paths.as_ref().is_none_or(is_open);
        are_open && figures.is_whole && figures.unheard == 0
    }
}

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Three times what a node needs to hear of 100,000 devices; while NATS is away it hears of none.
const PATIENCE: Duration = Duration::from_secs(5);
