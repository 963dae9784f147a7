//! `timers-shared`: the service with its driver running, as in a server.

use std::time::Duration;

use busyhour::{
    clock::Instant,
    pool::TaskPool,
    timer::{Cancel, TimerHandle, Timers},
};
use kit::{Args, timers};

struct Service {
    timers: Timers,
    pool: TaskPool,
    /// A minute after the start, so that no timer is due during the
    /// measurement.
    origin: Instant,
}

pub fn run(args: &Args) {
    let timers = Timers::builder().capacity(CAPACITY).build();
    let driver = timers.spawn_driver().expect("one driver");
    let pool = TaskPool::builder().workers(1).build().expect("a pool");
    let origin = timers.clock().now() + Duration::from_secs(60);
    let service = Service {
        timers,
        pool,
        origin,
    };
    timers::run_shared(args, &service);
    driver.stop();
}

impl timers::SharedTimers for Service {
    type Handle = TimerHandle;

    fn add(&self, deadline_ns: u64, _id: u64) -> TimerHandle {
        let deadline = self.origin + Duration::from_nanos(deadline_ns);
        self.timers.at(deadline, &self.pool, || ())
    }

    fn cancel(&self, handle: TimerHandle) -> bool {
        self.timers.cancel(&handle) == Cancel::Prevented
    }

    fn len(&self) -> u64 {
        self.timers.stats().pending_count
    }
}

const CAPACITY: usize = 4_000_000;
