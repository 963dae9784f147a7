use super::{Arguments, Outcome};
use crate::{Series, data::aggregation::Aggregation, functions::evaluator::Evaluator};
use std::cmp::Ordering;

pub(super) fn limit(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let count = arguments.whole(1)?.unwrap_or(0);
    let mut list = arguments.series(evaluator)?;
    list.truncate(usize::try_from(count).unwrap_or(0));
    Ok(list)
}

pub(super) fn by_name(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let is_natural = arguments.flag(1, false)?;
    let is_reverse = arguments.flag(2, false)?;
    let mut list = arguments.series(evaluator)?;
    list.sort_by(|a, b| {
        let order = if is_natural {
            natural(&a.name, &b.name)
        } else {
            a.name.cmp(&b.name)
        };
        if is_reverse { order.reverse() } else { order }
    });
    Ok(list)
}

pub(super) fn by(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let (aggregation, _) = arguments.aggregation(1, "average")?;
    let is_reverse = arguments.flag(2, false)?;
    sorted(arguments.series(evaluator)?, aggregation, is_reverse)
}

pub(super) fn by_total(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    sorted(arguments.series(evaluator)?, Aggregation::Sum, true)
}

pub(super) fn by_maxima(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    sorted(arguments.series(evaluator)?, Aggregation::Max, true)
}

pub(super) fn by_minima(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    sorted(arguments.series(evaluator)?, Aggregation::Min, false)
}

/// The `n` with the highest last value, and so on.
pub(super) fn highest_current(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    highest(evaluator, arguments, Aggregation::Last)
}

pub(super) fn highest_average(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    highest(evaluator, arguments, Aggregation::Average)
}

pub(super) fn highest_max(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    highest(evaluator, arguments, Aggregation::Max)
}

pub(super) fn remove_empty(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let factor = arguments.number(1)?.unwrap_or(0.0);
    let mut list = arguments.series(evaluator)?;
    list.retain(|series| {
        let known = series.known().count();
        known > 0 && known as f64 >= factor * series.values.len() as f64
    });
    Ok(list)
}

fn highest(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
    aggregation: Aggregation,
) -> Outcome {
    let count = arguments.whole(1)?.unwrap_or(1);
    let mut list = sorted(arguments.series(evaluator)?, aggregation, true)?;
    list.truncate(usize::try_from(count).unwrap_or(0));
    Ok(list)
}

/// Stable; series without any value come as if theirs were the least.
fn sorted(list: Vec<Series>, aggregation: Aggregation, is_reverse: bool) -> Outcome {
    let key = |series: &Series| aggregation.of(&series.values).unwrap_or(f64::NEG_INFINITY);
    let mut keyed: Vec<(f64, Series)> = list
        .into_iter()
        .map(|series| (key(&series), series))
        .collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let order = a.total_cmp(b);
        if is_reverse { order.reverse() } else { order }
    });
    Ok(keyed.into_iter().map(|(_, series)| series).collect())
}

/// Numbers within names by their value: `cpu2` before `cpu10`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    while !a.is_empty() && !b.is_empty() {
        let ((part, rest), (other, other_rest)) = (chunk(a), chunk(b));
        let order = match (part.parse::<u128>(), other.parse::<u128>()) {
            (Ok(number), Ok(other)) => number.cmp(&other),
            _ => part.cmp(other),
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest, other_rest);
    }
    a.len().cmp(&b.len())
}

/// The digits, or the other characters, that `text` begins with.
fn chunk(text: &str) -> (&str, &str) {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != is_number);
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_sort_by_their_value() {
        let mut names = ["cpu10", "cpu2", "cpu2.a", "a", "cpu02b"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "cpu2", "cpu2.a", "cpu02b", "cpu10"]);
    }
}
