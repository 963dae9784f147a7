//! The subscriptions of a topic: what they are, and that they come and go.

use super::{
    Event, SubscriptionEvent, delivery::Subscriber, index::SubscriberLag, panics::Panics,
    shard::Shard, topic_inner::TopicInner,
};
use crate::stats::SubscriptionStats;
use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

impl<E: Event> TopicInner<E> {
    /// What the subscriptions are and hold, the longest queue first.
    pub(super) fn subscriptions(&self) -> Vec<SubscriptionStats> {
        let mut panics = Panics::default();
        let mut stats: Vec<SubscriptionStats> = Vec::new();
        for listed in self.listed() {
            let SubscriberLag {
                subscriber,
                is_lagging,
                unread,
            } = listed;
            let known = panics.catch(|| subscriber.stats());
            stats.extend(known.map(|known| SubscriptionStats {
                topic: self.name().to_owned(),
                is_lagging,
                queued_len: known.queued_len + unread,
                ..known
            }));
            panics.drop(subscriber);
        }
        stats.sort_by_key(|stats| Reverse(stats.queued_len));
        stats
    }

    /// Every subscriber once, and how far it lags in all shards.
    fn listed(&self) -> Vec<SubscriberLag<E>> {
        Self::together(self.shards().iter().map(Shard::subscribers_with_lag))
    }

    /// Those of all shards, each once.
    fn together(shards: impl Iterator<Item = Vec<SubscriberLag<E>>>) -> Vec<SubscriberLag<E>> {
        let mut places = HashMap::new();
        let mut all: Vec<SubscriberLag<E>> = Vec::new();
        for shard in shards {
            for listed in shard {
                let place = *(places.entry(Arc::as_ptr(&listed.subscriber))).or_insert(all.len());
                match all.get_mut(place) {
                    Some(known) => {
                        known.is_lagging |= listed.is_lagging;
                        known.unread += listed.unread;
                    }
                    None => all.push(listed),
                }
            }
        }
        all
    }

    /// The subscription for which most waits, with its name; `None` if nothing waits.
    pub(super) fn slowest(&self) -> Option<(u64, String)> {
        let waiting = |it: &SubscriberLag<E>| it.subscriber.mailbox().len() as u64 + it.unread;
        let listed = Self::together(self.shards().iter().map(Shard::waiting_subscribers));
        let slowest = listed.iter().max_by_key(|it| waiting(it));
        let slowest = slowest.map(|it| (waiting(it), String::from(it.subscriber.name())));
        let mut panics = Panics::default();
        // One that has ended meanwhile drops what its user gave it.
        listed.into_iter().for_each(|it| panics.drop(it.subscriber));
        slowest.filter(|(len, _)| *len > 0)
    }

    /// How much of the cache a reader has not read yet.
    pub(super) fn unread_len(&self, subscriber: &Arc<Subscriber<E>>) -> usize {
        if !subscriber.mailbox().reads_cache() {
            return 0;
        }
        let unread = self.shards().iter().map(|it| it.unread_len(subscriber));
        unread.sum::<u64>() as usize
    }

    /// Announces a subscription that has started; returns its number, if it is
    /// announced.
    pub(super) fn announce(&self, subscriber: &Subscriber<E>) -> Option<u64> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let announcements = self.announcements()?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let _nobody_may_listen = announcements.publish(SubscriptionEvent {
            id,
            topic: self.name().into(),
            name: subscriber.name().into(),
            filter: subscriber.filter(),
        });
        Some(id)
    }

    /// Announces that it has ended.
    pub(super) fn withdraw(&self, id: u64) {
        if let Some(announcements) = self.announcements() {
            let _nobody_may_listen = announcements.remove(&id);
        }
    }
}
