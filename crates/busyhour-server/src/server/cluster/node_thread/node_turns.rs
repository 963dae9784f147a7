//! What a thread of the node would do, as tasks of the runtime: where the database answers at once, as in a simulation, no task
//! waits for anybody. All time is the runtime's then, and what happens follows from its seed.

use super::NodeThread;
use crate::{lock::lock, server::cluster::inbox::node_inbox::NodeInbox};
use busyhour::{runtime::Runtime, timer::TimerHandle};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// The node between two turns.
pub(in crate::server::cluster) struct NodeTurns {
    runtime: Runtime,
    next: Mutex<NextTurn>,
}

struct NextTurn {
    /// `None` once its life is over.
    thread: Option<NodeThread>,
    timer: Option<TimerHandle>,
}

impl NodeTurns {
    /// Takes the first turn, and one whenever something comes or is due, until this is dropped.
    pub(in crate::server::cluster) fn begin(
        runtime: &Runtime,
        inbox: &NodeInbox,
        thread: NodeThread,
    ) -> Arc<Self> {
        let turns = Arc::new(Self {
            runtime: runtime.clone(),
            next: Mutex::new(NextTurn {
                thread: Some(thread),
                timer: None,
            }),
        });
        let (woken, pool) = (Arc::downgrade(&turns), runtime.pool().clone());
        inbox.wake_with(Box::new(move || {
            let turns = woken.clone();
            // A pool that takes nothing any more has ended, and the node with it.
            let _ = pool.push(move || turns.upgrade().map_or((), |turns| turns.take()));
        }));
        turns.take();
        turns
    }

    fn take(self: &Arc<Self>) {
        let mut next = lock(&self.next);
        let is_last = next
            .thread
            .as_mut()
            .is_some_and(|thread| !thread.turn(Duration::ZERO));
        if is_last {
            next.thread = None;
        }
        let due = next.thread.as_ref().map(NodeThread::rest);
        let timers = self.runtime.timers();
        if let Some(earlier) = next.timer.take() {
            // If it still goes off, a turn finds nothing to do.
            let _ = timers.cancel(&earlier);
        }
        let turns = Arc::downgrade(self);
        let timer = due.map(|rest| timers.timer().label("cluster").after(rest));
        next.timer = timer.and_then(|timer| {
            let take = move || turns.upgrade().map_or((), |turns| turns.take());
            timer.on(self.runtime.pool()).run(take).ok()
        });
    }
}
