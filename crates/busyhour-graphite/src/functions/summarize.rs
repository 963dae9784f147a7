use super::Arguments;
use crate::{
    Error, Series,
    data::{aggregation::Aggregation, series::span},
    functions::evaluator::Evaluator,
};

/// One value for each span of time.
pub(super) fn summarize(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
) -> Result<Vec<Series>, Error> {
    let (text, interval) = arguments.interval(1)?;
    if interval < 0 {
        return arguments.refuse(format!("'{text}' goes backwards; leave the - out"));
    }
    let (aggregation, name) = arguments.aggregation(2, "sum")?;
    let from_start = arguments.flag(3, false)?;
    let mut out = Vec::new();
    for series in arguments.series(evaluator)? {
        let (start, end) = if from_start {
            (series.start, series.end)
        } else {
            let floor = |time: i64| time.saturating_sub(time.rem_euclid(interval));
            (
                floor(series.start),
                floor(series.end).saturating_add(interval),
            )
        };
        let count = end
            .saturating_sub(start)
            .saturating_add(interval - 1)
            .max(0)
            / interval;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        evaluator.hold(count)?;
        let values = buckets(&series, start, interval, count, aggregation);
        let end = if from_start {
            start.saturating_add(span(interval, count))
        } else {
            end
        };
        let suffix = if from_start { ", true" } else { "" };
        let shown = format!("summarize({}, \"{text}\", \"{name}\"{suffix})", series.name);
        out.push(Series {
            start,
            end,
            step: interval,
            values,
            ..series.renamed(shown)
        });
    }
    Ok(out)
}

/// The values of each span; a span shorter than a step has one at most.
fn buckets(
    series: &Series,
    start: i64,
    interval: i64,
    count: usize,
    aggregation: Aggregation,
) -> Vec<Option<f64>> {
    let time = |at: usize| series.start.saturating_add(span(series.step, at));
    let mut at = 0;
    let mut values = Vec::with_capacity(count);
    for bucket in 0..count {
        let end = start.saturating_add(span(interval, bucket + 1));
        let first = at;
        while at < series.values.len() && time(at) < end {
            at += 1;
        }
        values.push(aggregation.of(&series.values[first..at]));
    }
    values
}
