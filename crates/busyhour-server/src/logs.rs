//! Log lines on standard error, for people or for machines, each with the name of its event; the last ones are kept for operators.

mod event_name;
mod plain_fields;
pub mod recent;

use recent::{KeepRecent, RecentLog};
use std::sync::Arc;
use tracing_subscriber::{
    filter::LevelFilter, layer::SubscriberExt, reload, util::SubscriberInitExt,
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

/// The log of this process.
pub struct RunningLog {
    /// Its last lines.
    pub recent: Arc<RecentLog>,
    set_level: Box<dyn Fn(LevelFilter) + Send + Sync>,
}

impl RunningLog {
    /// Writes lines from this level on, and no others.
    pub fn set_level(&self, level: LevelFilter) {
        (self.set_level)(level);
    }
}

/// Sends the events of this process to standard error from now on, and keeps the last ones.
///
/// The first call counts; what later ones return stays empty.
pub fn start(level: LevelFilter, format: LineFormat) -> RunningLog {
    let recent = Arc::new(RecentLog::default());
    let lines = match format {
        LineFormat::Text { is_coloured } => event_name::text_lines(is_coloured),
        LineFormat::Json => event_name::json_lines(),
    };
    let kept = KeepRecent(recent.clone());
    let (filter, handle) = reload::Layer::new(level);
    // An error means that somebody, a test perhaps, listens already.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(kept)
        .with(filter)
        .try_init();
    RunningLog {
        recent,
        // It fails only without a log, which then has no level.
        set_level: Box::new(move |level| _ = handle.modify(|filter| *filter = level)),
    }
}
