use crate::{
    Error, Metric, Record, Records, Sample, SeriesId, Value, ValueType,
    format::{event, fields::until_zero},
};
use busyhour::clock::UnixTime;
use std::{collections::HashMap, ops::ControlFlow, time::Duration};

/// A text or an event that an archive logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// Whose.
    pub series: SeriesId,
    /// When the text was fetched, or when the event was.
    pub time: UnixTime,
    /// What it is.
    pub kind: AnnotationKind,
    /// The text; for an event its parameters, as `name=value, name="text"`.
    pub text: String,
}

/// What an annotation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationKind {
    /// A value of the type string.
    Text,
    /// A record of a value of the type event.
    Event,
}

/// The texts and events of a part of an archive.
pub(crate) struct Annotations<'a> {
    metrics: &'a [Metric],
    /// By identifier and instance, those that are texts or events.
    wanted: HashMap<(u32, i32), SeriesId>,
    /// The last text of each, so that only changes are told.
    texts: HashMap<SeriesId, String>,
    from: UnixTime,
    until: UnixTime,
}

impl<'a> Annotations<'a> {
    /// Those from `from` until `until`, both included.
    pub(crate) fn new(metrics: &'a [Metric], from: UnixTime, until: UnixTime) -> Self {
        let mut wanted = HashMap::new();
        for (metric, found) in metrics.iter().enumerate() {
            if !found.value_type.is_annotation() {
                continue;
            }
            for (instance, known) in found.instances.iter().enumerate() {
                wanted.insert((found.id.0, known.id), SeriesId { metric, instance });
            }
        }
        Self {
            metrics,
            wanted,
            texts: HashMap::new(),
            from,
            until,
        }
    }

    /// Whether there can be none.
    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Gives each one to `visit`, until it breaks.
    pub(crate) fn read(
        mut self,
        records: Records,
        mut visit: impl FnMut(Annotation) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let end = self.until + LATE;
        for record in records {
            let record = match record {
                Ok(record) if record.time > end => break,
                Ok(record) => record,
                // The good records before it were read.
                Err(Error::Damaged(_)) => break,
                Err(error) => return Err(error),
            };
            if self.record(&record, &mut visit).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        record: &Record,
        visit: &mut impl FnMut(Annotation) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // A damaged record has no annotations.
        for sample in record.samples().unwrap_or_default() {
            let id = (sample.metric.0, sample.instance);
            let Some(series) = self.wanted.get(&id).copied() else {
                continue;
            };
            match self.metrics[series.metric].value_type {
                ValueType::String => self.text(series, record.time, &sample, visit)?,
                ValueType::Event => self.events(series, &sample, false, visit)?,
                _ => self.events(series, &sample, true, visit)?,
            }
        }
        ControlFlow::Continue(())
    }

    fn text(
        &mut self,
        series: SeriesId,
        time: UnixTime,
        sample: &Sample,
        visit: &mut impl FnMut(Annotation) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Value::Block(bytes) = &sample.value else {
            return ControlFlow::Continue(());
        };
        let text = cut(until_zero(bytes));
        if self.texts.get(&series) == Some(&text) {
            return ControlFlow::Continue(());
        }
        self.texts.insert(series, text.clone());
        let kind = AnnotationKind::Text;
        self.give(series, time, kind, text, visit)
    }

    fn events(
        &self,
        series: SeriesId,
        sample: &Sample,
        is_high_resolution: bool,
        visit: &mut impl FnMut(Annotation) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Value::Block(bytes) = &sample.value else {
            return ControlFlow::Continue(());
        };
        for record in event::records(bytes, is_high_resolution).unwrap_or_default() {
            let text = cut(record.text(|metric| self.name(metric)));
            self.give(series, record.time, AnnotationKind::Event, text, visit)?;
        }
        ControlFlow::Continue(())
    }

    fn name(&self, metric: u32) -> Option<&str> {
        let found = self.metrics.iter().find(|found| found.id.0 == metric);
        found.map(Metric::name)
    }

    fn give(
        &self,
        series: SeriesId,
        time: UnixTime,
        kind: AnnotationKind,
        text: String,
        visit: &mut impl FnMut(Annotation) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if time < self.from || time > self.until {
            return ControlFlow::Continue(());
        }
        visit(Annotation {
            series,
            time,
            kind,
            text,
        })
    }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

/// Enough for a line.
const TEXT_BYTES_MAX: usize = 1024;

/// Events are logged some time after they were.
const LATE: Duration = Duration::from_secs(600);
