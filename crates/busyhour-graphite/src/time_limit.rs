use std::{fmt, sync::Arc};

/// Says whether a request has taken too long. Sources ask it while they read; any number
/// of threads may ask.
///
/// ```
/// use busyhour_graphite::TimeLimit;
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_secs(30);
/// let limit = TimeLimit::new(move || Instant::now() > deadline);
/// assert!(!limit.is_over());
/// assert!(!TimeLimit::none().is_over());
/// ```
#[derive(Clone, Default)]
pub struct TimeLimit(Option<Arc<IsOver>>);

type IsOver = dyn Fn() -> bool + Send + Sync;

impl TimeLimit {
    /// The limit is reached once `is_over` says so.
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_over)))
    }

    /// No limit.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|is_over| is_over())
    }
}

impl fmt::Debug for TimeLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("TimeLimit").field(&self.is_over()).finish()
    }
}
