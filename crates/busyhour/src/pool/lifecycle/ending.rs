//! How a pool ends after its last handle was dropped. See README.md, "The last
//! handle".

use std::sync::atomic::Ordering;

use super::leftovers::drop_leftovers;
use crate::pool::{phase::Phase, shared::Shared};

impl Shared {
    /// The last handle was dropped: what is queued still runs, then the workers
    /// end.
    pub(in crate::pool) fn end_without_handle(&self) {
        let lifecycle = &self.lifecycle;
        lifecycle.has_no_handle.store(true, Ordering::SeqCst);
        lifecycle.enter(Phase::Ending, &self.workers);
        if self.workers.slots.len() == 0 {
            lifecycle.seal_if_ended(&self.workers);
            self.close_without_handle();
        }
    }

    /// A worker's thread has ended. This checks once more whether all others
    /// sleep, since the last of them to fall asleep counted this one as awake.
    pub(in crate::pool) fn leave(&self, number: usize) {
        let (lifecycle, workers) = (&self.lifecycle, &self.workers);
        let is_owed = workers.slots.leave(number);
        if is_owed && !lifecycle.is_sealed() {
            self.grow(1);
        }
        lifecycle.after_falling_asleep(workers.sleepers.asleep_len(), workers);
        lifecycle.notify_end();
        if workers.slots.len() == 0 {
            self.close_without_handle();
        }
    }

    /// Closes every queue, and drops what came too late to run. Without a
    /// handle no shutdown will do so, so the last worker does.
    fn close_without_handle(&self) {
        let has_no_handle = self.lifecycle.has_no_handle.load(Ordering::SeqCst);
        if self.lifecycle.is_sealed() && has_no_handle {
            let _nobody_asks = drop_leftovers(self);
            self.awaited_futures.wake_all();
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::{
        pool::{
            phase::PhaseCell,
            sleep::{Sleepers, WorkerSlots},
        },
        sync::{Mutex, lock},
    };
    use loom::sync::Arc;

    struct Pool {
        worker_slots: WorkerSlots,
        sleepers: Sleepers,
        phase: PhaseCell,
    }

    impl Pool {
        /// Same steps as `Lifecycle::seal_if_ended`, while no queue shows work.
        fn seal_if_ended(&self) {
            if self
                .sleepers
                .look(|asleep| asleep >= self.worker_slots.len())
            {
                self.phase.enter(Phase::Sealed);
            }
        }
    }

    /// The forbidden outcome: one worker has left, the other one sleeps, and
    /// neither has sealed the pool.
    #[test]
    fn loom_the_last_one_to_sleep_or_to_leave_seals() {
        loom::model(|| {
            let pool = Arc::new(Pool {
                worker_slots: WorkerSlots::new(2),
                sleepers: Sleepers::default(),
                phase: PhaseCell::open(),
            });
            assert_eq!(
                (pool.worker_slots.take_slot(), pool.worker_slots.take_slot()),
                (Some(0), Some(1))
            );
            pool.phase.enter(Phase::Ending);
            pool.sleepers.begin_search();
            let leaver = {
                let pool = Arc::clone(&pool);
                loom::thread::spawn(move || {
                    pool.worker_slots.leave(1);
                    pool.seal_if_ended();
                })
            };
            pool.sleepers.fall_asleep(0);
            pool.seal_if_ended();
            leaver.join().unwrap();
            assert!(pool.phase.is_sealed(), "asleep for ever");
        });
    }

    /// The forbidden outcome: a handle waits, its future sleeps, and neither
    /// the handle nor the thread that sealed the pool wakes it.
    #[test]
    fn loom_a_handle_that_waits_is_seen_or_sees_the_seal() {
        loom::model(|| {
            let shared = Arc::new((PhaseCell::open(), Mutex::new(false)));
            let handle = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    let (phase, note) = &*shared;
                    *lock(note) = true;
                    phase.is_sealed()
                })
            };
            let (phase, note) = &*shared;
            phase.enter(Phase::Sealed);
            let is_seen = *lock(note);
            let sees = handle.join().unwrap();
            assert!(is_seen || sees, "nobody wakes the future");
        });
    }
}
