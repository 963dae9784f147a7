//! `replace`: the handle then names the new timer, or still the old one.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    task::{Executor, Rejected, Task},
    timer::{AddError, Cancel, Timers},
};

/// Runs everything at once.
#[derive(Clone)]
struct Inline;

impl Executor for Inline {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pass(timers: &Timers, seconds: u64) {
    let clock = timers.clock();
    clock.as_virtual().unwrap().advance(secs(seconds));
    timers.run_due(clock.now());
}

fn service(capacity: usize) -> Timers {
    let clock = Clock::simulated(UnixTime::default());
    let builder = Timers::builder().clock(clock).shards(1);
    builder.capacity(capacity).build()
}

#[test]
fn a_handle_names_the_timer_that_replaced_its_own() {
    let (timers, log) = (service(2), Arc::new(Mutex::new(Vec::new())));
    let note = |what| {
        let log = Arc::clone(&log);
        move || log.lock().unwrap().push(what)
    };
    let mut handle = timers.after(secs(1), &Inline, note("old"));
    let first = handle;
    let timer = timers.timer().after(secs(5)).on(&Inline);
    let replaced = timer.replace(&mut handle, note("new"));
    assert_eq!(replaced, Ok(Cancel::Prevented));
    assert_eq!(timers.time_left(&first), None);
    assert_eq!(timers.time_left(&handle), Some(secs(5)));
    pass(&timers, 4);
    assert!(log.lock().unwrap().is_empty());
    assert!(timers.reschedule(&handle, timers.clock().now() + secs(2)));
    pass(&timers, 1);
    assert!(log.lock().unwrap().is_empty());
    pass(&timers, 1);
    assert_eq!(*log.lock().unwrap(), ["new"]);
    assert_eq!(timers.cancel(&handle), Cancel::AlreadyRan);
}

#[test]
fn a_refused_replace_leaves_the_handle_and_its_timer_unchanged() {
    let timers = service(1);
    let mut handle = timers.after(secs(1), &Inline, || ());
    let before = handle;
    let timer = timers.timer().after(secs(5)).on(&Inline);
    assert_eq!(timer.replace(&mut handle, || ()), Err(AddError::Full));
    assert_eq!(handle, before);
    assert_eq!(timers.cancel(&handle), Cancel::Prevented);
}
