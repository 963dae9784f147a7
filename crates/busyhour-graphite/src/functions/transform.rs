use super::{Arguments, Outcome, naming::general};
use crate::{Error, Series, data::aggregation::Aggregation, functions::evaluator::Evaluator};

pub(super) fn scale(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let factor = arguments.number(1)?.unwrap_or(1.0);
    let name = |name: &str| format!("scale({name},{})", general(factor));
    each(evaluator, arguments, name, |value| {
        value.map(|value| value * factor)
    })
}

pub(super) fn offset(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let by = arguments.number(1)?.unwrap_or(0.0);
    let name = |name: &str| format!("offset({name},{})", general(by));
    each(evaluator, arguments, name, |value| {
        value.map(|value| value + by)
    })
}

pub(super) fn absolute(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let name = |name: &str| format!("absolute({name})");
    each(evaluator, arguments, name, |value| value.map(f64::abs))
}

pub(super) fn transform_null(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let default = arguments.number(1)?.unwrap_or(0.0);
    let name = |name: &str| format!("transformNull({name},{})", general(default));
    each(evaluator, arguments, name, |value| value.or(Some(default)))
}

/// The difference to the value before; missing where either is.
pub(super) fn derivative(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    along(evaluator, arguments, "derivative", |_| {
        let mut before = None;
        Box::new(move |value| {
            let delta = before.zip(value).map(|(before, value)| value - before);
            before = value;
            delta
        })
    })
}

pub(super) fn non_negative_derivative(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
) -> Outcome {
    let counter = Counter::bounded(arguments)?;
    along(evaluator, arguments, "nonNegativeDerivative", |_| {
        let mut counter = counter;
        Box::new(move |value| counter.next(value))
    })
}

pub(super) fn per_second(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let counter = Counter::bounded(arguments)?;
    along(evaluator, arguments, "perSecond", |series| {
        let (mut counter, step) = (counter, series.step as f64);
        Box::new(move |value| counter.next(value).map(|delta| rounded(delta / step)))
    })
}

/// The sum of all values so far.
pub(super) fn integral(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    along(evaluator, arguments, "integral", |_| {
        let mut total = 0.0;
        Box::new(move |value| {
            total += value?;
            Some(total)
        })
    })
}

/// Fills gaps of at most `limit` values with the value before them.
pub(super) fn keep_last_value(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let limit = match arguments.get(1) {
        // Grafana's editor writes the default of the reference as it stands there.
        Some(crate::Expression::Path(word)) if word.eq_ignore_ascii_case("inf") => None,
        _ => arguments.whole(1)?,
    };
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
    let mut list = arguments.series(evaluator)?;
    for series in &mut list {
        fill(&mut series.values, limit);
    }
    let named = |series: Series| {
        let name = format!("keepLastValue({})", series.name);
        series.renamed(name)
    };
    Ok(list.into_iter().map(named).collect())
}

/// A gap longer than `limit` stays as it is, and one with nothing before it.
fn fill(values: &mut [Option<f64>], limit: usize) {
    let mut last: Option<(usize, f64)> = None;
    for at in 0..=values.len() {
        let value = values.get(at).copied().flatten();
        if value.is_none() && at < values.len() {
            continue;
        }
        if let Some((place, kept)) = last
            && at - place - 1 <= limit
        {
            values[place + 1..at].fill(Some(kept));
        }
        last = value.map(|value| (at, value));
    }
}

/// Sets the function that combines values when there are more than requested.
pub(super) fn consolidate_by(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let (consolidation, name) = arguments.aggregation(1, "average")?;
    let with = |series: Series| {
        let shown = format!("consolidateBy({},\"{name}\")", series.name);
        let series = series.renamed(shown);
        Series {
            consolidation,
            ..series
        }
    };
    Ok(arguments.series(evaluator)?.into_iter().map(with).collect())
}

pub(super) fn cumulative(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let with = |series: Series| {
        let name = format!("consolidateBy({},\"sum\")", series.name);
        let series = series.renamed(name);
        Series {
            consolidation: Aggregation::Sum,
            ..series
        }
    };
    Ok(arguments.series(evaluator)?.into_iter().map(with).collect())
}

fn each(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
    name: impl Fn(&str) -> String,
    change: impl Fn(Option<f64>) -> Option<f64>,
) -> Outcome {
    let changed = |mut series: Series| {
        series
            .values
            .iter_mut()
            .for_each(|value| *value = change(*value));
        let name = name(&series.name);
        series.renamed(name)
    };
    Ok(arguments
        .series(evaluator)?
        .into_iter()
        .map(changed)
        .collect())
}

/// A change that depends on the values before.
type Walk = Box<dyn FnMut(Option<f64>) -> Option<f64>>;

fn along(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
    name: &str,
    walk: impl Fn(&Series) -> Walk,
) -> Outcome {
    let changed = |mut series: Series| {
        let mut walk = walk(&series);
        series
            .values
            .iter_mut()
            .for_each(|value| *value = walk(*value));
        let name = format!("{name}({})", series.name);
        series.renamed(name)
    };
    Ok(arguments
        .series(evaluator)?
        .into_iter()
        .map(changed)
        .collect())
}

/// A counter that starts again: at 0 after a restart, or when it is full.
#[derive(Clone, Copy)]
struct Counter {
    before: Option<f64>,
    max: Option<f64>,
    min: Option<f64>,
}

impl Counter {
    fn bounded(arguments: &Arguments<'_>) -> Result<Self, Error> {
        Ok(Self {
            before: None,
            max: arguments.number(1)?,
            min: arguments.number(2)?,
        })
    }

    /// By how much it grew; missing where that is not known.
    fn next(&mut self, value: Option<f64>) -> Option<f64> {
        let is_out = |value: f64| {
            self.max.is_some_and(|max| value > max) || self.min.is_some_and(|min| value < min)
        };
        let value = value.filter(|value| !is_out(*value));
        let before = std::mem::replace(&mut self.before, value)?;
        let value = value?;
        if value >= before {
            return Some(value - before);
        }
        let from_start = self.min.map(|min| value - min);
        let wrapped = self
            .max
            .map(|max| max + 1.0 + value - before - self.min.unwrap_or(0.0));
        wrapped.or(from_start)
    }
}

/// To a millionth, as Graphite does.
fn rounded(value: f64) -> f64 {
    let scaled = value * 1e6;
    // Beyond this there is no fraction left to round.
    if scaled.abs() < 9e15 {
        scaled.round() / 1e6
    } else {
        value
    }
}
