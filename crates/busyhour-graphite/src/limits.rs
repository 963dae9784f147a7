use super::{Digested, Error, TimeLimit, error::Limit};

/// What one request may use; each refusal says which limit it met and is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Values fetched from sources.
    pub points_max: u64,
    /// Series matched, for `/render`; paths in the answer, for `/metrics/find`.
    pub series_max: u64,
    /// Seconds between `from` and `until`, shifts and previews included.
    pub range_seconds_max: i64,
    /// Bytes of values held and written.
    pub memory_bytes_max: u64,
    /// Calls within calls.
    pub depth_max: usize,
    /// Bytes of one target.
    pub expression_len_max: usize,
    /// Targets of one request.
    pub targets_max: usize,
    /// Events in one answer.
    pub events_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            points_max: 2_000_000,
            series_max: 10_000,
            range_seconds_max: 366 * 86_400,
            memory_bytes_max: 256 << 20,
            depth_max: 32,
            expression_len_max: 16 << 10,
            targets_max: 256,
            events_max: 10_000,
        }
    }
}

/// What one request has used so far.
pub(super) struct Meter<'a> {
    limits: &'a Limits,
    points: u64,
    series: u64,
    bytes: u64,
    time: &'a TimeLimit,
}

impl<'a> Meter<'a> {
    pub(super) fn new(limits: &'a Limits, time: &'a TimeLimit) -> Self {
        Self {
            limits,
            points: 0,
            series: 0,
            bytes: 0,
            time,
        }
    }

    /// What was fetched so far.
    pub(super) fn digested(&self) -> Digested {
        Digested {
            metrics: self.series,
            values: self.points,
        }
    }

    /// Before `count` values of one series are fetched.
    pub(super) fn points(&mut self, count: u64) -> Result<(), Error> {
        self.points = self.points.saturating_add(count);
        let what = "values would be fetched; shorten the time range or name fewer series";
        within(Limit::Points, self.points, self.limits.points_max, what)?;
        self.bytes(count.saturating_mul(BYTES_PER_POINT))
    }

    /// Before `count` more series are taken.
    pub(super) fn series(&mut self, count: u64) -> Result<(), Error> {
        self.series = self.series.saturating_add(count);
        let what = "series match; use a narrower pattern";
        within(Limit::Series, self.series, self.limits.series_max, what)
    }

    /// Before the range from `from` to `until` is fetched.
    pub(super) fn range(&self, from: i64, until: i64) -> Result<(), Error> {
        let seconds = until.saturating_sub(from).max(0) as u64;
        let max = self.limits.range_seconds_max.max(0) as u64;
        let what = "seconds lie between from and until; ask for less";
        within(Limit::Range, seconds, max, what)
    }

    /// Before `count` more bytes are held.
    pub(super) fn bytes(&mut self, count: u64) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(count);
        let what = "bytes of memory would be used; ask for fewer series or a shorter time range";
        within(
            Limit::Memory,
            self.bytes,
            self.limits.memory_bytes_max,
            what,
        )?;
        self.time()
    }

    /// Before work that may take long, whatever it holds.
    pub(super) fn time(&self) -> Result<(), Error> {
        match self.time.is_over() {
            true => Err(Error::too_long()),
            false => Ok(()),
        }
    }

    /// For sources, which ask it while they read.
    pub(super) fn time_limit(&self) -> &'a TimeLimit {
        self.time
    }
}

impl Error {
    /// What a source answers when the time of the request is over.
    #[must_use]
    pub fn too_long() -> Self {
        let what =
            "the request took longer than is allowed; ask for fewer series or a shorter time range";
        Self::TooLarge(Limit::Duration, what.into())
    }
}

fn within(limit: Limit, used: u64, max: u64, what: &str) -> Result<(), Error> {
    if used <= max {
        return Ok(());
    }
    Err(Error::TooLarge(
        limit,
        format!("{used} {what} (at most {max})"),
    ))
}

pub(super) const BYTES_PER_POINT: u64 = size_of::<Option<f64>>() as u64;
