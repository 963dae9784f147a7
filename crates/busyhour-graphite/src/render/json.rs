use super::Layout;
use crate::{Error, Series, data::series::span};
use serde::{Serialize, Serializer, ser::SerializeSeq};
use std::collections::BTreeMap;

/// A list of objects with `target`, `tags` and `datapoints`.
pub(super) fn write(mut all: Vec<Series>, layout: &Layout) -> Result<Vec<u8>, Error> {
    if let Some(points_max) = layout.points_max {
        bring_together(&mut all, points_max);
    }
    let one = |series| One {
        series,
        leaves_out_missing: layout.leaves_out_missing,
    };
    let is_shown = |one: &One<'_>| !one.leaves_out_missing || one.series.known().next().is_some();
    let shown: Vec<One<'_>> = all.iter().map(one).filter(is_shown).collect();
    serde_json::to_vec(&shown)
        .map_err(|error| Error::Source(format!("the answer cannot be written: {error}")))
}

/// Consolidates series of more than `points_max` values. Drops the first values so that
/// the same values are combined when the request is repeated a little later: otherwise
/// the graph would jitter as it moves.
fn bring_together(all: &mut [Series], points_max: usize) {
    let start = all.iter().map(|series| series.start).min().unwrap_or(0);
    let end = all.iter().map(|series| series.end).max().unwrap_or(0);
    for series in all {
        if points_max == 1 {
            series.consolidate(series.values.len());
            continue;
        }
        let count = end.saturating_sub(start) as f64 / series.step as f64;
        if count <= points_max as f64 {
            continue;
        }
        let each = (count / points_max as f64).ceil();
        let seconds = (each * series.step as f64) as i64;
        let first = series.start;
        let nudge = seconds
            .saturating_add(first.rem_euclid(series.step))
            .saturating_sub(first.rem_euclid(seconds));
        let lost = usize::try_from(nudge / series.step - 1).unwrap_or(0);
        series.values.drain(..lost.min(series.values.len()));
        series.start = first.saturating_add(nudge);
        series.consolidate(each as usize);
    }
}

struct One<'a> {
    series: &'a Series,
    leaves_out_missing: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    target: &'a str,
    tags: BTreeMap<&'static str, &'a str>,
    datapoints: Datapoints<'a>,
}

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = Shown {
            target: &self.series.name,
            tags: BTreeMap::from([("name", self.series.expression.as_str())]),
            datapoints: Datapoints(self),
        };
        shown.serialize(serializer)
    }
}

/// Pairs of value and time, written as they are walked.
struct Datapoints<'a>(&'a One<'a>);

impl Serialize for Datapoints<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let One {
            series,
            leaves_out_missing,
        } = self.0;
        let mut list = serializer.serialize_seq(None)?;
        for (at, value) in series.values.iter().enumerate() {
            let time = series.start.saturating_add(span(series.step, at));
            // A shift may leave values behind the end that it set.
            if time > series.end {
                break;
            }
            if value.is_some() || !leaves_out_missing {
                list.serialize_element(&(value.filter(|value| value.is_finite()), time))?;
            }
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Points;

    fn series(start: i64, count: i32) -> Series {
        let values: Vec<_> = (0..count).map(|value| Some(f64::from(value))).collect();
        Series::fetched("a", "a", Points::new(start, 10, values))
    }

    #[test]
    fn consolidated_values_have_the_same_times_whenever_requested() {
        let mut early = [series(1000, 100)];
        let mut late = [series(1030, 100)];
        bring_together(&mut early, 20);
        bring_together(&mut late, 20);
        assert_eq!((early[0].step, late[0].step), (50, 50));
        assert_eq!((early[0].start - late[0].start) % 50, 0);
        // Graphite's rule: five of ten seconds each, those before 1050 left out.
        assert_eq!(early[0].start, 1050);
        assert_eq!(early[0].values[0], Some(6.0));
        assert!(early[0].values.len() <= 20);
    }

    #[test]
    fn one_point_is_the_mean_of_all() {
        let mut all = [series(1000, 11)];
        bring_together(&mut all, 1);
        assert_eq!(
            (all[0].values.as_slice(), all[0].start),
            (&[Some(5.0)][..], 1000)
        );
    }

    #[test]
    fn few_values_are_not_consolidated() {
        let mut all = [series(1000, 20)];
        bring_together(&mut all, 20);
        assert_eq!(all[0], series(1000, 20));
    }
}
