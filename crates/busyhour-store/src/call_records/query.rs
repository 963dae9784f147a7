//! Which records are wanted.

use super::CallRecordRow;
use busyhour::clock::UnixTime;

/// A question about records of calls. The answer begins with the call that ended last.
///
/// ```
/// use busyhour_store::{CallRecordQuery, CallRecordRow};
///
/// let busy = CallRecordQuery {
///     outcome: Some("busy".into()),
///     ..CallRecordQuery::first(10)
/// };
/// let row = CallRecordRow { outcome: "answered".into(), ..CallRecordRow::default() };
/// assert!(!busy.matches(&row));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecordQuery {
    /// Only records with a lower id: the page after the one that ended with this id.
    pub after: Option<u64>,
    /// At most so many.
    pub limit: usize,
    /// Only calls in which this user called, was called, or answered; without a domain.
    pub user: Option<String>,
    /// Only calls that began at this time or later.
    pub from: Option<UnixTime>,
    /// Only calls that began before this time.
    pub until: Option<UnixTime>,
    /// Only calls with this outcome.
    pub outcome: Option<String>,
}

impl CallRecordQuery {
    /// The last `limit` calls.
    pub fn first(limit: usize) -> Self {
        Self {
            after: None,
            limit,
            user: None,
            from: None,
            until: None,
            outcome: None,
        }
    }

    /// Whether it asks for this record, if there is room in the answer.
    pub fn matches(&self, row: &CallRecordRow) -> bool {
        let began = UnixTime::from_nanos(row.began_at_ns);
        let user = self.user.as_deref();
        let outcome = self.outcome.as_deref();
        self.after.is_none_or(|after| row.id < after)
            && user.is_none_or(|user| row.users().contains(&user))
            && self.from.is_none_or(|from| began >= from)
            && self.until.is_none_or(|until| began < until)
            && outcome.is_none_or(|outcome| outcome == &*row.outcome)
    }

    /// Answers it from rows that begin with the last one.
    pub(crate) fn select<'r>(
        &self,
        rows: impl Iterator<Item = &'r CallRecordRow>,
    ) -> Vec<CallRecordRow> {
        let wanted = rows.filter(|row| self.matches(row));
        wanted.take(self.limit).cloned().collect()
    }

    /// The bounds for a database: ids below the first number, and a beginning from the
    /// second on and below the third.
    pub(crate) fn bounds(&self) -> [i64; 3] {
        let nanos = |time: UnixTime| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let after = |after: u64| i64::try_from(after).unwrap_or(i64::MAX);
        [
            self.after.map_or(i64::MAX, after),
            self.from.map_or(0, nanos),
            self.until.map_or(i64::MAX, nanos),
        ]
    }
}
