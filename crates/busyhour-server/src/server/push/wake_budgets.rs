//! How often telephones may be woken.

use super::push_target::PushTarget;
use crate::server::load::shares::Holder;
use busyhour::{bus::Name, clock::Instant};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The wakings of the last hour, by address of record. A telephone that changes what its service
/// calls it takes nothing from those of other addresses.
pub(super) struct WakeBudgets {
    parts: Box<[Mutex<BudgetPart>]>,
    chooses: RandomState,
}

/// Some of the addresses, so that looking for old ones holds nobody up for long.
#[derive(Default)]
struct BudgetPart {
    by_aor: HashMap<Name, Vec<WakeBudget>>,
    /// When so many are there, those that are over are removed.
    cleaned_at: usize,
}

/// How often one telephone was woken.
struct WakeBudget {
    target: PushTarget,
    since: Instant,
    last: Instant,
    by_caller: Vec<(Holder, u32)>,
    refreshes: u32,
}

/// Whose request wakes a telephone.
#[derive(Debug, Clone, Copy)]
pub(super) enum WokenFor {
    Caller(Holder),
    /// Its own registration, which has a budget of its own.
    Refresh,
}

/// Whether a telephone may be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayWake {
    Yes,
    /// It was woken just now, and is on its way.
    NotNeeded,
    TooOften,
}

impl WakeBudgets {
    pub(super) fn new() -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            chooses: RandomState::new(),
        }
    }

    /// Takes nothing.
    pub(super) fn look(
        &self,
        aor: &Name,
        target: &PushTarget,
        woken_for: WokenFor,
        (hourly_max, now): (u32, Instant),
    ) -> MayWake {
        let part = self.part(aor);
        let Some(budgets) = part.by_aor.get(aor) else {
            return MayWake::Yes;
        };
        let current = budgets.iter().filter(|it| it.is_current(now));
        match current.clone().find(|it| it.target == *target) {
            Some(budget) => budget.look(woken_for, hourly_max, now),
            None if current.count() >= TARGETS_MAX => MayWake::TooOften,
            None => MayWake::Yes,
        }
    }

    /// It is woken.
    pub(super) fn spend(&self, aor: &Name, target: &PushTarget, woken_for: WokenFor, now: Instant) {
        let mut part = self.part(aor);
        part.clean(now);
        let budgets = part.by_aor.entry(aor.clone()).or_default();
        budgets.retain(|it| it.is_current(now));
        let found = budgets.iter().position(|it| it.target == *target);
        let at = found.unwrap_or_else(|| {
            budgets.push(WakeBudget::new(target, now));
            budgets.len() - 1
        });
        budgets[at].spend(woken_for, now);
    }

    fn part(&self, aor: &Name) -> MutexGuard<'_, BudgetPart> {
        let number = self.chooses.hash_one(aor) as usize % self.parts.len();
        self.parts[number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetPart {
    /// After it as many may be added as have stayed, before it looks again.
    fn clean(&mut self, now: Instant) {
        if self.by_aor.len() < self.cleaned_at.max(CLEANED_MIN) {
            return;
        }
        self.by_aor
            .retain(|_, budgets| budgets.iter().any(|it| it.is_current(now)));
        self.cleaned_at = 2 * self.by_aor.len();
    }
}

impl WakeBudget {
    fn new(target: &PushTarget, now: Instant) -> Self {
        Self {
            target: target.clone(),
            since: now,
            last: now,
            by_caller: Vec::new(),
            refreshes: 0,
        }
    }

    fn is_current(&self, now: Instant) -> bool {
        now - self.since < HOUR
    }

    /// One caller gets half of what the others have left, so that a few of them leave something
    /// for everybody else.
    fn look(&self, woken_for: WokenFor, hourly_max: u32, now: Instant) -> MayWake {
        if now - self.last < JUST_NOW {
            return MayWake::NotNeeded;
        }
        let has_room = match woken_for {
            WokenFor::Refresh => self.refreshes < hourly_max,
            WokenFor::Caller(caller) => {
                let all: u32 = self.by_caller.iter().map(|(_, count)| count).sum();
                let own = self.count_of(caller);
                let left = hourly_max.saturating_sub(all - own);
                own < left.div_ceil(2)
            }
        };
        match has_room {
            true => MayWake::Yes,
            false => MayWake::TooOften,
        }
    }

    fn count_of(&self, caller: Holder) -> u32 {
        let found = self.by_caller.iter().find(|(holder, _)| *holder == caller);
        found.map_or(0, |(_, count)| *count)
    }

    fn spend(&mut self, woken_for: WokenFor, now: Instant) {
        self.last = now;
        match woken_for {
            WokenFor::Refresh => self.refreshes += 1,
            WokenFor::Caller(caller) => {
                let found = self.by_caller.iter_mut().find(|(it, _)| *it == caller);
                match found {
                    Some((_, count)) => *count += 1,
                    None => self.by_caller.push((caller, 1)),
                }
            }
        }
    }
}

const PARTS: usize = 64;
/// Fewer addresses in a part are not looked through.
const CLEANED_MIN: usize = 64;
/// Telephones of one address that were woken within an hour.
const TARGETS_MAX: usize = 16;
/// A telephone that was woken so lately is on its way.
const JUST_NOW: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::Holders;

    const MAX: u32 = 60;

    fn target(prid: &str) -> PushTarget {
        PushTarget {
            provider: "acme".into(),
            prid: prid.into(),
            param: "".into(),
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn looking_takes_nothing_and_a_registration_has_a_budget_of_its_own() {
        let (budgets, bob) = (WakeBudgets::new(), Name::new("sip:bob@example.com"));
        let caller = Holders::new(1).of_account("alice");
        let alice = WokenFor::Caller(caller);
        let phone = target("b0b");
        let look = |woken_for, seconds| budgets.look(&bob, &phone, woken_for, (MAX, at(seconds)));
        for _ in 0..1_000 {
            assert_eq!(look(alice, 0), MayWake::Yes);
        }
        for call in 0..30 {
            assert_eq!(look(alice, 10 * call), MayWake::Yes);
            budgets.spend(&bob, &phone, alice, at(10 * call));
            assert_eq!(look(alice, 10 * call + 4), MayWake::NotNeeded);
        }
        assert_eq!(look(alice, 300), MayWake::TooOften);
        assert_eq!(look(WokenFor::Refresh, 300), MayWake::Yes);
        assert_eq!(look(alice, 3_600), MayWake::Yes, "an hour later");
    }

    #[test]
    fn an_address_that_changes_its_telephones_takes_nothing_from_others() {
        let budgets = WakeBudgets::new();
        let (bob, carol) = (
            Name::new("sip:bob@a.example"),
            Name::new("sip:carol@b.example"),
        );
        let look =
            |aor, phone: &PushTarget| budgets.look(aor, phone, WokenFor::Refresh, (MAX, at(9)));
        for number in 0..TARGETS_MAX {
            let phone = target(&number.to_string());
            assert_eq!(look(&bob, &phone), MayWake::Yes);
            budgets.spend(&bob, &phone, WokenFor::Refresh, at(9));
        }
        assert_eq!(look(&bob, &target("one more")), MayWake::TooOften);
        assert_eq!(look(&carol, &target("c")), MayWake::Yes);
    }

    #[test]
    fn what_is_over_is_removed() {
        let budgets = WakeBudgets::new();
        for number in 0..200_000_u64 {
            let aor = Name::new(&format!("sip:{number}@example.com"));
            budgets.spend(&aor, &target("t"), WokenFor::Refresh, at(number));
        }
        let kept: usize = budgets
            .parts
            .iter()
            .map(|it| it.lock().unwrap().by_aor.len())
            .sum();
        assert!(
            kept <= 2 * (3_600 + PARTS * CLEANED_MIN),
            "{kept} of 3,600 in an hour"
        );
    }
}
