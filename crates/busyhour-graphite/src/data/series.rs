use crate::{Points, data::aggregation::Aggregation};

/// Named values at even distances, as functions take and give them.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What the answer calls it.
    pub name: String,
    /// The expression it comes from, which names of combined series show.
    pub expression: String,
    /// The time of the first value, in seconds since 1970.
    pub start: i64,
    /// One step after the last value, unless a function moved it.
    pub end: i64,
    /// Seconds between two values; at least 1.
    pub step: i64,
    /// `None` where nothing is known.
    pub values: Vec<Option<f64>>,
    /// How values are brought together when there are more than asked for.
    pub(crate) consolidation: Aggregation,
}

impl Series {
    /// The values of a path that `expression` matched.
    pub(crate) fn fetched(path: &str, expression: &str, mut points: Points) -> Self {
        let step = points.step.max(1);
        // NaN and infinity are left out, since they would spoil every sum.
        for value in &mut points.values {
            *value = value.filter(|value| value.is_finite());
        }
        Self {
            name: path.to_owned(),
            expression: expression.to_owned(),
            start: points.start,
            end: points.start.saturating_add(span(step, points.values.len())),
            step,
            values: points.values,
            consolidation: Aggregation::default(),
        }
    }

    /// What a function made of it: a new name, which is its expression too.
    pub(crate) fn renamed(mut self, name: String) -> Self {
        self.expression.clone_from(&name);
        self.name = name;
        self
    }

    /// Brings each `count` neighbours together; the last ones may be fewer.
    pub(crate) fn consolidate(&mut self, count: usize) {
        if count <= 1 {
            return;
        }
        let chunks = self.values.chunks(count);
        self.values = chunks.map(|chunk| self.consolidation.of(chunk)).collect();
        self.step = self
            .step
            .saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The known values.
    pub(crate) fn known(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().flatten().copied()
    }
}

/// Seconds that `count` values take.
pub(crate) fn span(step: i64, count: usize) -> i64 {
    step.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_values_are_consolidated_without_missing_ones() {
        let values = [Some(1.0), Some(3.0), None, Some(5.0), None, None, Some(7.0)];
        let mut series = Series::fetched("a", "a", Points::new(0, 10, values));
        series.consolidate(2);
        assert_eq!(series.values, [Some(2.0), Some(5.0), None, Some(7.0)]);
        assert_eq!((series.step, series.end), (20, 70));
    }
}
