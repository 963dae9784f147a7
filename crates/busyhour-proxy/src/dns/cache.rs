//! Answers of DNS that are still valid.

use super::{DnsAnswer, Question};
use busyhour::{
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};
use foldhash::quality::FixedState;
use std::{collections::HashMap, time::Duration};

/// Answers by their questions, until their time is over; pure.
///
/// If it is full, the answer that ends first makes room.
#[derive(Debug)]
pub struct AnswerCache {
    entries: HashMap<Question, Entry, FixedState>,
    by_end: TimerQueue<Question>,
    capacity: usize,
    bounds: TtlBounds,
}

/// For how long answers are kept, whatever they say themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlBounds {
    /// At least, so that a domain without a time to live is not asked for each request.
    pub least: Duration,
    /// Records.
    pub found_most: Duration,
    /// That there is nothing.
    pub nothing_most: Duration,
    /// That nobody answered (RFC 2308 §7).
    pub failed: Duration,
}

#[derive(Debug)]
struct Entry {
    answer: DnsAnswer,
    until: Instant,
    end: QueueHandle,
}

impl AnswerCache {
    /// An empty cache. `seed` must be secret: whoever knows it can choose names that collide.
    pub fn new(seed: u64, capacity: usize, bounds: TtlBounds) -> Self {
        Self {
            entries: HashMap::with_hasher(FixedState::with_seed(seed)),
            by_end: TimerQueue::new(),
            capacity,
            bounds,
        }
    }

    /// The answer to a question, with the time that is left of it.
    pub fn get(&self, now: Instant, question: &Question) -> Option<DnsAnswer> {
        let entry = self.entries.get(question)?;
        let left = entry.until - now;
        (entry.until > now).then(|| match &entry.answer {
            DnsAnswer::Found(records, _) => DnsAnswer::Found(records.clone(), left),
            DnsAnswer::Nothing(_) => DnsAnswer::Nothing(left),
            DnsAnswer::Failed => DnsAnswer::Failed,
        })
    }

    /// Keeps an answer in the place of an earlier one.
    pub fn put(&mut self, now: Instant, question: Question, answer: DnsAnswer) {
        while let Some((_, ended)) = self.by_end.pop_due(now) {
            self.entries.remove(&ended);
        }
        if let Some(earlier) = self.entries.remove(&question) {
            self.by_end.cancel(earlier.end);
        }
        if self.entries.len() >= self.capacity {
            self.drop_first();
        }
        let until = now + self.bounds.life_of(&answer);
        let end = self.by_end.add(until, question.clone());
        let entry = Entry { answer, until, end };
        self.entries.insert(question, entry);
    }

    fn drop_first(&mut self) {
        if let Some((_, first)) = self.by_end.pop_due(Instant::FAR_FUTURE) {
            self.entries.remove(&first);
        }
    }

    /// Answers that it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl TtlBounds {
    /// For how long an answer is kept.
    pub fn life_of(&self, answer: &DnsAnswer) -> Duration {
        match answer {
            DnsAnswer::Found(_, ttl) => (*ttl).min(self.found_most).max(self.least),
            DnsAnswer::Nothing(ttl) => (*ttl).min(self.nothing_most).max(self.least),
            DnsAnswer::Failed => self.failed,
        }
    }
}

impl Default for TtlBounds {
    /// Five seconds to an hour; five minutes for nothing; five seconds for a failure.
    fn default() -> Self {
        Self {
            least: Duration::from_secs(5),
            found_most: Duration::from_secs(3600),
            nothing_most: Duration::from_secs(300),
            failed: Duration::from_secs(5),
        }
    }
}
