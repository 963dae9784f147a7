//! The subscribers that read from the cache what has changed: a change costs nothing for those that
//! have not read an earlier one yet.

use super::*;

impl<E: Event> ShardSubscribers<E> {
    /// A change is about to be made. The readers that have read everything before it are notified.
    #[inline(always)]
    pub(super) fn offer_to_readers(&mut self, place: ListPosition, result: &mut PublishResult<E>) {
        result.counts.delivered += self.readers.len() as u64;
        if self.attentive_count > 0 {
            self.notify_readers(place, result);
        }
    }

    #[cold]
    #[inline(never)]
    fn notify_readers(&mut self, place: ListPosition, result: &mut PublishResult<E>) {
        for reader in &mut self.readers {
            if !reader.is_attentive() {
                continue;
            }
            let was_late = reader.lag.is_some();
            let wake = match reader.notify(place) {
                Offer::FellBehind { wake } => {
                    self.attentive_count -= 1;
                    if !was_late {
                        reader.add_lag(&mut self.laggard_count, &mut self.newest_lag);
                    }
                    wake
                }
                Offer::Refused { .. } => {
                    result.counts.delivered -= 1;
                    (self.counts.lost, result.counts.lost) =
                        (self.counts.lost + 1, result.counts.lost + 1);
                    false
                }
                _ => {
                    result.counts.delivered -= 1;
                    false
                }
            };
            if wake {
                result.wake(&reader.subscriber);
            }
        }
    }

    /// Until which version a reader has read; `None` if it has read everything.
    pub(in crate::bus) fn read_until(&mut self, subscriber: &Arc<Subscriber<E>>) -> Option<u64> {
        let reader = self.readers.iter().find(|it| it.is(subscriber))?;
        reader.lag.map(|lag| lag.since)
    }

    /// A reader has read the next changes, of each key at most the last one.
    pub(in crate::bus) fn note_read(
        &mut self,
        subscriber: &Arc<Subscriber<E>>,
        changes: ReadChanges,
    ) {
        self.counts.delivered += changes.count;
        self.counts.conflated += changes.conflated;
        let lag = self.follow(subscriber);
        if changes.is_all {
            return;
        }
        let Some(reader) = self.readers.iter_mut().find(|it| it.is(subscriber)) else {
            return;
        };
        let since = changes.until;
        reader.lag = lag.map(|lag| Lag { since, ..lag });
        self.attentive_count -= 1;
        reader.add_lag(&mut self.laggard_count, &mut self.newest_lag);
    }

    /// The next change notifies this reader again: nothing else would.
    pub(in crate::bus) fn stall(&mut self, subscriber: &Arc<Subscriber<E>>) {
        if let Some(reader) = self.readers.iter_mut().find(|it| it.is(subscriber)) {
            let was_attentive = reader.is_attentive();
            reader.is_stalled = reader.lag.is_some();
            self.attentive_count += usize::from(!was_attentive);
        }
    }

    /// Readers that have not read everything.
    pub(super) fn late_reader_count(&self) -> usize {
        let late = |it: &&ShardSubscriber<E>| it.lag.is_some_and(|lag| lag.since > 0);
        self.readers.iter().filter(late).count()
    }
}

/// What a reader has read of a shard.
#[derive(Clone, Copy)]
pub(in crate::bus) struct ReadChanges {
    pub(in crate::bus) until: u64,
    /// How many changes it receives.
    pub(in crate::bus) count: u64,
    /// How many it does not receive, since a newer one of the key has followed.
    pub(in crate::bus) conflated: u64,
    /// Whether that is everything.
    pub(in crate::bus) is_all: bool,
}

impl<E: Event> ShardSubscriber<E> {
    /// Whether it is to be notified of the next change.
    pub(super) fn is_attentive(&self) -> bool {
        self.subscriber.mailbox().reads_cache() && (self.lag.is_none() || self.is_stalled)
    }

    /// Notifies a reader; its lag begins, unless it has begun before.
    fn notify(&mut self, place: ListPosition) -> Offer<E> {
        let mailbox = self.subscriber.mailbox();
        if self.lag.is_some() {
            self.is_stalled = false;
            let wake = mailbox.schedule_again();
            return Offer::FellBehind { wake };
        }
        let offer = mailbox.notify(place.shard);
        if let Offer::FellBehind { .. } = offer {
            self.lag = Some(Lag {
                since: place.version,
                lost: 0,
                is_new: false,
            });
        }
        offer
    }
}
