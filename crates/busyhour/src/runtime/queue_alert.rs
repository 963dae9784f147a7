//! Queue alerts as events.

use std::sync::Arc;

use super::{Components, Runtime};
use crate::{
    bus::{Event, Topic},
    serializer::{self, QueueAlert, SerializerId, Watermark},
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
    /// ```
    /// use busyhour::{runtime::Runtime, serializer::Watermark};
    ///
    /// let runtime = Runtime::simulated(1);
    /// let calls = runtime.serializer("calls").watermarks(0, 3).build().unwrap();
    /// (0..3).for_each(|_| calls.push(|| ()).unwrap());
    /// let alert = runtime.queue_alerts().get(&"calls".into()).unwrap();
    /// assert_eq!((alert.mark, alert.queued_len), (Watermark::High, 3));
    /// ```
    pub fn queue_alerts(&self) -> &Topic<QueueAlert> {
        &self.components.queue_alerts
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
                publish(&components, alert);
            }
        }))
    }
}

fn publish(components: &Components, alert: &QueueAlert) {
    let topic = &components.queue_alerts;
    let _nobody_may_listen = topic.publish(alert.clone());
    if alert.serializer.number > 0 && alert.mark == Watermark::Low {
        // Hooks are told one alert of a serializer at a time, so no newer alert
        // of it can be removed here.
        let _nobody_may_listen = topic.remove(&alert.serializer);
    }
}
