//! The last lines of the log, for operators who cannot read the file.

use super::event_name;
use serde::Serialize;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt::{Debug, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tracing::{Event, Level, Subscriber, field::Field, field::Visit};
use tracing_subscriber::{Layer, layer::Context};
use utoipa::ToSchema;

/// The last lines, the oldest first.
#[derive(Debug)]
pub struct RecentLog {
    begun_unix_ms: u64,
    lines: Mutex<KeptLines>,
}

#[derive(Debug, Default)]
struct KeptLines {
    /// Of the last line; the first one has 1.
    number: u64,
    kept: VecDeque<Arc<LogLine>>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogLine {
    /// Counted up from 1 since the start.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// What happened, as a name that stays the same.
    pub event: String,
    /// What happened, in words.
    pub message: String,
    /// To whom, where, how often.
    pub fields: BTreeMap<String, String>,
}

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Those behind the line with this number.
    pub after: u64,
    /// At most so many, the last ones.
    pub limit: usize,
    /// Only this level and those that are worse; all without one.
    pub level: Option<Level>,
    /// In the message or a field, in any case.
    pub text: Option<String>,
}

impl Default for RecentLog {
    fn default() -> Self {
        Self {
            begun_unix_ms: unix_ms(),
            lines: Mutex::default(),
        }
    }
}

impl RecentLog {
    /// When it began, in milliseconds since 1970. Numbers of lines mean something only together with it.
    pub fn begun_unix_ms(&self) -> u64 {
        self.begun_unix_ms
    }

    /// The last lines that are wanted, the oldest first.
    pub fn lines(&self, query: &LogQuery) -> Vec<Arc<LogLine>> {
        let text = query.text.as_ref().map(|text| text.to_lowercase());
        // Texts are compared when the lock is free: every thread that logs waits for it.
        let behind = self.behind(query.after);
        let wanted = behind.into_iter().filter(|line| {
            query.level.is_none_or(|level| line.level_value() <= level)
                && text.as_ref().is_none_or(|text| line.has(text))
        });
        let mut wanted: Vec<_> = wanted.take(query.limit).collect();
        wanted.reverse();
        wanted
    }

    /// The lines behind the one with this number, the last one first.
    fn behind(&self, after: u64) -> Vec<Arc<LogLine>> {
        let lines = self.lock();
        let last_first = lines.kept.iter().rev();
        let behind = last_first.take_while(|line| line.number > after);
        behind.cloned().collect()
    }

    fn keep(&self, mut line: LogLine) {
        let mut lines = self.lock();
        lines.number += 1;
        line.number = lines.number;
        // Dropped when the lock is free.
        let _oldest = match lines.kept.len() {
            LINES_MAX.. => lines.kept.pop_front(),
            _ => None,
        };
        lines.kept.push_back(Arc::new(line));
        drop(lines);
    }

    fn lock(&self) -> MutexGuard<'_, KeptLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogLine {
    fn level_value(&self) -> Level {
        // Written by `level_name`.
        self.level.parse().unwrap_or(Level::TRACE)
    }

    fn has(&self, text: &str) -> bool {
        let has = |value: &str| value.to_lowercase().contains(text);
        has(&self.message)
            || has(&self.event)
            || self
                .fields
                .iter()
                .any(|(name, value)| has(name) || has(value))
    }
}

/// Gives each event to the kept lines.
pub(super) struct KeepRecent(pub(super) Arc<RecentLog>);

impl<S: Subscriber> Layer<S> for KeepRecent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = LogLine {
            number: 0,
            at_unix_ms: unix_ms(),
            level: level_name(*event.metadata().level()),
            event: String::new(),
            message: String::new(),
            fields: BTreeMap::new(),
        };
        event.record(&mut line);
        let given = line.fields.remove(event_name::NAME);
        line.event = given.unwrap_or_else(|| event_name::of_text(&line.message));
        self.0.keep(line);
    }
}

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // A string takes everything.
        let _ = write!(text, "{value:?}");
        self.put(field, text);
    }
}

impl LogLine {
    fn put(&mut self, field: &Field, mut text: String) {
        if text.len() > TEXT_LEN_MAX {
            text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
            text.push('…');
        }
        match field.name() {
            "message" => self.message = text,
            name if self.fields.len() < FIELDS_MAX => {
                drop(self.fields.insert(name.to_owned(), text))
            }
            _ => {}
        }
    }
}

fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default().as_millis() as u64
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// So many lines of a few hundred bytes are kept.
pub const LINES_MAX: usize = 2000;
const TEXT_LEN_MAX: usize = 1024;
const FIELDS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn the_last_lines_are_kept_and_found() {
        let recent = Arc::new(RecentLog::default());
        let subscriber = tracing_subscriber::registry().with(KeepRecent(recent.clone()));
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..LINES_MAX + 3 {
                tracing::info!(number, "counted");
            }
            tracing::warn!(user = "Alice", text = "x".repeat(5000), "a login failed");
        });
        let all = LogQuery {
            limit: usize::MAX,
            ..LogQuery::default()
        };
        let lines = recent.lines(&all);
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(lines[0].fields["number"], "4");
        let last = lines.last().unwrap();
        assert_eq!((last.level, &*last.message), ("warn", "a login failed"));
        assert_eq!(last.event, "login_failed");
        assert!(last.fields["text"].len() < 2000);
        let of = |query| recent.lines(&query).len();
        assert_eq!(
            of(LogQuery {
                level: Some(Level::WARN),
                ..all.clone()
            }),
            1
        );
        assert_eq!(
            of(LogQuery {
                text: Some("ALICE".into()),
                ..all.clone()
            }),
            1
        );
        assert_eq!(
            of(LogQuery {
                after: last.number - 2,
                ..all.clone()
            }),
            2
        );
        assert_eq!(of(LogQuery { limit: 7, ..all }), 7);
    }
}
