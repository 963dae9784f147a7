use std::{
    any::Any,
    collections::BTreeSet,
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::trial::{ChoiceId, Trial};

/// Runs `run` once for each seed, until one fails: returns an error, or panics.
/// That one is made smaller: what the [`Trial`] chose is left out, as long as
/// the run still fails. What is left comes back with its timeline, the same each
/// time.
///
/// A panic in a task ends that task alone, so what must hold is asked in `run`
/// itself, after the simulation.
///
/// # Errors
///
/// The smallest failing run that was found.
///
/// ```
/// use std::{collections::HashSet, time::Duration};
/// use busyhour::runtime::{Trial, explore};
///
/// /// Counts payments that come over a network that doubles one in five.
/// fn run(trial: &Trial, is_faulty: bool) -> Result<(), String> {
///     let account = trial.runtime().serializer("account").build().unwrap();
///     let account = account.with_state((0_u32, HashSet::new()));
///     let mut wanted = 0;
///     for number in (0..10).filter(|number| trial.includes(format!("payment {number}"))) {
///         wanted += 1;
///         let is_doubled = trial.happens(format!("payment {number} comes twice"), 5);
///         for copy in 0..1 + u32::from(is_doubled) {
///             let delay = trial.number_below(format!("delay of {number}.{copy}"), 1_000);
///             let (account, noting) = (account.clone(), trial.clone());
///             let arrives = move || _ = account.push(move |(total, known)| {
///                 noting.note(format!("payment {number} arrives"));
///                 *total += u32::from(known.insert(number) || is_faulty);
///             });
///             let delay = Duration::from_millis(delay);
///             trial.runtime().timers().after(delay, trial.runtime().pool(), arrives);
///         }
///     }
///     trial.run_for(Duration::from_secs(2));
///     match account.push_wait(|(total, _)| *total).unwrap() {
///         total if total == wanted => Ok(()),
///         total => Err(format!("{total} payments instead of {wanted}")),
///     }
/// }
///
/// assert!(explore(0..100, |trial| run(trial, false)).is_ok());
/// let found = explore(0..100, |trial| run(trial, true)).unwrap_err();
/// assert_eq!(found.message, "2 payments instead of 1");
/// // One payment, doubled, twice there: four lines, whatever the seed was.
/// assert_eq!(found.timeline.len(), 4, "{found}");
/// ```
#[doc(alias("fuzz", "property test", "shrink", "turmoil", "madsim"))]
pub fn explore(
    seeds: impl IntoIterator<Item = u64>,
    run: impl Fn(&Trial) -> Result<(), String>,
) -> Result<(), Counterexample> {
    for seed in seeds {
        if let Some(failed) = FailedRun::failed(seed, BTreeSet::new(), &run) {
            return Err(failed.shrink(&run));
        }
    }
    Ok(())
}

/// The smallest failing run that [`explore`] has found. Its
/// [`Display`](fmt::Display) is the message with the timeline.
///
/// ```
/// use busyhour::runtime::explore;
///
/// let found = explore(0..10, |trial| match trial.happens("rain", 2) {
///     true => Err("wet".to_owned()),
///     false => Ok(()),
/// });
/// let found = found.unwrap_err();
/// assert_eq!(found.message, "wet");
/// println!("{found}"); // the seed, the message, and the timeline
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counterexample {
    /// The seed: `explore([seed], …)` finds it again.
    pub seed: u64,
    /// What `run` returned, or its panic.
    pub message: String,
    /// How many choices were left out.
    pub left_out_count: usize,
    /// What is left, by virtual time since the begin.
    pub timeline: Vec<(Duration, String)>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, message, .. } = self;
        let count = self.left_out_count;
        write!(f, "seed {seed}, without {count} choices: {message}")?;
        for (at, what) in &self.timeline {
            let millis = at.as_secs_f64() * 1_000.0;
            write!(f, "\n{millis:>12.3} ms  {what}")?;
        }
        Ok(())
    }
}

impl Error for Counterexample {}

/// A run that has failed.
struct FailedRun {
    seed: u64,
    left_out: BTreeSet<ChoiceId>,
    message: String,
    taken: Vec<ChoiceId>,
    timeline: Vec<(Duration, String)>,
}

impl FailedRun {
    /// `None` if the run is good.
    fn failed(
        seed: u64,
        left_out: BTreeSet<ChoiceId>,
        run: &impl Fn(&Trial) -> Result<(), String>,
    ) -> Option<Self> {
        let trial = Trial::new(seed, left_out.clone());
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&trial)));
        let message = outcome
            .unwrap_or_else(|payload| Err(panic_message(&*payload)))
            .err()?;
        Some(Self {
            seed,
            left_out,
            message,
            taken: trial.taken(),
            timeline: trial.timeline(),
        })
    }

    /// Leaves out half of the choices, then quarters, and at last single ones,
    /// until none can be left out any more.
    fn shrink(mut self, run: &impl Fn(&Trial) -> Result<(), String>) -> Counterexample {
        let mut part_len = self.taken.len().div_ceil(2);
        let mut runs_left = RUNS_MAX;
        while part_len > 0 && runs_left > 0 {
            match self.smaller(part_len, &mut runs_left, run) {
                Some(smaller) => self = smaller,
                None if part_len == 1 => break,
                None => part_len = part_len.div_ceil(2),
            }
        }
        Counterexample {
            seed: self.seed,
            message: self.message,
            left_out_count: self.left_out.len(),
            timeline: self.timeline,
        }
    }

    /// The first run without `part_len` of the choices that still fails.
    fn smaller(
        &self,
        part_len: usize,
        runs_left: &mut u32,
        run: &impl Fn(&Trial) -> Result<(), String>,
    ) -> Option<Self> {
        self.taken.chunks(part_len).find_map(|part| {
            *runs_left = runs_left.checked_sub(1)?;
            let left_out = self.left_out.iter().chain(part).cloned().collect();
            Self::failed(self.seed, left_out, run)
        })
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

/// How many runs are spent on finding a smaller one.
const RUNS_MAX: u32 = 2_000;
