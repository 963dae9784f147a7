//! The one timer of a watcher, or of a shard of devices or calls.
//!
//! Most deadlines move to a later time before they are reached: a refresh moves the
//! expiry, an answer ends the retransmissions. So a later deadline does not change the
//! timer; it fires too early once, finds nothing to do and is set again. A storm of
//! refreshes changes no timer.

#[cfg(test)]
use busyhour::timer::Cancel;
use busyhour::{
    clock::Instant,
    serializer::Serializer,
    timer::{AddError, TimerHandle, Timers},
};
use std::time::Duration;

/// Set for a deadline, or not.
#[derive(Debug, Default)]
pub(super) struct ExpiryTimer(Option<(Instant, TimerHandle)>);

/// What the expiry timers of one kind have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpiryOptions {
    /// What the list of timers calls them.
    pub(super) label: &'static str,
    /// How late they may fire, so that many fire together: each wake-up of a thread costs
    /// more than what most of them have to do.
    pub(super) slack: Duration,
}

impl ExpiryTimer {
    /// Makes sure that `fire` runs on `serializer` at `deadline`, plus the slack of its
    /// kind, or earlier.
    ///
    /// # Errors
    ///
    /// When the timer service takes no more timers.
    pub(super) fn set(
        &mut self,
        deadline: Instant,
        options: ExpiryOptions,
        timers: &Timers,
        serializer: &Serializer,
        fire: impl FnOnce() + Send + 'static,
    ) -> Result<(), AddError> {
        if self.fires_by(deadline) {
            return Ok(());
        }
        let ExpiryOptions { label, slack } = options;
        let timer = timers.timer().label(label).slack(slack).at(deadline);
        let handle = timer.on(serializer).run(fire)?;
        if let Some((_, later)) = self.0.replace((deadline, handle)) {
            // If it still fires, it fires too early.
            let _ = timers.cancel(&later);
        }
        Ok(())
    }

    /// As if it had gone off before its time.
    #[cfg(test)]
    pub(super) fn lose(&self, timers: &Timers) {
        let (_, handle) = self.0.expect("it is set");
        assert_eq!(timers.cancel(&handle), Cancel::Prevented);
    }

    /// When it goes off; `None` when it is not set.
    #[cfg(test)]
    pub(super) fn set_for(&self) -> Option<Instant> {
        self.0.map(|(set_for, _)| set_for)
    }

    /// Whether it is set for `deadline` or earlier.
    pub(super) fn fires_by(&self, deadline: Instant) -> bool {
        self.0.is_some_and(|(set_for, _)| set_for <= deadline)
    }

    /// The timer has fired: the next deadline needs a new timer.
    pub(super) fn fired(&mut self, now: Instant) {
        self.0.take_if(|(set_for, _)| *set_for <= now);
    }

    /// Takes the timer back.
    pub(super) fn clear(&mut self, timers: &Timers) {
        if let Some((_, handle)) = self.0.take() {
            // If it still fires, it finds nothing to do.
            let _ = timers.cancel(&handle);
        }
    }
}
