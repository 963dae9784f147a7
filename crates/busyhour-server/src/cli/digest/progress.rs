use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A progress bar of archives; silent unless standard error is a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(archive_count: usize) -> Self {
        let bar = ProgressBar::new(archive_count as u64);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Notes that one more archive is done; `megabytes` were read so far.
    pub(super) fn advance(&self, megabytes: u64) {
        self.0.set_message(format!("{megabytes} MB"));
        self.0.inc(1);
    }

    /// Draws the elapsed time.
    pub(super) fn tick(&self) {
        self.0.tick();
    }

    /// Ends the bar, so that lines printed later do not run into it.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// How often the bar moves.
pub(super) const REDRAW: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "{elapsed_precise} {wide_bar} {pos}/{len} archives, {msg}";
