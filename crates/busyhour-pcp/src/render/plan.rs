use crate::{Metric, SeriesId, format::bits::Interpolation};
use std::collections::HashMap;

/// Which values are wanted, and the column of each.
#[derive(Debug)]
pub(crate) struct Plan {
    columns: Vec<Interpolation>,
    /// The first column of each metric, in order, and the end of the last.
    groups: Vec<usize>,
    metrics: HashMap<u32, Wanted>,
}

/// The columns of one metric.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// It has one value, whatever instance the record names.
    One(u32),
    /// By instance.
    ByInstance(HashMap<i32, u32>),
}

impl Plan {
    /// A column for each of `series`, in their order. Those of one metric
    /// should stand together.
    pub(crate) fn new(metrics: &[Metric], series: &[SeriesId], wraps: bool) -> Self {
        let mut plan = Self {
            columns: Vec::with_capacity(series.len()),
            groups: Vec::new(),
            metrics: HashMap::new(),
        };
        let mut last = None;
        for (column, id) in series.iter().enumerate() {
            let metric = &metrics[id.metric];
            if last.replace(id.metric) != Some(id.metric) {
                plan.groups.push(column);
            }
            plan.want(metric, metric.instances[id.instance].id, column as u32);
            plan.columns.push(Interpolation {
                value_type: metric.value_type,
                semantics: metric.semantics,
                wraps,
            });
        }
        plan.groups.push(series.len());
        plan
    }

    pub(crate) fn columns(&self) -> &[Interpolation] {
        &self.columns
    }

    /// The columns of each metric.
    pub(crate) fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.groups.windows(2).map(|pair| pair[0]..pair[1])
    }

    pub(crate) fn wanted(&self, metric: u32) -> Option<&Wanted> {
        self.metrics.get(&metric)
    }

    fn want(&mut self, metric: &Metric, instance: i32, column: u32) {
        if metric.domain.is_none() {
            self.metrics.insert(metric.id.0, Wanted::One(column));
            return;
        }
        let wanted = self
            .metrics
            .entry(metric.id.0)
            .or_insert_with(|| Wanted::ByInstance(HashMap::new()));
        if let Wanted::ByInstance(columns) = wanted {
            columns.insert(instance, column);
        }
    }
}

impl Wanted {
    pub(crate) fn column(&self, instance: i32) -> Option<u32> {
        match self {
            Self::One(column) => Some(*column),
            Self::ByInstance(columns) => columns.get(&instance).copied(),
        }
    }
}
