//! `timers`: the pure queue, exact by deadline, then by insertion.

use busyhour::{
    clock::Instant,
    timer::{Handle, Queue},
};

#[derive(Default)]
pub struct Timers(Queue<u64>);

impl kit::timers::Timers for Timers {
    type Handle = Handle;

    fn add(&mut self, deadline_ns: u64, id: u64) -> Handle {
        self.0.add(Instant::from_nanos(deadline_ns), id)
    }

    fn cancel(&mut self, handle: Handle) -> bool {
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
