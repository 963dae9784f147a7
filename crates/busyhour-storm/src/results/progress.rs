//! The progress bar of a storm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::results::tally::Tally;

/// The counts of one thread for the bar. Only that thread writes them, and
/// only the thread that draws the bar reads them. The numbers do not depend
/// on each other, so no memory ordering is needed.
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

    /// Moves the bar until `is_over`. A thread that ends wakes the calling
    /// thread.
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
