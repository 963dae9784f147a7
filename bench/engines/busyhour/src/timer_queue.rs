//! `timers` with the pure queue, which is exact by deadline, then by insertion.

use busyhour::{
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};

#[derive(Default)]
pub struct Timers(TimerQueue<u64>);

impl kit::timers::Timers for Timers {
    type Handle = QueueHandle;

    fn add(&mut self, deadline_ns: u64, id: u64) -> QueueHandle {
        self.0.add(Instant::from_nanos(deadline_ns), id)
    }

    fn cancel(&mut self, handle: QueueHandle) -> bool {
        self.0.cancel(handle).is_some()
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        while let Some((deadline, id)) = self.0.pop_due(Instant::FAR_FUTURE) {
            on_expire(deadline.as_nanos(), id);
        }
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
