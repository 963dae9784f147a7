//! Old records, which the store deletes when it has time.
//!
//! Records are never removed by what somebody waits for. The server says from time to time
//! what is too old, and the store then looks at the records with the lowest ids, a batch at
//! a time, each in a transaction of its own and in turn with the groups of changes. So an
//! acknowledged change waits for at most one batch, however many records are old. A batch
//! never looks further than its length, since records are in the order in which calls ended.

use busyhour::clock::UnixTime;

/// Which records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRecordLimits {
    /// Records of calls that ended before this time are old.
    pub ended_before: UnixTime,
    /// Of more than so many, the oldest are old.
    pub count_max: u64,
}

/// What is to be removed.
#[derive(Default)]
pub(crate) struct OldCallRecords {
    /// `None` if nothing more is old.
    wanted: Option<CallRecordLimits>,
    /// The limits of the batch on its way.
    taken: Option<CallRecordLimits>,
    /// A group was written since the last batch.
    is_its_turn: bool,
    removed: u64,
}

impl OldCallRecords {
    pub(crate) fn want(&mut self, limits: CallRecordLimits) {
        self.wanted = Some(limits);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.wanted.is_some()
    }

    /// Whether a batch goes before the groups that wait.
    pub(crate) fn is_its_turn(&self) -> bool {
        self.is_its_turn && self.is_due()
    }

    /// A group goes first.
    pub(crate) fn request_yield(&mut self) {
        self.is_its_turn = true;
    }

    /// A batch of something else goes first, and the next group before one of these.
    pub(crate) fn skip_turn(&mut self) {
        self.is_its_turn = false;
    }

    /// What the next batch removes.
    pub(crate) fn take(&mut self) -> Option<CallRecordLimits> {
        self.is_its_turn = false;
        self.taken = self.wanted.take();
        self.taken
    }

    /// A batch was removed. A short one was the last; so was one that failed, until the
    /// server asks again. It may have asked while the batch was on its way.
    pub(crate) fn finish(&mut self, removed: Option<usize>) {
        self.removed += removed.unwrap_or(0) as u64;
        let taken = self.taken.take();
        if self.wanted.is_none() && removed.is_some_and(|len| len >= BATCH_LEN) {
            self.wanted = taken;
        }
    }

    pub(crate) fn removed(&self) -> u64 {
        self.removed
    }
}

impl CallRecordLimits {
    /// For a database: the time in nanoseconds, and the count.
    pub(crate) fn values(self) -> [i64; 2] {
        [self.ended_before.as_nanos(), self.count_max]
            .map(|value| i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// So few that changes which arrive in the meantime hardly wait.
pub(crate) const BATCH_LEN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CallRecordLimits = CallRecordLimits {
        ended_before: UnixTime::from_secs(7),
        count_max: 3,
    };

    #[test]
    fn batches_follow_each_other_in_turn_with_groups_until_one_is_short() {
        let mut old = OldCallRecords::default();
        assert!(!old.is_due());
        old.want(LIMITS);
        assert!(old.is_due() && !old.is_its_turn(), "groups go first");
        old.request_yield();
        assert!(old.is_its_turn());
        assert_eq!(old.take(), Some(LIMITS));
        old.finish(Some(BATCH_LEN));
        assert!(old.is_due() && !old.is_its_turn());
        old.take();
        old.finish(Some(BATCH_LEN - 1));
        assert!(!old.is_due());
        assert_eq!(old.removed(), 2 * BATCH_LEN as u64 - 1);
    }

    #[test]
    fn limits_that_come_while_a_batch_is_on_its_way_are_not_lost() {
        let mut old = OldCallRecords::default();
        old.want(LIMITS);
        old.take();
        let stricter = CallRecordLimits {
            count_max: 1,
            ..LIMITS
        };
        old.want(stricter);
        old.finish(Some(0));
        assert_eq!(old.take(), Some(stricter));
    }

    #[test]
    fn a_failed_batch_is_not_tried_again_before_the_server_asks() {
        let mut old = OldCallRecords::default();
        old.want(LIMITS);
        old.take();
        old.finish(None);
        assert!(!old.is_due());
        old.want(LIMITS);
        assert!(old.is_due());
    }
}
