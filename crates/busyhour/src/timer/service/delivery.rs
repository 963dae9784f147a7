use super::{
    again::Again,
    closure_pool::PooledClosure,
    locked_shard,
    record::{OtherWork, Repeat, Runner, Work},
    timer_service::Service,
};
use crate::{pool::in_turn, timer::handle::TimerHandle};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

/// A due timer in an executor's queue. This is the task that the executor runs;
/// the callback itself stays in the shard until it begins, so that it can be
/// cancelled until then.
///
/// If it is dropped without a run, it reports the loss.
pub(in crate::timer) struct TimerDelivery {
    service: Arc<Service>,
    handle: TimerHandle,
    round: u32,
    begun: bool,
}

impl TimerDelivery {
    pub(in crate::timer) fn new(service: Arc<Service>, handle: TimerHandle, round: u32) -> Self {
        Self {
            service,
            handle,
            round,
            begun: false,
        }
    }

    pub(in crate::timer) fn handle(&self) -> TimerHandle {
        self.handle
    }

    pub(super) fn round(&self) -> u32 {
        self.round
    }

    /// Runs the callback unless the timer was cancelled meanwhile.
    ///
    /// A panic of the callback goes on to the executor, after the end of the
    /// run has been reported.
    pub(in crate::timer) fn run(mut self) {
        self.begun = true;
        let Some(work) = self.service.begin(&self.handle, self.round) else {
            return;
        };
        let running = in_turn();
        let (next, payload) = self.call(work);
        self.service.count_panics(u64::from(payload.is_some()));
        self.service.finish(&self.handle, next);
        drop(running);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Calls the callback; returns what the timer does next, or the rest of its
    /// work to drop, and the panic of the call.
    fn call(&self, work: Work) -> (Result<Again, Work>, Option<Payload>) {
        locked_shard::assert_none();
        match work {
            Work::Once {
                callback, executor, ..
            } => {
                debug_assert!(executor.is_none(), "the driver took it for the delivery");
                let outcome = catch_unwind(AssertUnwindSafe(|| callback.run()));
                (Err(NO_WORK), outcome.err())
            }
            Work::Other(OtherWork::Pooled {
                callback, executor, ..
            }) => {
                debug_assert!(executor.is_none(), "the driver took it for the delivery");
                (Err(NO_WORK), self.call_pooled(callback))
            }
            Work::Other(OtherWork::Repeat(repeat)) => self.repeat(repeat),
            other => (Err(other), None),
        }
    }

    fn call_pooled(&self, mut callback: PooledClosure) -> Option<Payload> {
        let closure = callback.take()?;
        let outcome = catch_unwind(AssertUnwindSafe(|| closure.run()));
        if let Some(shard) = self.service.shard_of(&self.handle) {
            shard.closures.give_back(callback);
        }
        outcome.err()
    }

    fn repeat(&self, mut repeat: Box<Repeat>) -> (Result<Again, Work>, Option<Payload>) {
        match catch_unwind(AssertUnwindSafe(|| (repeat.run)())) {
            Ok(returned_delay) => {
                let now = self.service.clock.now();
                (Again::after_run(repeat, now, returned_delay), None)
            }
            Err(payload) => (Err(Work::Other(OtherWork::Repeat(repeat))), Some(payload)),
        }
    }
}

impl Drop for TimerDelivery {
    fn drop(&mut self) {
        if !self.begun {
            self.service.abandoned(&self.handle, self.round);
        }
    }
}

const NO_WORK: Work = Work::Other(OtherWork::Away(Runner::NOBODY));

/// The payload of a panic.
type Payload = Box<dyn Any + Send>;
