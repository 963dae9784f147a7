use super::{
    handle::TimerHandle,
    record::{Repeat, Work},
    running,
    service::{Again, Service},
};
use std::{sync::Arc, thread};

/// A due timer on its way through an executor's queue: the task that the
/// executor runs is this, and the callback itself stays in the shard until it
/// begins, so that it can be cancelled up to that moment.
///
/// Dropped without a run, it reports the loss.
pub(super) struct Delivery {
    service: Arc<Service>,
    handle: TimerHandle,
    round: u32,
    begun: bool,
}

impl Delivery {
    pub(super) fn new(service: Arc<Service>, handle: TimerHandle, round: u32) -> Self {
        Self {
            service,
            handle,
            round,
            begun: false,
        }
    }

    pub(super) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    pub(super) fn handle(&self) -> TimerHandle {
        self.handle
    }

    /// Runs the callback unless the timer was cancelled meanwhile.
    pub(super) fn run(mut self) {
        self.begun = true;
        let Some(work) = self.service.begin(&self.handle, self.round) else {
            return;
        };
        let mut run = Run {
            delivery: &self,
            again: None,
        };
        let _running = running::enter(self.handle);
        match work {
            Work::Once { task, .. } => task.run(),
            Work::Repeat(repeat) => run.again = self.repeat(repeat),
            Work::Wake(waker) => waker.wake(),
            Work::Away => {}
        }
    }

    fn repeat(&self, mut repeat: Box<Repeat>) -> Option<Again> {
        let told = (repeat.run)();
        let next = repeat.advance(self.service.clock.now(), told)?;
        Some(Again {
            deadline: repeat.deadline(),
            missed: next.missed,
            work: Work::Repeat(repeat),
        })
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.begun {
            self.service.abandoned(&self.handle, self.round);
        }
    }
}

/// A run that reports its end, also when the callback panics.
struct Run<'a> {
    delivery: &'a Delivery,
    again: Option<Again>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let again = self.again.take();
        let delivery = self.delivery;
        delivery
            .service
            .finish(&delivery.handle, again, thread::panicking());
    }
}
