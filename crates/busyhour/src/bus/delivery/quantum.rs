use crate::{clock::Instant, task::Executor};
use std::{sync::Arc, time::Duration};

/// How long a turn may deliver before others run: limited by the executor's
/// clock, and by a count in case that clock stands still or does not exist.
pub(in crate::bus) struct Quantum<'a> {
    executor: Option<&'a Arc<dyn Executor>>,
    began: Option<Instant>,
    last: Option<Instant>,
    /// Deliveries between two looks at the clock.
    stride: u64,
    begun: u64,
}

impl<'a> Quantum<'a> {
    /// How long other entities of the worker wait for one turn, except for the
    /// last stride of deliveries.
    const LENGTH: Duration = Duration::from_micros(200);
    const DELIVERIES_MAX: u64 = 1024;
    const STRIDE_MAX: u64 = 16;

    /// Without an executor a turn never yields: no other thread would continue
    /// it.
    pub(in crate::bus) fn begin(executor: Option<&'a Arc<dyn Executor>>) -> Self {
        let began = executor.and_then(|executor| executor.now());
        Self {
            executor,
            began,
            last: began,
            stride: 1,
            begun: 0,
        }
    }

    /// Deliveries until the next look.
    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// Looks at the clock before each stride except the first.
    pub(in crate::bus) fn is_over(&mut self) -> bool {
        let Some(executor) = self.executor else {
            self.stride = Self::STRIDE_MAX;
            return false;
        };
        let is_over = self.begun > 0 && self.has_passed(executor.now());
        self.begun += self.stride;
        is_over
    }

    fn has_passed(&mut self, now: Option<Instant>) -> bool {
        self.adapt(now);
        let is_late = now
            .zip(self.began)
            .is_some_and(|(now, began)| now - began > Self::LENGTH);
        self.begun >= Self::DELIVERIES_MAX || is_late
    }

    /// Lengthens the stride while deliveries are quick.
    fn adapt(&mut self, now: Option<Instant>) {
        let took = now
            .zip(self.last)
            .map_or(Duration::ZERO, |(now, last)| now - last);
        self.last = now;
        self.stride = match took < Self::LENGTH / 32 {
            true => (2 * self.stride).min(Self::STRIDE_MAX),
            false => (self.stride / 2).max(1),
        };
    }
}
