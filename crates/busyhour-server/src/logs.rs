//! Log lines on standard error, for people or for machines; the last ones are kept for operators.

pub mod recent;

use recent::{KeepRecent, RecentLog};
use std::{io, sync::Arc};
use tracing_subscriber::{
    Layer, filter::LevelFilter, fmt, layer::SubscriberExt, registry::Registry,
    util::SubscriberInitExt,
};

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// One line for people.
    Text {
        /// With the colours of a terminal.
        is_coloured: bool,
    },
    /// One JSON object a line.
    Json,
}

/// Sends the events of this process to standard error from now on, and keeps the last ones.
///
/// The first call counts; what later ones return stays empty.
pub fn start(level: LevelFilter, format: LineFormat) -> Arc<RecentLog> {
    let recent = Arc::new(RecentLog::default());
    // Otherwise a reader of the log that is gone makes every line panic.
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .log_internal_errors(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LineFormat::Text { is_coloured } => lines.with_ansi(is_coloured).with_target(false).boxed(),
        LineFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let kept = KeepRecent(recent.clone());
    // An error means that somebody, a test perhaps, listens already.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(kept)
        .with(level)
        .try_init();
    recent
}
