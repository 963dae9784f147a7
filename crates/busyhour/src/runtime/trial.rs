use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use super::{
    Runtime,
    fnv::{FNV_OFFSET, fnv_step},
};
use crate::sync::{Mutex, lock};

/// One run of [`explore`](super::explore): a simulated runtime, choices that
/// the seed makes, and a timeline. Clones share it.
///
/// A choice depends on the seed, on its name, and on how often this name was
/// used before, and on nothing else. So the others stay the same when one of
/// them is left out to find the smallest run that still fails.
///
/// ```
/// use busyhour::runtime::{Trial, explore};
/// use std::time::Duration;
///
/// let run = |trial: &Trial| {
///     for number in 0..3 {
///         if trial.includes(format!("request {number}")) && trial.happens("lost", 2) {
///             let delay = trial.number_below("delay of the repetition", 1_000);
///             trial.run_for(Duration::from_millis(delay));
///         }
///     }
///     trial.note("the end");
///     Ok(())
/// };
/// assert_eq!(explore(0..10, run), Ok(()));
/// ```
#[derive(Clone)]
pub struct Trial {
    trial: Arc<TrialState>,
}

struct TrialState {
    seed: u64,
    runtime: Runtime,
    left_out: BTreeSet<ChoiceId>,
    record: Mutex<TrialRecord>,
}

/// What has happened so far.
#[derive(Default)]
struct TrialRecord {
    counts: BTreeMap<String, u64>,
    /// Choices that did not come out as nothing, in their order.
    taken: Vec<ChoiceId>,
    timeline: Vec<(Duration, String)>,
}

/// A choice by its name, and how often it was made before.
pub(super) type ChoiceId = (String, u64);

impl Trial {
    pub(super) fn new(seed: u64, left_out: BTreeSet<ChoiceId>) -> Self {
        Self {
            trial: Arc::new(TrialState {
                seed,
                runtime: Runtime::simulated(seed),
                left_out,
                record: Mutex::default(),
            }),
        }
    }

    /// The seed of this run.
    pub fn seed(&self) -> u64 {
        self.trial.seed
    }

    /// The simulated runtime, new for each run.
    pub fn runtime(&self) -> &Runtime {
        &self.trial.runtime
    }

    /// Lets it run for `span` of virtual time.
    pub fn run_for(&self, span: Duration) {
        if let Some(simulation) = self.runtime().simulation() {
            simulation.run_for(span);
        }
    }

    /// A step of the test, for example one of its requests: yes, unless it is
    /// left out to find a smaller run. Written down if it is made.
    pub fn includes(&self, step: impl fmt::Display) -> bool {
        self.happens(step, 1)
    }

    /// Whether a mishap happens, once in `one_in` times: a message is lost, a
    /// disk is full. Written down if it does; 0 is never.
    pub fn happens(&self, mishap: impl fmt::Display, one_in: u64) -> bool {
        let name = mishap.to_string();
        let choice = self.choice(&name);
        let is_due = self.number(&choice).checked_rem(one_in) == Some(0);
        let happens = is_due && !self.trial.left_out.contains(&choice);
        if happens {
            self.take(choice);
            self.note(name);
        }
        happens
    }

    /// A number below `limit`, for example a delay; 0 where that is enough to
    /// fail.
    pub fn number_below(&self, what: impl fmt::Display, limit: u64) -> u64 {
        let choice = self.choice(&what.to_string());
        let number = self.number(&choice).checked_rem(limit).unwrap_or(0);
        if number == 0 || self.trial.left_out.contains(&choice) {
            return 0;
        }
        self.take(choice);
        number
    }

    /// Writes down what happens, with the virtual time.
    pub fn note(&self, what: impl fmt::Display) {
        let now = Duration::from_nanos(self.runtime().clock().now().as_nanos());
        let what = what.to_string();
        lock(&self.trial.record).timeline.push((now, what));
    }

    fn choice(&self, name: &str) -> ChoiceId {
        let mut record = lock(&self.trial.record);
        let count = record.counts.entry(name.to_owned()).or_default();
        let choice = (name.to_owned(), *count);
        *count += 1;
        choice
    }

    fn take(&self, choice: ChoiceId) {
        lock(&self.trial.record).taken.push(choice);
    }

    /// FNV-1a of the seed and the choice, mixed once more, since the lower bits
    /// are what is used.
    fn number(&self, (name, count): &ChoiceId) -> u64 {
        let bytes = (self.trial.seed.to_le_bytes().into_iter())
            .chain(name.bytes())
            .chain(count.to_le_bytes());
        let hash = bytes.fold(FNV_OFFSET, fnv_step);
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    pub(super) fn taken(&self) -> Vec<ChoiceId> {
        lock(&self.trial.record).taken.clone()
    }

    pub(super) fn timeline(&self) -> Vec<(Duration, String)> {
        lock(&self.trial.record).timeline.clone()
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial")
            .field("seed", &self.trial.seed)
            .finish_non_exhaustive()
    }
}
