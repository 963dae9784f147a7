//! `DelayQueue` of tokio-util, with tokio's paused clock, which jumps.

use std::{future::poll_fn, time::Duration};

use kit::{
    Args,
    timers::{self, Timers, WINDOW_NS},
};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};
use tokio_util::time::{DelayQueue, delay_queue::Key};

struct Queue {
    runtime: Runtime,
    timers: DelayQueue<(u64, u64)>,
}

pub fn run(args: &Args) {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime");
    let timers = {
        let _inside = runtime.enter();
        DelayQueue::new()
    };
    timers::run(args, || Queue { runtime, timers });
}

impl Timers for Queue {
    type Handle = Key;

    fn add(&mut self, deadline_ns: u64, id: u64) -> Key {
        let _inside = self.runtime.enter();
        self.timers.insert_at(
            (deadline_ns, id),
            Instant::now() + Duration::from_nanos(deadline_ns),
        )
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.timers.try_remove(&key).is_some()
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        let timers = &mut self.timers;
        self.runtime.block_on(async {
            tokio::time::advance(Duration::from_nanos(WINDOW_NS) + Duration::from_secs(1)).await;
            while let Some(expired) = poll_fn(|context| timers.poll_expired(context)).await {
                let (deadline, id) = expired.into_inner();
                on_expire(deadline, id);
            }
        });
    }

    fn len(&self) -> u64 {
        self.timers.len() as u64
    }
}
