//! What has waited goes on.

use super::kept_messages::{KeptRequest, KeptWays};
use crate::server::{cluster::requests::request_route::Arrival, core::Core};
use busyhour::buffer::Buffer;
use busyhour_cluster::Partition;
use busyhour_sip::{Flow, Message, Start};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

impl Core {
    /// From now on requests that have waited for their partitions are handled.
    pub(in crate::server) fn go_on_with_kept(self: &Arc<Self>) {
        let Some(cluster) = &self.cluster else { return };
        let (core, late) = (Arc::downgrade(self), Arc::downgrade(self));
        let pool = self.runtime.pool().clone();
        cluster.kept.go_on_with(KeptWays {
            take_turn: Box::new(move |partition| {
                let core = core.clone();
                // A pool that takes nothing any more has ended, and the server with it.
                let _ = pool.push(move || {
                    if let Some(core) = core.upgrade() {
                        core.take_kept_turn(partition);
                    }
                });
            }),
            give_up: Box::new(move |kept| {
                if let Some(core) = late.upgrade() {
                    core.give_up_kept(kept);
                }
            }),
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
            let go_on = || self.go_on(kept.flow, &kept.datagram, kept.known_in);
            if catch_unwind(AssertUnwindSafe(go_on)).is_err() {
                tracing::error!(
                    event = "kept_request_panicked",
                    "a request that had waited for its partition was dropped: its handling panicked"
                );
            }
        }
        let core = Arc::downgrade(self);
        // A pool that takes nothing any more has ended, and the server with it.
        let _ = self.runtime.pool().push(move || {
            if let Some(core) = core.upgrade() {
                core.take_kept_turn(partition);
            }
        });
    }

    fn go_on(self: &Arc<Self>, flow: Flow, datagram: &Buffer, known_in: u64) {
        if self.is_closing.load(Ordering::Acquire) {
            return self.responder.traffic.dropped_shutdown.increment();
        }
        let Ok(mut message) = Message::parse(datagram) else {
            return;
        };
        let Start::Request { method, .. } = message.start() else {
            return;
        };
        let arrival = Arrival::after_waiting(known_in);
        if self.came_here(flow) {
            return self.request(&mut message, method, flow, datagram, arrival);
        }
        if !self.handed_request(&mut message, method, flow, datagram, arrival)
            && let Ok(message) = Message::parse(datagram)
        {
            self.set_aside(&message, flow);
        }
    }

    /// Nobody has served it in time.
    fn give_up_kept(&self, kept: KeptRequest) {
        if let Ok(message) = Message::parse(&kept.datagram) {
            self.set_aside(&message, kept.flow);
        }
    }
}

/// Requests that are handled before others have the worker.
const TURN_LEN: usize = 32;
