//! The order of changes, and the last of them. Pure.

use super::{element::EVENT, view::json};
use busyhour::{
    bus::{Event, Record, RecordKey},
    clock::UnixTime,
};
use std::{collections::VecDeque, sync::Arc};

/// A record with its place in the order of changes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Change(Arc<ChangeParts>);

#[derive(Debug)]
struct ChangeParts {
    number: u64,
    at: UnixTime,
    record: Record,
}

/// Numbers changes from 1 without a gap, and keeps the last ones.
#[derive(Debug)]
pub(super) struct ChangeHistory {
    kept: VecDeque<Change>,
    /// The number of the next change; those before it that are kept end with it.
    next: u64,
    len_max: usize,
}

impl Change {
    pub(super) fn new(number: u64, at: UnixTime, record: Record) -> Self {
        Self(Arc::new(ChangeParts { number, at, record }))
    }

    /// Its number; of a state, that of the last change before it was told.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    pub(super) fn record(&self) -> &Record {
        &self.0.record
    }

    /// Whether it tells what happened, and not only a state.
    pub(super) fn is_event(&self) -> bool {
        self.0.record.get(EVENT).is_some()
    }

    /// The change as a JSON object.
    pub fn json(&self) -> String {
        json(&self.0.record, self.0.at)
    }

    /// What is so after it, as a JSON object: the same without `event`.
    pub fn state_json(&self) -> String {
        let mut record = self.0.record.clone();
        record.remove(EVENT);
        json(&record, self.0.at)
    }
}

impl Event for Change {
    type Key = RecordKey;

    fn key(&self) -> &RecordKey {
        self.0.record.key()
    }
}

impl ChangeHistory {
    pub(super) fn new(len_max: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            next: 1,
            len_max,
        }
    }

    /// The number of the last change; 0 before the first.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
    }

    /// How many changes are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Gives a change its number, and keeps it in place of the oldest.
    pub(super) fn push(&mut self, at: UnixTime, record: Record) -> Change {
        let change = Change::new(self.next, at, record);
        self.next += 1;
        if self.kept.len() >= self.len_max {
            self.kept.pop_front();
        }
        self.kept.push_back(change.clone());
        change
    }

    /// So many changes are not known, at least one: no reader can go on from before them.
    pub(super) fn skip(&mut self, count: u64) {
        self.kept = VecDeque::new();
        self.next += count.max(1);
    }

    /// The changes after the one of this number; `None` if not all of them are kept, or if
    /// the number has not been given yet.
    pub(super) fn since(&self, number: u64) -> Option<impl Iterator<Item = &Change>> {
        let first = self.next - self.kept.len() as u64;
        let index = number.checked_add(1)?.checked_sub(first)?;
        let index = usize::try_from(index).ok()?;
        (index <= self.kept.len()).then(|| self.kept.range(index..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(history: &mut ChangeHistory) -> u64 {
        let change = history.push(UnixTime::from_secs(0), Record::new(1, "one"));
        change.number()
    }

    fn since(history: &ChangeHistory, number: u64) -> Option<Vec<u64>> {
        let changes = history.since(number)?;
        Some(changes.map(Change::number).collect())
    }

    /// Against a list of every number that was given.
    #[test]
    fn what_is_after_a_number_is_told_whole_or_not_at_all() {
        const LEN_MAX: u64 = 5;
        let mut history = ChangeHistory::new(LEN_MAX as usize);
        let mut unbroken: Vec<u64> = Vec::new();
        for step in 0..60_u64 {
            match step % 11 {
                10 => {
                    history.skip(step % 3);
                    unbroken.clear();
                }
                _ => unbroken.push(push(&mut history)),
            }
            let last = history.last();
            for number in 0..last + 3 {
                let missed: Vec<u64> = (number + 1..=last).collect();
                let is_kept = missed.len() as u64 <= LEN_MAX && unbroken.ends_with(&missed);
                let expected = (number <= last && is_kept).then_some(missed);
                assert_eq!(since(&history, number), expected, "{number} of {last}");
            }
        }
    }
}
