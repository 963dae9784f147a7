use super::{Arguments, Outcome, arguments::Width};
use crate::{
    Error, Limit, Series, Window, data::aggregation::Aggregation, functions::evaluator::Evaluator,
};

pub(super) fn average(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    moving(
        evaluator,
        arguments,
        "movingAverage",
        Aggregation::Average,
        2,
    )
}

pub(super) fn median(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    moving(evaluator, arguments, "movingMedian", Aggregation::Median, 2)
}

pub(super) fn sum(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    moving(evaluator, arguments, "movingSum", Aggregation::Sum, 2)
}

pub(super) fn min(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    moving(evaluator, arguments, "movingMin", Aggregation::Min, 2)
}

pub(super) fn max(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    moving(evaluator, arguments, "movingMax", Aggregation::Max, 2)
}

/// One value for those before each point; what lies before the time range is
/// fetched too, so that the first points have as many.
fn moving(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
    name: &str,
    aggregation: Aggregation,
    factor_place: usize,
) -> Outcome {
    let width = arguments.width(1)?;
    let factor = arguments.number(factor_place)?.unwrap_or(0.0);
    let preview_seconds = match &width {
        Width::Span(_, seconds) => *seconds,
        Width::Points(count) => {
            // The step is known only from the series themselves.
            let series = arguments.series(evaluator)?;
            let Some(step) = series.iter().map(|series| series.step).max() else {
                return Ok(Vec::new());
            };
            step.saturating_mul(*count as i64)
        }
    };
    let Window { from, until } = arguments.window;
    let from = from.saturating_sub(preview_seconds);
    let mut out = Vec::new();
    for series in arguments.series_in(evaluator, Window { from, until })? {
        let (count, shown) = match &width {
            Width::Points(count) => (*count, count.to_string()),
            Width::Span(text, seconds) => {
                let count = usize::try_from(seconds / series.step).unwrap_or(0);
                (count, format!("\"{text}\""))
            }
        };
        evaluator.hold(series.values.len())?;
        let work = series.values.len().saturating_mul(count);
        if !is_carried(aggregation) && work > WORK_MAX {
            let what = format!(
                "{name} would look at {work} values (at most {WORK_MAX}); use a narrower window or a shorter time range"
            );
            return Err(Error::TooLarge(Limit::Duration, what));
        }
        let values = windows(&series.values, count, factor, aggregation);
        let name = format!("{name}({},{shown})", series.name);
        let start = series.start.saturating_add(preview_seconds);
        let series = series.renamed(name);
        out.push(Series {
            start,
            values,
            ..series
        });
    }
    Ok(out)
}

/// For each value from number `count` on: those `count` before it.
fn windows(
    values: &[Option<f64>],
    count: usize,
    factor: f64,
    aggregation: Aggregation,
) -> Vec<Option<f64>> {
    // A span shorter than a step holds no value.
    if count == 0 {
        return vec![None; values.len()];
    }
    if is_carried(aggregation) {
        return running(values, count, factor, aggregation);
    }
    let one = |end: usize| {
        let window = &values[end - count..end];
        let known = window.iter().flatten().count();
        if !is_enough(known, count, factor) {
            return None;
        }
        aggregation.of(window)
    };
    (count..values.len()).map(one).collect()
}

/// As [`windows`], with the sum carried along, so that a wide window costs no
/// more. The sum is taken anew now and then: what rounding leaves behind would grow.
fn running(
    values: &[Option<f64>],
    count: usize,
    factor: f64,
    aggregation: Aggregation,
) -> Vec<Option<f64>> {
    let mut out = Vec::with_capacity(values.len().saturating_sub(count));
    let (mut sum, mut known) = (0.0, 0_usize);
    let anew = ANEW.max(count);
    for end in count..values.len() {
        let window = &values[end - count..end];
        if (end - count).is_multiple_of(anew) {
            sum = window.iter().flatten().sum();
            known = window.iter().flatten().count();
        } else {
            for (value, sign) in [(window.last(), 1.0), (values.get(end - count - 1), -1.0)] {
                if let Some(Some(value)) = value {
                    sum += sign * value;
                    known = if sign > 0.0 { known + 1 } else { known - 1 };
                }
            }
        }
        let value = if aggregation == Aggregation::Sum {
            sum
        } else {
            sum / known as f64
        };
        out.push(is_enough(known, count, factor).then_some(value));
    }
    out
}

/// Whether a window's value follows from that of the window before.
fn is_carried(aggregation: Aggregation) -> bool {
    matches!(aggregation, Aggregation::Average | Aggregation::Sum)
}

fn is_enough(known: usize, count: usize, factor: f64) -> bool {
    known > 0 && known as f64 >= factor * count as f64
}

const ANEW: usize = 256;
/// About a second of work.
const WORK_MAX: usize = 500_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_running_sum_equals_the_sum(
            values in prop::collection::vec(prop::option::of(-100i32..100), 0..600),
            count in 0usize..40,
            factor in 0.0..1.0,
        ) {
            let values: Vec<_> = values.into_iter().map(|value| value.map(f64::from)).collect();
            let fast = windows(&values, count, factor, Aggregation::Average);
            let plain: Vec<_> = (count..values.len()).map(|end| {
                let window = &values[end - count..end];
                let known = window.iter().flatten().count();
                is_enough(known, count, factor).then(|| Aggregation::Average.of(window)).flatten()
            }).collect();
            prop_assert_eq!(fast.len(), plain.len());
            for (fast, plain) in fast.into_iter().zip(plain) {
                prop_assert_eq!(fast.is_some(), plain.is_some());
                prop_assert!((fast.unwrap_or(0.0) - plain.unwrap_or(0.0)).abs() < 1e-9);
            }
        }
    }
}
