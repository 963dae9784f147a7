use crate::Error;
use std::{fmt, sync::Arc};

/// Says whether a long reading is to end before it is done: its caller has waited long
/// enough, or is gone. It is asked before each chunk of half a mebibyte, by any thread that
/// reads.
///
/// ```
/// use busyhour_pcp::StopCheck;
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_secs(30);
/// let stop = StopCheck::new(move || Instant::now() > deadline);
/// assert_eq!(stop.check(), Ok(()));
/// ```
#[derive(Clone, Default)]
pub struct StopCheck(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl StopCheck {
    /// Ends the reading when `stops` says so.
    pub fn new(stops: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stops)))
    }

    /// Never ends the reading.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// Whether the reading goes on.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if it is to end.
    pub fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(stops) if stops() => Err(Error::Stopped),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for StopCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("StopCheck")
            .field(&self.0.is_some())
            .finish()
    }
}
