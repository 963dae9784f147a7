use super::{Arguments, Outcome, naming::expressions};
use crate::{
    Error, Limit, Series, data::aggregation::Aggregation, functions::evaluator::Evaluator,
};

pub(super) fn sum(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    of_all(evaluator, arguments, "sum", Aggregation::Sum)
}

pub(super) fn average(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    of_all(evaluator, arguments, "average", Aggregation::Average)
}

pub(super) fn min(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    of_all(evaluator, arguments, "min", Aggregation::Min)
}

pub(super) fn max(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    of_all(evaluator, arguments, "max", Aggregation::Max)
}

pub(super) fn diff(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    of_all(evaluator, arguments, "diff", Aggregation::Diff)
}

/// Series alone; they keep their names.
pub(super) fn group(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    arguments.all_series(evaluator)
}

pub(super) fn aggregate(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let (aggregation, name) = arguments.aggregation(1, "")?;
    let list = arguments.series(evaluator)?;
    let name = name.strip_suffix("Series").unwrap_or(name);
    combined(evaluator, list, name, aggregation)
}

/// One series for all those whose names have the same nodes at the places given.
pub(super) fn group_by_node(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let node = arguments.whole(1)?.unwrap_or(0);
    let (aggregation, name) = arguments.aggregation(2, "average")?;
    let list = arguments.series(evaluator)?;
    by_nodes(evaluator, list, &[node], name, aggregation)
}

pub(super) fn group_by_nodes(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let (aggregation, name) = arguments.aggregation(1, "")?;
    let nodes = arguments.wholes(2)?;
    let list = arguments.series(evaluator)?;
    by_nodes(evaluator, list, &nodes, name, aggregation)
}

fn by_nodes(
    evaluator: &mut Evaluator<'_>,
    list: Vec<Series>,
    nodes: &[i64],
    name: &str,
    aggregation: Aggregation,
) -> Outcome {
    let mut groups: Vec<(String, Vec<Series>)> = Vec::new();
    for series in list {
        let key = super::alias::nodes_of(&series.name, nodes);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(series),
            None => groups.push((key, vec![series])),
        }
    }
    let mut out = Vec::new();
    for (key, members) in groups {
        let mut series = combined(evaluator, members, name, aggregation)?;
        for one in &mut series {
            one.name.clone_from(&key);
        }
        out.append(&mut series);
    }
    Ok(out)
}

fn of_all(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
    name: &str,
    aggregation: Aggregation,
) -> Outcome {
    let list = arguments.all_series(evaluator)?;
    combined(evaluator, list, name, aggregation)
}

/// One series of `list`, row by row; none of none.
pub(super) fn combined(
    evaluator: &mut Evaluator<'_>,
    mut list: Vec<Series>,
    name: &str,
    aggregation: Aggregation,
) -> Outcome {
    let Some(common) = normalize(&mut list)? else {
        return Ok(Vec::new());
    };
    let name = format!("{name}Series({})", expressions(&list));
    let count = list
        .iter()
        .map(|series| series.values.len())
        .max()
        .unwrap_or(0);
    evaluator.hold(count)?;
    let mut row = Vec::with_capacity(list.len());
    let mut values = Vec::with_capacity(count);
    for at in 0..count {
        row.clear();
        row.extend(
            list.iter()
                .map(|series| series.values.get(at).copied().flatten()),
        );
        values.push(aggregation.of(&row));
    }
    Ok(vec![common.series(name, values)])
}

/// What series have in common after [`normalize`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Common {
    start: i64,
    end: i64,
    step: i64,
}

impl Common {
    pub(super) fn series(self, name: String, values: Vec<Option<f64>>) -> Series {
        Series {
            expression: name.clone(),
            name,
            start: self.start,
            end: self.end,
            step: self.step,
            values,
            consolidation: Aggregation::default(),
        }
    }
}

/// Brings series to one step, the least that all of theirs divide; `None` of none.
pub(super) fn normalize(list: &mut [Series]) -> Result<Option<Common>, Error> {
    let steps = list.iter().map(|series| series.step);
    let Some(step) = steps.map(Some).reduce(|a, b| common_multiple(a?, b?)) else {
        return Ok(None);
    };
    let Some(step) = step else {
        let what = "the steps of these series have no multiple in common; summarize them first";
        return Err(Error::request(what));
    };
    for series in list.iter_mut() {
        series.consolidate(usize::try_from(step / series.step).unwrap_or(1));
    }
    let start = list.iter().map(|series| series.start).min().unwrap_or(0);
    let end = list.iter().map(|series| series.end).max().unwrap_or(0);
    // A source's history may begin later than another's.
    let missing = |series: &Series| {
        usize::try_from(series.start.saturating_sub(start) / step).unwrap_or(usize::MAX)
    };
    let padding = list.iter().map(missing).fold(0, usize::saturating_add);
    if padding > PADDING_MAX {
        let what = format!(
            "series begin so far apart that {padding} missing values would stand in between (at most {PADDING_MAX}); summarize them first"
        );
        return Err(Error::TooLarge(Limit::Memory, what));
    }
    for series in list.iter_mut() {
        let count = missing(series);
        series.values.splice(..0, std::iter::repeat_n(None, count));
        series.start = start;
    }
    let end = end - end.saturating_sub(start).rem_euclid(step);
    Ok(Some(Common { start, end, step }))
}

/// As many values as a request may fetch, unless told otherwise.
const PADDING_MAX: usize = 2_000_000;

fn common_multiple(a: i64, b: i64) -> Option<i64> {
    let (mut greater, mut less) = (a.max(b), a.min(b));
    while less != 0 {
        (greater, less) = (less, greater % less);
    }
    (a / greater.max(1)).checked_mul(b).filter(|step| *step > 0)
}
