use super::Topic;
use crate::{
    bus::{Event, topic_inner::TopicInner},
    stats::{SubscriptionStats, TopicStats},
    sync::{Mutex, lock},
};
use std::{
    cmp::Reverse,
    sync::{Arc, Weak},
};

/// A list of topics whose statistics are read together.
///
/// It does not keep a topic alive: a dropped topic leaves the list.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{Event, Registry, Topic};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let registry = Registry::default();
/// let ticks = Topic::<Tick>::builder("ticks").registry(&registry).build();
/// assert_eq!(registry.stats()[0].name, "ticks");
/// drop(ticks);
/// assert!(registry.stats().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<Sources>>);

#[derive(Default)]
struct Sources {
    topics: Vec<Weak<dyn Source>>,
    /// The streams of a topic that is added end at once.
    ends_streams: bool,
}

/// A topic of any event type.
trait Source: Send + Sync {
    fn stats(&self) -> TopicStats;
    fn subscriptions(&self) -> Vec<SubscriptionStats>;
    fn end_streams(&self);
}

impl<E: Event> Source for TopicInner<E> {
    fn stats(&self) -> TopicStats {
        self.stats()
    }

    fn subscriptions(&self) -> Vec<SubscriptionStats> {
        self.subscriptions()
    }

    fn end_streams(&self) {
        self.end_streams();
    }
}

impl Registry {
    /// The statistics of every topic, by name.
    pub fn stats(&self) -> Vec<TopicStats> {
        let mut stats: Vec<TopicStats> = self.alive().iter().map(|topic| topic.stats()).collect();
        stats.sort_by(|one, other| one.name.cmp(&other.name));
        stats
    }

    /// The subscriptions of every topic; see [`Topic::subscriptions`].
    pub fn subscriptions(&self) -> Vec<SubscriptionStats> {
        let topics = self.alive();
        let all = topics.iter().flat_map(|topic| topic.subscriptions());
        let mut all: Vec<SubscriptionStats> = all.collect();
        all.sort_by_key(|stats| Reverse(stats.queued_len));
        all
    }

    /// Ends the streams of every topic, also of those that are added later.
    pub(crate) fn end_streams(&self) {
        lock(&self.0).ends_streams = true;
        self.alive().iter().for_each(|topic| topic.end_streams());
    }

    pub(in crate::bus) fn add<E: Event>(&self, topic: &Topic<E>) {
        let source: Weak<TopicInner<E>> = Arc::downgrade(&topic.0);
        let mut sources = lock(&self.0);
        sources.topics.retain(|topic| topic.strong_count() > 0);
        sources.topics.push(source);
        if sources.ends_streams {
            drop(sources);
            topic.close();
        }
    }

    fn alive(&self) -> Vec<Arc<dyn Source>> {
        let topics = &mut lock(&self.0).topics;
        topics.retain(|topic| topic.strong_count() > 0);
        topics.iter().filter_map(Weak::upgrade).collect()
    }
}
