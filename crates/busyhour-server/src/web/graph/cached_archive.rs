use busyhour::{clock::UnixTime, pool::TaskPool};
use busyhour_graphite::{Error, Event, EventQuery, TimeLimit, Window};
use busyhour_pcp::{AnnotationKind, Archive, RenderOptions, Rendering, SeriesId, StopCheck};
use std::{ops::ControlFlow, time::Duration};

/// An archive in the state in which it was last read.
pub(super) struct CachedArchive {
    pub(super) archive: Archive,
    pub(super) size: ArchiveSize,
}

/// The number of files in an archive, and the number of bytes in them and in its
/// metadata; all only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ArchiveSize {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) metadata_bytes: u64,
}

/// The values at multiples of `step` from `start` until before `end`, in seconds since
/// 1970. It has one value at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArchivePart {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) step: i64,
}

/// An event, or a text that an archive logged.
pub(super) struct ArchiveEvent {
    pub(super) event: Event,
    pub(super) is_text: bool,
}

impl CachedArchive {
    /// The part of `window` that the archive covers.
    pub(super) fn within(&self, window: Window, step: i64) -> Option<ArchivePart> {
        let (start, end) = window.aligned(step);
        let whole = Window {
            from: seconds(self.archive.start()).saturating_sub(1),
            until: seconds(self.archive.end()),
        };
        let (first, last) = whole.aligned(step);
        let (start, end) = (start.max(first), end.min(last));
        (start < end && start >= step).then_some(ArchivePart { start, end, step })
    }

    /// The values of `series` in `part`, after one more at its front: the moment before,
    /// which a rate needs.
    pub(super) fn render(
        &self,
        series: &[SeriesId],
        part: ArchivePart,
        threads: usize,
        pool: &TaskPool,
        time: &TimeLimit,
    ) -> Result<Rendering, Error> {
        let moment = |time: i64| UnixTime::from_secs(u64::try_from(time).unwrap_or(0));
        let moments = busyhour_pcp::Window::new(
            moment(part.start - part.step),
            moment(part.end - part.step),
            Duration::from_secs(u64::try_from(part.step).unwrap_or(1)),
        );
        let options = RenderOptions {
            threads,
            ..RenderOptions::default()
        };
        let stop = stop_check(time);
        let rendering = (self.archive).render_until(series, moments, options, Some(pool), &stop);
        rendering.map_err(|error| self.error(error))
    }

    /// What happened in the time of `query`, with the tags `pcp`, the host or file, and
    /// the metric. At most one more than is allowed.
    pub(super) fn events(
        &self,
        root: &str,
        query: &EventQuery,
        time: &TimeLimit,
        path: impl Fn(SeriesId) -> String,
    ) -> Result<Vec<ArchiveEvent>, Error> {
        let moment = |time: i64| UnixTime::from_secs(u64::try_from(time).unwrap_or(0));
        let (from, until) = (query.window.from, query.window.until);
        let mut events = Vec::new();
        // From the end of its first second until the end of its last one.
        let (from, until) = (
            moment(from.saturating_add(1)),
            moment(until.saturating_add(1)),
        );
        let until = UnixTime::from_nanos(until.as_nanos().saturating_sub(1));
        let read = (self.archive).annotations_until(from, until, &stop_check(time), |annotation| {
            let metric = self.archive.metrics()[annotation.series.metric].name();
            let tags = [TAG, root, metric];
            if query.wants(&tags) {
                events.push(ArchiveEvent {
                    is_text: annotation.kind == AnnotationKind::Text,
                    event: Event {
                        when: seconds(annotation.time),
                        what: path(annotation.series),
                        data: annotation.text,
                        tags: tags.map(str::to_owned).into(),
                    },
                });
            }
            match events.len() > query.count_max {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        read.map_err(|error| self.error(error))?;
        Ok(events)
    }

    fn error(&self, error: busyhour_pcp::Error) -> Error {
        match error {
            busyhour_pcp::Error::Stopped => Error::too_long(),
            error => Error::Source(format!(
                "archive {}: {error}",
                self.archive.path().display()
            )),
        }
    }
}

impl ArchivePart {
    /// The number of values.
    pub(super) fn len(self) -> usize {
        usize::try_from((self.end - self.start) / self.step).unwrap_or(0)
    }

    /// From the earlier start to the later end.
    pub(super) fn joined(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
            step: self.step,
        }
    }
}

/// Ends the reading of an archive when the time of the request is over.
fn stop_check(time: &TimeLimit) -> StopCheck {
    let time = time.clone();
    StopCheck::new(move || time.is_over())
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// What all events of archives have in common.
const TAG: &str = "pcp";
