use crate::Error;

/// How several values become one; missing ones are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// The mean.
    #[default]
    Average,
    /// The mean, missing values counting as 0.
    AverageZero,
    /// The middle one, or the mean of the two in the middle.
    Median,
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The first less all others.
    Diff,
    /// The standard deviation.
    Deviation,
    /// How many there are.
    Count,
    /// The greatest less the least.
    Range,
    /// The product; missing when any value is.
    Multiply,
    /// The first.
    First,
    /// The last.
    Last,
}

impl Aggregation {
    /// The aggregation that Graphite calls `name`.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let short = name.strip_suffix("Series").unwrap_or(name);
        let found = NAMES.iter().find(|(known, _)| *known == short);
        found.map(|(_, aggregation)| *aggregation).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            Error::Request(format!(
                "there is no aggregation `{name}`; give one of: {}",
                known.join(", ")
            ))
        })
    }

    /// One value for `values`; `None` when nothing is known.
    pub(crate) fn of(self, values: &[Option<f64>]) -> Option<f64> {
        let known = || values.iter().flatten().copied();
        let count = known().count();
        if count == 0 {
            return None;
        }
        let mean = known().sum::<f64>() / count as f64;
        let least = known().fold(f64::INFINITY, f64::min);
        let greatest = known().fold(f64::NEG_INFINITY, f64::max);
        Some(match self {
            Self::Average => mean,
            Self::AverageZero => known().sum::<f64>() / values.len() as f64,
            Self::Median => median(known().collect()),
            Self::Sum => known().sum(),
            Self::Min => least,
            Self::Max => greatest,
            Self::Diff => known().next()? - known().skip(1).sum::<f64>(),
            Self::Deviation => {
                let squares = known().map(|value| (value - mean) * (value - mean));
                (squares.sum::<f64>() / count as f64).sqrt()
            }
            Self::Count => count as f64,
            Self::Range => greatest - least,
            Self::Multiply if count < values.len() => return None,
            Self::Multiply => known().product(),
            Self::First => known().next()?,
            Self::Last => known().last()?,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    f64::midpoint(values[low], values[high])
}

/// By each name that Graphite knows.
const NAMES: &[(&str, Aggregation)] = &[
    ("average", Aggregation::Average),
    ("avg", Aggregation::Average),
    ("avg_zero", Aggregation::AverageZero),
    ("median", Aggregation::Median),
    ("sum", Aggregation::Sum),
    ("total", Aggregation::Sum),
    ("min", Aggregation::Min),
    ("max", Aggregation::Max),
    ("diff", Aggregation::Diff),
    ("stddev", Aggregation::Deviation),
    ("count", Aggregation::Count),
    ("range", Aggregation::Range),
    ("rangeOf", Aggregation::Range),
    ("multiply", Aggregation::Multiply),
    ("first", Aggregation::First),
    ("last", Aggregation::Last),
    ("current", Aggregation::Last),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_gives_its_value_and_missing_ones_are_left_out() {
        let values = [Some(4.0), None, Some(1.0), Some(7.0)];
        for (name, expected) in [
            ("average", 4.0),
            ("avg_zero", 3.0),
            ("median", 4.0),
            ("sum", 12.0),
            ("minSeries", 1.0),
            ("max", 7.0),
            ("diff", -4.0),
            ("count", 3.0),
            ("range", 6.0),
            ("first", 4.0),
            ("last", 7.0),
            ("stddev", 6.0_f64.sqrt()),
        ] {
            let found = Aggregation::named(name).unwrap().of(&values);
            assert_eq!(found, Some(expected), "{name}");
        }
        assert_eq!(Aggregation::Multiply.of(&values), None);
        assert_eq!(Aggregation::Multiply.of(&values[2..]), Some(7.0));
        assert_eq!(Aggregation::Median.of(&values[2..]), Some(4.0));
    }

    #[test]
    fn without_known_values_the_result_is_missing() {
        for (_, aggregation) in NAMES {
            assert_eq!(aggregation.of(&[None, None]), None);
            assert_eq!(aggregation.of(&[]), None);
        }
        assert!(
            Aggregation::named("mode")
                .unwrap_err()
                .to_string()
                .contains("average, avg")
        );
    }
}
