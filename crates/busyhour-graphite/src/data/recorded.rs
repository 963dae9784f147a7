use crate::{Error, Points, Source, TimeLimit, Window, paths::index::Index};
use std::{collections::BTreeMap, sync::Arc};

/// Values given once and for all: what tests, examples and fuzzers read from.
#[derive(Debug, Default)]
pub struct Recorded {
    series: BTreeMap<String, Points>,
    index: Arc<Index>,
}

impl Recorded {
    /// The values of each path.
    pub fn new<P: Into<String>>(series: impl IntoIterator<Item = (P, Points)>) -> Self {
        let series = series
            .into_iter()
            .map(|(path, points)| (path.into(), points));
        let series: BTreeMap<String, Points> = series.collect();
        let index = Arc::new(Index::new(series.keys().map(|path| path.as_str().into())));
        Self { series, index }
    }
}

impl Source for Recorded {
    fn index(&self) -> Arc<Index> {
        self.index.clone()
    }

    fn len(&self, path: &str, window: Window) -> u64 {
        self.series
            .get(path)
            .map_or(0, |points| window.len(points.step))
    }

    fn fetch(
        &self,
        paths: &[Arc<str>],
        window: Window,
        _time: &TimeLimit,
    ) -> Result<Vec<Points>, Error> {
        let one = |path: &Arc<str>| self.series.get(&**path).map(|points| points.within(window));
        Ok(paths
            .iter()
            .map(|path| one(path).unwrap_or_default())
            .collect())
    }
}

impl Points {
    fn within(&self, window: Window) -> Self {
        let step = self.step.max(1);
        let (start, end) = window.aligned(step);
        let times = (start..end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        let values: Vec<_> = times.map(|time| self.at(time)).collect();
        Self::new(start, step, values)
    }

    fn at(&self, time: i64) -> Option<f64> {
        let place = usize::try_from((time - self.start) / self.step.max(1)).ok();
        let place = place.filter(|_| time >= self.start)?;
        self.values.get(place).copied().flatten()
    }
}
