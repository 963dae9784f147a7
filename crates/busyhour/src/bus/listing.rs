//! The subscriptions of a topic: what they are, and that they come and go.

use super::{
    Event, SubscriptionEvent, delivery::Subscriber, panics::Panics, topic_inner::TopicInner,
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
        for (subscriber, is_lagging) in self.listed() {
            let known = panics.catch(|| subscriber.stats());
            stats.extend(known.map(|known| SubscriptionStats {
                topic: self.name().to_owned(),
                is_lagging,
                ..known
            }));
            panics.drop(subscriber);
        }
        stats.sort_by_key(|stats| Reverse(stats.queued_len));
        stats
    }

    /// Every subscriber once, and whether it lags in any shard.
    fn listed(&self) -> Vec<(Arc<Subscriber<E>>, bool)> {
        let mut places = HashMap::new();
        let mut all: Vec<(Arc<Subscriber<E>>, bool)> = Vec::new();
        for shard in self.shards() {
            for (subscriber, is_lagging) in shard.subscribers_with_lag() {
                let place = *(places.entry(Arc::as_ptr(&subscriber))).or_insert(all.len());
                match all.get_mut(place) {
                    Some((_, lags)) => *lags |= is_lagging,
                    None => all.push((subscriber, is_lagging)),
                }
            }
        }
        all
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
