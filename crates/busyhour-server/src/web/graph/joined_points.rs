use super::cached_archive::ArchivePart;
use busyhour_graphite::Points;
use busyhour_pcp::Rendering;

/// The values of several paths, joined from archives in the order of their start.
///
/// A series reaches from the first value of any of its archives to the last one. Where
/// no archive has a value, it has none: nothing is interpolated from one archive to the
/// next. Where two archives have a value for the same time, that of the archive that
/// began later counts.
pub(super) struct JoinedPoints(Vec<Option<JoinedSeries>>);

struct JoinedSeries {
    whole: ArchivePart,
    values: Vec<Option<f64>>,
}

impl JoinedPoints {
    /// Nothing yet, for `count` paths.
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| None).collect())
    }

    /// Says that the path at `place` has values in `part`, before any is added.
    pub(super) fn cover(&mut self, place: usize, part: ArchivePart) {
        let series = self.0[place].get_or_insert(JoinedSeries {
            whole: part,
            values: Vec::new(),
        });
        series.whole = series.whole.joined(part);
    }

    /// Adds what an archive has for the paths at `places`. Its first moment is the one
    /// before `part`.
    pub(super) fn add(&mut self, places: &[usize], part: ArchivePart, rendering: &Rendering) {
        for (at, place) in places.iter().enumerate() {
            if let Some(series) = &mut self.0[*place] {
                series.add(part, rendering.points(at).skip(1));
            }
        }
    }

    pub(super) fn into_points(self) -> Vec<Points> {
        let points = |series: Option<JoinedSeries>| {
            series.map_or_else(Points::default, JoinedSeries::into_points)
        };
        self.0.into_iter().map(points).collect()
    }
}

impl JoinedSeries {
    fn add(&mut self, part: ArchivePart, values: impl Iterator<Item = Option<f64>>) {
        // Memory for the whole series is taken only when the first of its archives is
        // there.
        self.values.resize(self.whole.len(), None);
        let first = part.start.saturating_sub(self.whole.start) / part.step;
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let places = self.values.iter_mut().skip(first);
        for (place, value) in places.zip(values) {
            *place = value.or(*place);
        }
    }

    fn into_points(self) -> Points {
        Points::new(self.whole.start, self.whole.step, self.values)
    }
}
