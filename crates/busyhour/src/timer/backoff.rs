use super::timers::Timers;
use crate::pool::Random;
use std::{future::Future, iter, time::Duration};

/// How often something is tried, and how long it waits after each failure: the delay doubles each
/// time.
///
/// ```
/// use std::time::Duration;
/// use busyhour::timer::Backoff;
///
/// let seconds = Duration::from_secs;
/// let backoff = Backoff::new(seconds(1)).longest(seconds(5)).tries(6);
/// assert!(backoff.delays().eq([1, 2, 4, 5, 5].map(seconds)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    /// `None` if it has no end.
    tries: Option<u32>,
    /// The seed of the jitter; `None` if each delay is exact.
    jitter: Option<u64>,
}

impl Backoff {
    /// Tries without end; the delay after the first failure is `first`.
    pub const fn new(first: Duration) -> Self {
        Self {
            first,
            longest: Duration::MAX,
            tries: None,
            jitter: None,
        }
    }

    /// No delay is longer than this.
    pub const fn longest(mut self, delay: Duration) -> Self {
        self.longest = delay;
        self
    }

    /// Ends after so many tries, the first one included; 0 counts as 1.
    pub const fn tries(mut self, count: u32) -> Self {
        self.tries = Some(count);
        self
    }

    /// Makes each delay shorter by up to a half, so that many callers that have failed at one
    /// moment do not come back at one moment. The same seed gives the same delays: give each caller
    /// its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::timer::Backoff;
    ///
    /// let backoff = |seed| Backoff::new(Duration::from_secs(8)).tries(2).jitter(seed);
    /// let delay = backoff(1).delays().next().unwrap();
    /// assert!((Duration::from_secs(4)..=Duration::from_secs(8)).contains(&delay));
    /// assert_ne!(backoff(2).delays().next(), Some(delay));
    /// assert_eq!(backoff(1).delays().next(), Some(delay));
    /// ```
    pub const fn jitter(mut self, seed: u64) -> Self {
        self.jitter = Some(seed);
        self
    }

    /// The delays in order: one less than there are tries.
    pub fn delays(&self) -> impl Iterator<Item = Duration> + use<> {
        let Self {
            first,
            longest,
            tries,
            jitter,
        } = *self;
        let doubled = move |delay: &Duration| Some(delay.saturating_mul(2).min(longest));
        let exact = iter::successors(Some(first.min(longest)), doubled);
        let count = tries.map_or(usize::MAX, |tries| tries.saturating_sub(1) as usize);
        let mut random = jitter.map(Random::new);
        exact.take(count).map(move |delay| match &mut random {
            None => delay,
            Some(random) => delay / 2 + (delay / 2).mul_f64(fraction(random)),
        })
    }
}

impl Timers {
    /// Tries until a try returns `Ok`, or until the tries of `backoff` are over. Returns what the
    /// last try returned.
    ///
    /// Dropping the future ends it. To give up on an error for which a further try is useless, let
    /// `attempt` return it within `Ok`. To limit the time of a try, put
    /// [`Timers::timeout`] into `attempt`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{runtime::Runtime, timer::Backoff};
    ///
    /// let runtime = Runtime::simulated(7);
    /// let backoff = Backoff::new(Duration::from_secs(1)).tries(8);
    /// let mut tries = 0;
    /// let answer = runtime.timers().retry(backoff, move || {
    ///     tries += 1;
    ///     let answers = tries == 4;
    ///     async move { answers.then_some("answer").ok_or("refused") }
    /// });
    /// let begun = runtime.clock().now();
    /// assert_eq!(runtime.pool().spawn(answer).wait(), Ok(Ok("answer")));
    /// assert_eq!(runtime.clock().now() - begun, Duration::from_secs(1 + 2 + 4));
    /// ```
    ///
    /// # Errors
    ///
    /// That of the last try.
    pub fn retry<T, E, F, A>(
        &self,
        backoff: Backoff,
        mut attempt: A,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, F, A>
    where
        A: FnMut() -> F,
        F: Future<Output = Result<T, E>>,
    {
        let timers = self.clone();
        async move {
            for delay in backoff.delays() {
                let tried = attempt().await.ok();
                if let Some(value) = tried {
                    return Ok(value);
                }
                timers.sleep(delay).await;
            }
            attempt().await
        }
    }
}

/// A number from 0 to below 1.
fn fraction(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn there_is_one_delay_less_than_tries() {
        let backoff = Backoff::new(Duration::from_millis(3));
        for (tries, delays) in [(0, 0), (1, 0), (2, 1), (9, 8)] {
            assert_eq!(backoff.tries(tries).delays().count(), delays);
        }
        assert!(backoff.delays().nth(1_000).is_some(), "it has no end");
    }

    proptest! {
        #[test]
        fn jitter_takes_at_most_a_half_of_a_delay_away(
            first: u64, longest: u64, tries in 1_u32..200, seed: u64,
        ) {
            let first = Duration::from_nanos(first);
            let exact = Backoff::new(first).longest(Duration::from_millis(longest)).tries(tries);
            for (delay, whole) in exact.jitter(seed).delays().zip(exact.delays()) {
                prop_assert!(delay >= whole / 2 && delay <= whole, "{:?} of {:?}", delay, whole);
            }
        }
    }
}
