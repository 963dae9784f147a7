use super::{
    Arguments, Outcome,
    alias::nodes_of,
    combine::{Common, combined, normalize},
    naming::{expressions, literal},
};
use crate::{
    Error, Expression, Series, data::aggregation::Aggregation, functions::evaluator::Evaluator,
};

/// Each series as a part of a hundred: of the sum of all, of a number, of one
/// series, of the series at its side, or of the sum of those with the same nodes.
pub(super) fn as_percent(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let mut list = arguments.series(evaluator)?;
    if normalize(&mut list)?.is_none() {
        return Ok(list);
    }
    let nodes = arguments.wholes(2)?;
    match arguments.get(1) {
        None | Some(Expression::Nothing) if nodes.is_empty() => of_sum(evaluator, list),
        None | Some(Expression::Nothing) => of_groups(evaluator, list, None, &nodes),
        Some(_) if nodes.is_empty() => of_total(evaluator, arguments, list),
        Some(Expression::Number(..)) => {
            arguments.refuse("with nodes, total is None or series, not a number")
        }
        Some(total) => {
            let totals = evaluator.evaluate(total, arguments.window)?;
            of_groups(evaluator, list, Some(totals), &nodes)
        }
    }
}

fn of_sum(evaluator: &mut Evaluator<'_>, list: Vec<Series>) -> Outcome {
    let name = format!("sumSeries({})", expressions(&list));
    let sum = combined(evaluator, list.clone(), "sum", Aggregation::Sum)?;
    let total = sum.first().map_or(&[][..], |sum| &sum.values);
    let parts = list.into_iter().map(|series| part(series, total, &name));
    Ok(parts.collect())
}

fn of_total(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
    mut list: Vec<Series>,
) -> Outcome {
    let Some(expression) = arguments.get(1) else {
        return Ok(list);
    };
    if let Expression::Number(number, _) = expression {
        let (name, number) = (literal(expression), Some(*number));
        let constant = |series: Series| {
            let total = vec![number; series.values.len()];
            part(series, &total, &name)
        };
        return Ok(list.into_iter().map(constant).collect());
    }
    let mut totals = evaluator.evaluate(expression, arguments.window)?;
    if totals.len() == 1 {
        let mut all = list;
        all.append(&mut totals);
        normalize(&mut all)?;
        let total = all.pop();
        let (values, name) =
            total.map_or_else(Default::default, |total| (total.values, total.name));
        return Ok(all
            .into_iter()
            .map(|series| part(series, &values, &name))
            .collect());
    }
    if totals.len() != list.len() {
        let (found, wanted) = (totals.len(), list.len());
        return arguments.refuse(format!(
            "total stands for {found} series; give one, as many as there are in the first argument ({wanted}), or a number"
        ));
    }
    list.sort_by(|a, b| a.name.cmp(&b.name));
    totals.sort_by(|a, b| a.name.cmp(&b.name));
    list.into_iter()
        .zip(totals)
        .map(|(series, total)| pair(series, total))
        .collect()
}

/// Groups by nodes; what has no counterpart is there without values.
fn of_groups(
    evaluator: &mut Evaluator<'_>,
    list: Vec<Series>,
    totals: Option<Vec<Series>>,
    nodes: &[i64],
) -> Outcome {
    let grouped = totals.clone().unwrap_or_else(|| list.clone());
    let mut sums: Vec<(String, Series)> = Vec::new();
    for (key, members) in groups(grouped, nodes) {
        let sum = match <[Series; 1]>::try_from(members) {
            Ok([only]) => vec![only],
            Err(members) => combined(evaluator, members, "sum", Aggregation::Sum)?,
        };
        sums.extend(sum.into_iter().map(|sum| (key.clone(), sum)));
    }
    let mut out = Vec::new();
    let mut is_used = vec![false; sums.len()];
    for (key, members) in groups(list, nodes) {
        let place = sums.iter().position(|(known, _)| *known == key);
        for series in members {
            out.push(match place {
                Some(place) => pair(series, sums[place].1.clone())?,
                None => part(series, &[], "MISSING"),
            });
        }
        if let Some(place) = place {
            is_used[place] = true;
        }
    }
    let unused = sums
        .into_iter()
        .zip(is_used)
        .filter(|(_, is_used)| !is_used);
    out.extend(unused.map(|((_, total), _)| without_part(total)));
    Ok(out)
}

fn groups(list: Vec<Series>, nodes: &[i64]) -> Vec<(String, Vec<Series>)> {
    let mut groups: Vec<(String, Vec<Series>)> = Vec::new();
    for series in list {
        let key = nodes_of(&series.name, nodes);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(series),
            None => groups.push((key, vec![series])),
        }
    }
    groups
}

fn without_part(total: Series) -> Series {
    let name = format!("asPercent(MISSING,{})", total.name);
    let values = vec![None; total.values.len()];
    Series {
        values,
        ..total.renamed(name)
    }
}

fn pair(series: Series, total: Series) -> Result<Series, Error> {
    let mut both = [series, total];
    let common = normalize(&mut both)?;
    let [series, total] = both;
    let part = part(series, &total.values, &total.name);
    Ok(common.map_or(part.clone(), |common: Common| {
        common.series(part.name, part.values)
    }))
}

fn part(series: Series, total: &[Option<f64>], total_name: &str) -> Series {
    let name = format!("asPercent({},{total_name})", series.name);
    let count = series.values.len().max(total.len());
    let at = |values: &[Option<f64>], place: usize| values.get(place).copied().flatten();
    let percent = |place| {
        let whole = at(total, place).filter(|whole| *whole != 0.0)?;
        Some(at(&series.values, place)? / whole * 100.0)
    };
    let values = (0..count).map(percent).collect();
    Series {
        values,
        ..series.renamed(name)
    }
}
