//! What becomes of each call, so that its caller and its callees need not tell each
//! other.

use std::fmt::Display;
use std::time::Duration;

use crate::plan::pattern::shown;

/// The calls of one run; a number identifies each of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPlan {
    /// Distinguishes the Call-IDs of this run from those of other runs.
    pub run: u32,
    /// How many contacts each called device has.
    pub forks: u32,
    /// How long a telephone rings before it answers.
    pub ring: Duration,
    /// How long an answered call lasts until its caller ends it.
    pub talk: Duration,
    /// So many of a hundred callers give up while it rings.
    pub given_up_percent: u32,
}

impl CallPlan {
    /// Whether the caller gives up. Those calls are spread evenly.
    pub fn is_given_up(&self, call: u32) -> bool {
        let share = |call: u64| call * u64::from(self.given_up_percent) / 100;
        share(u64::from(call) + 1) > share(call.into())
    }

    /// Whether the contact of this number answers the call.
    pub fn answers(&self, call: u32, fork: u32) -> bool {
        !self.is_given_up(call) && call % self.forks.max(1) == fork
    }

    /// The Call-ID of a call to a device; [`CallPlan::of_call_id`] parses it.
    pub fn call_id(&self, call: u32, device: u32) -> impl Display + use<> {
        let run = self.run;
        shown(move |f| write!(f, "{run:08x}.{call}.{device}@storm"))
    }

    /// The call of a Call-ID of any run.
    pub fn number_of(call_id: &str) -> Option<u32> {
        let mut parts = call_id.strip_suffix("@storm")?.split('.');
        parts.nth(1)?.parse().ok()
    }

    /// The call and the device of a Call-ID, if it is of this run.
    pub fn of_call_id(&self, call_id: &str) -> Option<(u32, u32)> {
        let (run, rest) = call_id.strip_suffix("@storm")?.split_once('.')?;
        let (call, device) = rest.split_once('.')?;
        let ours = u32::from_str_radix(run, 16) == Ok(self.run);
        Some((call.parse().ok()?, device.parse().ok()?)).filter(|_| ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(forks: u32, given_up_percent: u32) -> CallPlan {
        CallPlan {
            run: 0xbeef,
            forks,
            ring: Duration::ZERO,
            talk: Duration::ZERO,
            given_up_percent,
        }
    }

    #[test]
    fn as_many_callers_give_up_as_wanted() {
        for percent in [0, 1, 33, 50, 100] {
            let plan = plan(1, percent);
            let given_up = (0..1000).filter(|call| plan.is_given_up(*call)).count();
            assert_eq!(given_up as u32, percent * 10);
        }
    }

    #[test]
    fn one_contact_answers_unless_the_caller_gives_up() {
        let plan = plan(3, 25);
        for call in 0..100 {
            let answers = (0..3).filter(|fork| plan.answers(call, *fork)).count();
            assert_eq!(answers == 0, plan.is_given_up(call), "{call}");
            assert!(answers <= 1);
        }
    }

    #[test]
    fn a_call_id_of_another_run_is_not_ours() {
        let plan = plan(1, 0);
        let call_id = plan.call_id(7, 3).to_string();
        assert_eq!(plan.of_call_id(&call_id), Some((7, 3)));
        assert_eq!(CallPlan::number_of(&call_id), Some(7));
        assert_eq!(CallPlan::number_of("7@example.com"), None);
        let other = CallPlan { run: 1, ..plan };
        assert_eq!(other.of_call_id(&call_id), None);
    }
}
