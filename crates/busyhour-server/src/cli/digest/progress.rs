use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar of archives; silent unless standard error is a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(archive_count: usize) -> Self {
        let bar = ProgressBar::new(archive_count as u64);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// One archive more is done; `megabytes` were read so far.
    pub(super) fn advance(&self, megabytes: u64) {
        self.0.set_message(format!("{megabytes} MB"));
        self.0.inc(1);
    }

    /// Draws the time that has passed.
    pub(super) fn tick(&self) {
        self.0.tick();
    }

    /// Lines that are printed now do not run into the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// How often the bar moves.
pub(super) const REDRAW: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "{elapsed_precise} {wide_bar} {pos}/{len} archives, {msg}";
