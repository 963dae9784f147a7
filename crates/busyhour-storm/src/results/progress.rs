//! The bar that moves while the storm blows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::results::tally::Tally;

/// One thread's counts for the bar. Written by that thread, read by the one
/// that draws; each is a plain figure, so nothing orders them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    finished: AtomicU64,
    failed: AtomicU64,
    retransmitted: AtomicU64,
}

/// The bar; silent unless standard error is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Counters {
    pub fn show(&self, tally: &Tally) {
        self.finished.store(tally.finished(), Ordering::Relaxed);
        self.failed.store(tally.failures(), Ordering::Relaxed);
        self.retransmitted
            .store(tally.retransmitted, Ordering::Relaxed);
    }
}

impl Progress {
    pub fn new(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Moves the bar until `is_over`; a thread that ends wakes this one up.
    pub fn follow(&self, counters: &[Counters], is_over: impl Fn() -> bool) {
        while !is_over() {
            self.update(counters);
            thread::park_timeout(REDRAW);
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn update(&self, counters: &[Counters]) {
        let sum = |pick: fn(&Counters) -> &AtomicU64| {
            counters
                .iter()
                .map(|counter| pick(counter).load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let (failed, again) = (
            sum(|counter| &counter.failed),
            sum(|counter| &counter.retransmitted),
        );
        self.bar
            .set_message(format!("{again} retransmitted, {failed} failed"));
        self.bar.set_position(sum(|counter| &counter.finished));
    }
}

/// How often the bar moves.
const REDRAW: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "{elapsed_precise} {wide_bar} {pos}/{len} registered, {per_sec}, {msg}";
