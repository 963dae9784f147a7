//! Queue alerts as events.

use super::{Components, Runtime};
use crate::{
    bus::{Event, Registry, Topic},
    serializer::{self, QueueAlert, SerializerId, Watermark},
    sync::{Mutex, lock},
};
use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, OnceLock},
};

/// The key is the serializer: its name, and its number if a template made it.
impl Event for QueueAlert {
    type Key = SerializerId;

    fn key(&self) -> &SerializerId {
        &self.serializer
    }
}

impl Runtime {
    /// The topic `serializer.alerts`: every crossing of a watermark by a
    /// serializer of this runtime; the last one of each named serializer is
    /// cached. The alert of a serializer of a
    /// [template](serializer::SerializerTemplate) is cached under its number
    /// while the serializer is high: after `Low` the key is removed, since any
    /// number of such serializers come and go.
    ///
    /// The topic is made by the first call, with the alerts until then in its
    /// cache. [`stats`](Self::stats) lists it from then on.
    ///
    /// ```
    /// use busyhour::{runtime::Runtime, serializer::Watermark};
    ///
    /// let runtime = Runtime::simulated(1);
    /// let calls = runtime.serializer("calls").watermarks(0, 3).build().unwrap();
    /// (0..3).for_each(|_| calls.push(|| ()).unwrap());
    /// let alert = runtime.queue_alerts().get(&"calls".into()).unwrap();
    /// assert_eq!((alert.mark, alert.queued_len), (Watermark::High, 3));
    /// ```
    // A program that does not call this has no code of a topic of alerts, which would be a quarter
    // of the library's in a build without optimisation.
    #[inline]
    pub fn queue_alerts(&self) -> &Topic<QueueAlert> {
        let Components { alerts, topics, .. } = &*self.components;
        match alerts.topic.get() {
            Some(topic) => topic.topic(),
            None => alerts.begin(new_topic, topics),
        }
    }

    /// Options of a new serializer named `name`. If it has
    /// [watermarks](serializer::SerializerBuilder::watermarks), each crossing
    /// is published on [`queue_alerts`](Self::queue_alerts).
    pub fn serializer(&self, name: &str) -> serializer::SerializerBuilder {
        let components = Arc::downgrade(&self.components);
        let options = self.pool().serializer(name);
        options.send_alerts_to(Arc::new(move |alert: &QueueAlert| {
            // The hook must not hold the topic, since the topic's subscribers
            // hold serializers.
            if let Some(components) = components.upgrade() {
                components.alerts.publish(alert);
            }
        }))
    }
}

/// The alerts of a runtime's serializers: until somebody wants the topic, the last one of each.
#[derive(Default)]
pub(super) struct Alerts {
    topic: OnceLock<Box<dyn AlertTopic>>,
    kept: Mutex<KeptAlerts>,
}

impl Alerts {
    /// Makes the topic and fills its cache. Nobody can have subscribed to it yet, so no code of the
    /// user runs under the lock.
    fn begin(
        &self,
        make: fn(&Registry) -> Box<dyn AlertTopic>,
        topics: &Registry,
    ) -> &Topic<QueueAlert> {
        let mut kept = lock(&self.kept);
        let topic = self.topic.get_or_init(|| {
            let topic = make(topics);
            for alert in mem::take(&mut kept.0).into_values() {
                topic.publish(&alert);
            }
            topic
        });
        topic.topic()
    }

    fn publish(&self, alert: &QueueAlert) {
        if self.topic.get().is_none() {
            let mut kept = lock(&self.kept);
            // Made by who had the lock.
            if self.topic.get().is_none() {
                kept.keep(alert);
                return;
            }
        }
        if let Some(topic) = self.topic.get() {
            topic.publish(alert);
        }
    }
}

/// By the serializer's name and number.
#[derive(Default)]
struct KeptAlerts(BTreeMap<(Arc<str>, u64), QueueAlert>);

impl KeptAlerts {
    fn keep(&mut self, alert: &QueueAlert) {
        let SerializerId { name, number } = &alert.serializer;
        let key = (Arc::clone(name), *number);
        match is_over(alert) {
            true => _ = self.0.remove(&key),
            false => _ = self.0.insert(key, alert.clone()),
        }
    }
}

/// The topic, behind a pointer so that the library itself has no code of it.
trait AlertTopic: Send + Sync {
    fn topic(&self) -> &Topic<QueueAlert>;
    fn publish(&self, alert: &QueueAlert);
}

impl AlertTopic for Topic<QueueAlert> {
    #[inline]
    fn topic(&self) -> &Topic<QueueAlert> {
        self
    }

    #[inline]
    fn publish(&self, alert: &QueueAlert) {
        let _nobody_may_listen = Topic::publish(self, alert.clone());
        if is_over(alert) {
            // Hooks are told one alert of a serializer at a time, so no newer alert
            // of it can be removed here.
            let _nobody_may_listen = self.remove(&alert.serializer);
        }
    }
}

/// Whether nothing is to be kept of the serializer: it is one of a template's, and low again.
fn is_over(alert: &QueueAlert) -> bool {
    alert.serializer.number > 0 && alert.mark == Watermark::Low
}

#[inline]
fn new_topic(topics: &Registry) -> Box<dyn AlertTopic> {
    let topic = Topic::builder("serializer.alerts").cached();
    Box::new(topic.registry(topics).build())
}
