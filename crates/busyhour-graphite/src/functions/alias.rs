use super::{Arguments, Outcome};
use crate::functions::evaluator::Evaluator;

pub(super) fn alias(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let name = arguments.text(1)?.unwrap_or_default();
    let mut list = arguments.series(evaluator)?;
    for series in &mut list {
        name.clone_into(&mut series.name);
    }
    Ok(list)
}

pub(super) fn alias_by_node(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let nodes = arguments.wholes(1)?;
    let mut list = arguments.series(evaluator)?;
    for series in &mut list {
        series.name = nodes_of(&series.name, &nodes);
    }
    Ok(list)
}

pub(super) fn alias_by_metric(evaluator: &mut Evaluator<'_>, arguments: &Arguments<'_>) -> Outcome {
    let mut list = arguments.series(evaluator)?;
    for series in &mut list {
        series.name = nodes_of(&series.name, &[-1]);
    }
    Ok(list)
}

/// The nodes at `places` of the first path in `name`, joined by dots; negative
/// places count from the end, and those that are not there are left out.
pub(super) fn nodes_of(name: &str, places: &[i64]) -> String {
    let nodes: Vec<&str> = first_path(name).split('.').collect();
    let node = |place: &i64| {
        let place = if *place < 0 {
            place + nodes.len() as i64
        } else {
            *place
        };
        nodes.get(usize::try_from(place).ok()?).copied()
    };
    let chosen: Vec<&str> = places.iter().filter_map(node).collect();
    chosen.join(".")
}

/// The innermost first argument: `a.b` of `f(g(a.b,1),2)`.
fn first_path(name: &str) -> &str {
    let inner = name.rsplit_once('(').map_or(name, |_| {
        let end = name.find([',', ')']).unwrap_or(name.len());
        name[..end].rsplit('(').next().unwrap_or(name)
    });
    let mut braces = 0_usize;
    let end = inner.find(|c| {
        match c {
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ => {}
        }
        matches!(c, ',' | ')') && braces == 0
    });
    inner[..end.unwrap_or(inner.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_taken_from_the_first_path() {
        for (name, places, expected) in [
            ("a.b.c", vec![1], "b"),
            ("a.b.c", vec![0, 2], "a.c"),
            ("a.b.c", vec![-1], "c"),
            ("a.b.c", vec![7, -9], ""),
            ("scale(perSecond(a.b.c),8)", vec![2], "c"),
            ("movingAverage(a.b.c,\"5min\")", vec![1], "b"),
            ("sumSeries(a.*.c,b.*)", vec![0, 2], "a.c"),
        ] {
            assert_eq!(nodes_of(name, &places), expected, "{name}");
        }
    }
}
