//! Log lines on standard error, for people or for machines, each with the name of its event; the last ones are kept for operators.

mod event_name;
pub mod recent;

use recent::{KeepRecent, RecentLog};
use std::sync::Arc;
use tracing_subscriber::{filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt};

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
    let lines = match format {
        LineFormat::Text { is_coloured } => event_name::text_lines(is_coloured),
        LineFormat::Json => event_name::json_lines(),
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
