use crate::{Damage, Error, SeriesId, Window};

/// The values of some series at the moments of a [`Window`].
#[derive(Debug, Clone)]
pub struct Rendering {
    pub(crate) window: Window,
    pub(crate) series: Vec<SeriesId>,
    /// By series, one for each moment.
    pub(crate) values: Vec<f64>,
    pub(crate) record_count: u64,
    pub(crate) bytes_read: u64,
    pub(crate) damage: Option<Damage>,
}

impl Rendering {
    /// The moments.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// What was rendered, in the order of the request.
    pub fn series(&self) -> &[SeriesId] {
        &self.series
    }

    /// The values of the series at `index` of [`series`](Self::series), one
    /// for each moment; NaN where the archive has none.
    pub fn values(&self, index: usize) -> &[f64] {
        let count = self.window.count();
        &self.values[index * count..(index + 1) * count]
    }

    /// As [`values`](Self::values), with `None` where the archive has none.
    pub fn points(&self, index: usize) -> impl Iterator<Item = Option<f64>> {
        let values = self.values(index).iter();
        values.map(|value| (!value.is_nan()).then_some(*value))
    }

    /// Records that were decoded for it.
    pub fn record_count(&self) -> u64 {
        self.record_count
    }

    /// Bytes of the volumes that were read for it; of compressed ones after
    /// decompression.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The first damage in the part of the volumes that was read, if there is any. The
    /// values are then those of the good records.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }
}

/// What the values of a counter are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counters {
    /// Its growth in a second since the moment before, as `pmrep` and `pmval`
    /// show it. There is none at the first moment, after a gap, and where the
    /// counter fell.
    #[default]
    Rate,
    /// Its value, as pmFetch(3) interpolates it.
    Raw,
}

/// How to render.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// What to make of counters.
    pub counters: Counters,
    /// Whether a counter that fell counts as wrapped around once, as with
    /// `PCP_COUNTER_WRAP` for PCP's tools.
    pub counter_wrap: bool,
    /// The most threads that work on it, the calling one included; 0 counts
    /// as 1. More than the machine has cores are not used.
    pub threads: usize,
}

pub(crate) fn check_size(series_count: usize, window: &Window) -> Result<(), Error> {
    let points = series_count as u64;
    let points = points.saturating_mul(window.count() as u64);
    if points > POINTS_MAX {
        return Err(Error::TooManyPoints {
            points,
            points_max: POINTS_MAX,
        });
    }
    Ok(())
}

/// A quarter of a gibibyte of values. A chunk with forged times that span the whole
/// window takes the same amount again while it is decoded.
const POINTS_MAX: u64 = 1 << 25;
