//! What the library itself publishes, as records: alerts of queues, and the subscriptions of topics.

use super::{
    bh_topic,
    event::{EventKey, EventSort, bh_event},
};
use crate::{
    edge::{Out, give, guard, live},
    result::bh_result,
    runtime::bh_runtime,
};
use busyhour::{
    bus::{Delivery, ElementId, Record, RecordKey, Subscription, SubscriptionEvent, Topic, Value},
    runtime::Runtime,
    serializer::{QueueAlert, Watermark},
};
use std::{any::Any, sync::Arc};

/// The elements of an alert: a record of sort 1, whose subject is the name of the serializer, or that of its template, " #" and its
/// number. Numbers that need more than 32 bits are 2^32 - 1.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_alert_element {
    /// U32; not 0: too many tasks wait, 0: few enough again.
    BH_ALERT_IS_HIGH = 1,
    /// U32: how many tasks waited.
    BH_ALERT_QUEUED_LEN = 2,
    /// U32: how long the first of them had waited, in microseconds.
    BH_ALERT_OLDEST_WAITING_US = 3,
    /// U32: alerts before this one that were dropped because a hook had not returned.
    BH_ALERT_MISSED_BEFORE = 4,
    /// Text: the name of the serializer, or that of its template.
    BH_ALERT_NAME = 5,
    /// U32: tells the serializers of a template apart; none if it has a name of its own.
    BH_ALERT_NUMBER = 6,
    /// Text: the label of the task that was running; none if it has none.
    BH_ALERT_RUNNING = 7,
}

/// The elements of a record about a subscription: sort 1, and the subject is its number, which no other one of the process gets.
/// The key is removed when the subscription ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_announcement_element {
    /// Text: the name of the topic.
    BH_ANNOUNCEMENT_TOPIC = 1,
    /// Text: the name of the subscription; empty if it has none.
    BH_ANNOUNCEMENT_NAME = 2,
    /// U32: what it wants, a `bh_filter`.
    BH_ANNOUNCEMENT_FILTER = 3,
}

/// Keeps what fills a topic of notices: as long as a handle, a subscription or a forward of the topic.
pub(super) type Source = Arc<dyn Any + Send + Sync>;

const SORT: u16 = 1;

/// The alerts of a runtime's serializers (`bh_runtime_serializer`, `bh_runtime_template`), as a topic of records with the last one
/// of each: see `bh_alert_element`. That of a template's serializer is removed when few enough tasks wait again. The thread that
/// causes an alert publishes it. Each call makes a topic of its own.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_alerts(
    runtime: *const bh_runtime,
    out: *mut *mut bh_topic,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let runtime = &live(runtime, "runtime")?.runtime;
        let topic = Topic::builder("serializer.alerts").cached().build();
        let source = alerts_into(runtime, topic.clone());
        give(
            out,
            bh_topic::filled(topic, EventSort::Records, true, Some(Arc::new(source))),
        );
        Ok(())
    })
}

fn alerts_into(runtime: &Runtime, topic: Topic<bh_event>) -> Subscription<QueueAlert> {
    let alerts = runtime.queue_alerts().subscribe().replay();
    alerts.start(move |delivery| match delivery {
        Delivery::Event(alert, _) => publish(&topic, &record_of_alert(alert)),
        Delivery::Removed(serializer, _) => remove(&topic, serializer.to_string()),
        _ => {}
    })
}

/// A topic that announces its subscriptions on `topic`, and what has to live as long as it does.
pub(super) fn announcements(topic: Topic<bh_event>) -> (Topic<SubscriptionEvent>, Source) {
    let announcements = Topic::<SubscriptionEvent>::builder("").cached().build();
    let source = announcements
        .subscribe()
        .start(move |delivery| match delivery {
            Delivery::Event(started, _) => publish(&topic, &record_of_subscription(started)),
            Delivery::Removed(id, _) => remove(&topic, id.to_string()),
            _ => {}
        });
    (announcements, Arc::new(source))
}

fn record_of_alert(alert: &QueueAlert) -> Record {
    use bh_alert_element::*;
    let mut record = Record::new(SORT, alert.serializer.to_string());
    let mut number = |element: bh_alert_element, value: u64| {
        let value = Value::U32(u32::try_from(value).unwrap_or(u32::MAX));
        record.set(ElementId(element as u16), value);
    };
    number(BH_ALERT_IS_HIGH, u64::from(alert.mark == Watermark::High));
    number(BH_ALERT_QUEUED_LEN, alert.queued_len as u64);
    number(BH_ALERT_OLDEST_WAITING_US, alert.oldest_waiting_ns / 1000);
    number(BH_ALERT_MISSED_BEFORE, alert.missed_before);
    if alert.serializer.number > 0 {
        number(BH_ALERT_NUMBER, alert.serializer.number);
    }
    set_text(&mut record, BH_ALERT_NAME as u16, &alert.serializer.name);
    if let Some(label) = alert.running {
        set_text(&mut record, BH_ALERT_RUNNING as u16, label);
    }
    record
}

fn record_of_subscription(started: &SubscriptionEvent) -> Record {
    use bh_announcement_element::*;
    let mut record = Record::new(SORT, started.id.to_string());
    let filter: super::listing::bh_filter = started.filter.into();
    let filter = Value::U32(filter as u32);
    record.set(ElementId(BH_ANNOUNCEMENT_FILTER as u16), filter);
    set_text(&mut record, BH_ANNOUNCEMENT_TOPIC as u16, &started.topic);
    set_text(&mut record, BH_ANNOUNCEMENT_NAME as u16, &started.name);
    record
}

fn set_text(record: &mut Record, element: u16, text: &str) {
    record.set(ElementId(element), Value::Text(text.into()));
}

fn publish(topic: &Topic<bh_event>, record: &Record) {
    let _nobody_may_listen = topic.publish(bh_event::of(record.clone()));
}

fn remove(topic: &Topic<bh_event>, subject: String) {
    let key = EventKey::Record(RecordKey::new(SORT, subject));
    let _nobody_may_listen = topic.remove(&key);
}
