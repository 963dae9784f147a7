//! Log lines on standard error, for people or for machines.

use std::io;
use tracing_subscriber::{filter::LevelFilter, fmt};

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

/// Sends the events of this process to standard error from now on.
///
/// The first call counts; later ones change nothing.
pub fn start(level: LevelFilter, format: LineFormat) {
    let lines = fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        // Otherwise a reader of the log that is gone makes every line panic.
        .log_internal_errors(false);
    // An error means that somebody, a test perhaps, listens already.
    let _ = match format {
        LineFormat::Text { is_coloured } => {
            lines.with_ansi(is_coloured).with_target(false).try_init()
        }
        LineFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
