//! Whether the service is asked at all; no source decides it alone for the others. Pure.
//!
//! A source may know a name for which the service takes too long. Four answers in a row that are
//! late for one source alone do not open the breaker, and a source that was let through an open
//! breaker in vain is let through again later than others are.

use crate::server::{http_client::breaker::Breaker, load::shares::Cells};
use busyhour::clock::Instant;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct ServiceBreaker {
    breaker: Breaker,
    /// Late answers since the last one in time.
    late_count: u32,
    /// Whose the first of them was, and whether others had one as well.
    late_source: Option<Cells>,
    are_late_for_several: bool,
    /// Who was let through last, and until when not again.
    let_through: Option<(Cells, Instant)>,
}

/// What came of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceOutcome {
    Answered,
    /// Whoever asks would have met this.
    Failed,
    /// There was no answer in time.
    Late,
}

impl ServiceBreaker {
    pub(super) fn new() -> Self {
        Self {
            breaker: Breaker::new(REST),
            late_count: 0,
            late_source: None,
            are_late_for_several: false,
            let_through: None,
        }
    }

    /// Whether a source may ask now; otherwise when it may try again.
    pub(super) fn may_ask(&mut self, source: Cells, now: Instant) -> Result<(), Instant> {
        if !self.breaker.is_open() {
            return Ok(());
        }
        if let Some((last, until)) = self.let_through
            && last == source
            && now < until
        {
            return Err(until);
        }
        self.breaker.may_ask(now)?;
        self.let_through = Some((source, now + 2 * REST));
        Ok(())
    }

    pub(super) fn report(&mut self, source: Cells, outcome: ServiceOutcome, now: Instant) {
        match outcome {
            ServiceOutcome::Answered => {
                (self.late_count, self.late_source) = (0, None);
                self.are_late_for_several = false;
                self.breaker.report(true, now);
            }
            ServiceOutcome::Failed => self.breaker.report(false, now),
            ServiceOutcome::Late => {
                self.late_count = self.late_count.saturating_add(1);
                let first = *self.late_source.get_or_insert(source);
                self.are_late_for_several |= first != source;
                if self.are_late_for_several || self.late_count <= LATE_OF_ONE_MAX {
                    self.breaker.report(false, now);
                }
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.breaker.is_open()
    }
}

/// Between two attempts while the breaker is open.
const REST: Duration = Duration::from_secs(10);
/// One less than what opens the breaker.
const LATE_OF_ONE_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Cells = [1; 2];
    const OTHER: Cells = [2; 2];

    #[test]
    fn late_answers_for_one_source_open_nothing() {
        let (mut breaker, now) = (ServiceBreaker::new(), Instant::ZERO);
        for _ in 0..100 {
            breaker.report(ONE, ServiceOutcome::Late, now);
        }
        assert!(!breaker.is_open());
        breaker.report(OTHER, ServiceOutcome::Late, now);
        assert!(breaker.is_open());
        breaker.report(OTHER, ServiceOutcome::Answered, now);
        assert!(!breaker.is_open());
        for _ in 0..5 {
            breaker.report(ONE, ServiceOutcome::Failed, now);
        }
        assert!(breaker.is_open(), "nobody reaches it");
    }

    #[test]
    fn who_was_let_through_in_vain_waits_longer_than_others() {
        let (mut breaker, mut now) = (ServiceBreaker::new(), Instant::ZERO);
        for _ in 0..5 {
            breaker.report(ONE, ServiceOutcome::Failed, now);
        }
        now = now + REST;
        assert_eq!(breaker.may_ask(ONE, now), Ok(()));
        assert_eq!(breaker.may_ask(OTHER, now), Err(now + REST));
        breaker.report(ONE, ServiceOutcome::Late, now);
        now = now + REST;
        assert_eq!(breaker.may_ask(ONE, now), Err(now + REST));
        assert_eq!(breaker.may_ask(OTHER, now), Ok(()));
        breaker.report(OTHER, ServiceOutcome::Answered, now);
        assert_eq!(breaker.may_ask(ONE, now), Ok(()));
    }
}
