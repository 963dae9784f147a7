use crate::{Error, Event, EventQuery, TimeLimit, paths::index::Index, stats::TelemetryStats};
use std::sync::Arc;

/// Where values come from: the server's own telemetry, or a folder of archives.
pub trait Source: Send + Sync {
    /// Every path it can give now.
    fn index(&self) -> Arc<Index>;

    /// How many values [`fetch`](Self::fetch) would give. It is called first, so that a
    /// request that is too large is refused before it costs anything.
    fn len(&self, path: &str, window: Window) -> u64;

    /// The values of each of `paths` in the window, in their order: all at
    /// once, since one pass over a file can serve them all.
    ///
    /// # Errors
    ///
    /// If the paths exist but their values cannot be read: the reason, with the name of
    /// the file. [`Error::too_long`] soon after `time` is over, if reading takes long.
    fn fetch(
        &self,
        paths: &[Arc<str>],
        window: Window,
        time: &TimeLimit,
    ) -> Result<Vec<Points>, Error>;

    /// What happened, in any order. A source may stop when it has more than
    /// [`EventQuery::count_max`].
    ///
    /// # Errors
    ///
    /// As of [`fetch`](Self::fetch).
    fn events(&self, query: &EventQuery, time: &TimeLimit) -> Result<Vec<Event>, Error> {
        let _ = (query, time);
        Ok(Vec::new())
    }

    /// What its ring of samples holds and has lost, if it has one.
    fn ring(&self) -> Option<TelemetryStats> {
        None
    }

    /// Why `path`, which is not in the index, has no values although it exists: what it
    /// is, where, and what to do.
    fn refusal(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }
}

/// A span of time in seconds since 1970: after `from`, up to and including `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Exclusive.
    pub from: i64,
    /// Inclusive.
    pub until: i64,
}

/// Values at even distances.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Points {
    /// The time of the first value, in seconds since 1970; a multiple of `step`.
    pub start: i64,
    /// Seconds between two values; at least 1.
    pub step: i64,
    /// `None` where nothing is known.
    pub values: Vec<Option<f64>>,
}

impl Window {
    /// The times of the first value and after the last one that lie in the
    /// window at multiples of `step`, as Graphite's own storage counts them.
    #[must_use]
    pub fn aligned(self, step: i64) -> (i64, i64) {
        let step = step.max(1);
        let next = |time: i64| {
            time.saturating_sub(time.rem_euclid(step))
                .saturating_add(step)
        };
        (next(self.from), next(self.until).max(next(self.from)))
    }

    /// Values at distances of `step` in the window.
    #[must_use]
    pub fn len(self, step: i64) -> u64 {
        let (start, end) = self.aligned(step);
        (end.saturating_sub(start) / step.max(1)) as u64
    }

    /// Whether no value at distances of `step` lies in it.
    #[must_use]
    pub fn is_empty(self, step: i64) -> bool {
        self.len(step) == 0
    }
}

impl Points {
    /// Values from `start`, `step` seconds apart.
    #[must_use]
    pub fn new(start: i64, step: i64, values: impl Into<Vec<Option<f64>>>) -> Self {
        Self {
            start,
            step,
            values: values.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_excludes_its_begin_and_includes_its_end() {
        let window = Window {
            from: 60,
            until: 180,
        };
        assert_eq!(window.aligned(60), (120, 240));
        assert_eq!(window.len(60), 2);
        let uneven = Window {
            from: 61,
            until: 179,
        };
        assert_eq!(uneven.aligned(60), (120, 180));
        let extreme = Window {
            from: i64::MIN,
            until: i64::MAX,
        };
        assert!(extreme.len(1) > 0);
        assert!(Window { from: 9, until: 3 }.is_empty(1));
    }
}
