use crate::watchdog::watched;
use busyhour::runtime::Runtime;
use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

#[test]
fn a_callback_that_panics_leaves_the_timers_working() {
    watched("a callback that panics", || {
        let runtime = Runtime::builder().workers(1).build().expect("a runtime");
        let serializer = runtime.serializer("timers").build().expect("a serializer");
        let timers = runtime.timers();
        timers.after(Duration::ZERO, &serializer, || panic!("on purpose"));
        let (fired, waiting) = mpsc::channel();
        let fired = Arc::new(fired);
        timers.after(Duration::from_millis(1), &serializer, move || {
            fired.send(()).expect("the test waits");
        });
        waiting.recv().expect("the second timer fires");
        assert_eq!(runtime.stats().pool.panicked, 1);
    });
}
