//! What has waited goes on.

use super::kept_messages::{KeptWays, kept_request::KeptRequest};
use crate::server::{cluster::requests::request_route::Arrival, core::Core};
use busyhour_cluster::Partition;
use busyhour_sip::{Message, Start};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

impl Core {
    /// From now on requests that have waited for their partitions are handled.
    pub(in crate::server) fn go_on_with_kept(self: &Arc<Self>) {
        let Some(cluster) = &self.cluster else { return };
        let (core, late) = (Arc::downgrade(self), Arc::downgrade(self));
        cluster.kept.go_on_with(KeptWays {
            take_turn: Box::new(move |partition| {
                if let Some(core) = core.upgrade() {
                    core.push_kept_turn(partition);
                }
            }),
            give_up: Box::new(move |kept| {
                if let Some(core) = late.upgrade() {
                    core.give_up_kept(kept);
                }
            }),
        });
    }

    fn push_kept_turn(self: &Arc<Self>, partition: Partition) {
        let core = Arc::downgrade(self);
        // A pool that takes nothing any more has ended, and the server with it.
        let _ = self.runtime.pool().push(move || {
            if let Some(core) = core.upgrade() {
                core.take_kept_turn(partition);
            }
        });
    }

    /// Lets the worker go after some requests.
    fn take_kept_turn(self: &Arc<Self>, partition: Partition) {
        let Some(cluster) = &self.cluster else { return };
        for _ in 0..TURN_LEN {
            let Some(kept) = cluster.kept.next(partition) else {
                return;
            };
            // Whoever unwinds here would keep the turn for ever.
            if catch_unwind(AssertUnwindSafe(|| self.go_on(kept))).is_err() {
                tracing::error!(
                    event = "kept_request_panicked",
                    "a request that had waited for its partition was dropped: its handling panicked"
                );
            }
        }
        self.push_kept_turn(partition);
    }

    fn go_on(self: &Arc<Self>, kept: KeptRequest) {
        if self.is_closing.load(Ordering::Acquire) {
            return self.responder.traffic.dropped_shutdown.increment();
        }
        let KeptRequest { flow, datagram, .. } = kept;
        let Ok(mut message) = Message::parse(&datagram) else {
            return;
        };
        let Start::Request { method, .. } = message.start() else {
            return;
        };
        let arrival = Arrival::after_waiting(kept.known_in, kept.place, kept.span);
        if self.came_here(flow) {
            return self.request(&mut message, method, flow, &datagram, arrival);
        }
        // Whatever becomes of it, its client is told from here.
        self.handed_request(&mut message, method, flow, &datagram, arrival);
    }

    /// Nobody has served it in time.
    fn give_up_kept(&self, mut kept: KeptRequest) {
        if let Ok(message) = Message::parse(&kept.datagram) {
            self.set_aside(&message, kept.flow, &mut kept.span);
        }
    }
}

/// Requests that are handled before others have the worker.
const TURN_LEN: usize = 32;
