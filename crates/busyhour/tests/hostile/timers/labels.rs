//! Labels without a limit.

use super::{Hand, assert_works, one_shard};
use crate::watchdog::watched;
use busyhour::timer::AddError;
use std::{
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_service_refuses_one_label_too_many_and_continues() {
    watched("a label for each timer", || {
        let (timers, hand) = (one_shard(), Hand::default());
        let add = |label| {
            let timer = timers.timer().after(SECOND).label(label);
            timer.on(&hand).run(|| ())
        };
        let labels: Vec<&'static str> = (0..1_024).map(|n| &*format!("label {n}").leak()).collect();
        assert!(labels.iter().all(|label| add(label).is_ok()));
        assert_eq!(add("one more"), Err(AddError::Labels));
        assert_eq!(timers.stats().refused, 1);
        assert_eq!(timers.cancel_label("one more"), 0);
        // Known labels, timers without a label, and timers of futures work as before.
        assert!(add(labels[1_023]).is_ok() && add("").is_ok());
        let mut sleep = timers.sleep(SECOND);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
        assert_eq!(timers.cancel_label(labels[1_023]), 2);
        assert_eq!(timers.stats().pending_count, 1_023 + 2);
        assert_works(&timers);
    });
}
