use super::bh_topic;
use crate::{
    edge::{Callback, Data, Failure, Out, Outcome, copy_text, guard, live, quietly},
    result::bh_result,
    runtime::bh_runtime,
};
use busyhour::stats::{SubscriptionFilter, SubscriptionStats, TopicStats};
use std::ffi::{CString, c_char, c_void};

/// A subscription: what it wants, what waits for it, and what it has received.
#[repr(C)]
pub struct bh_subscription_stats {
    /// The name of its topic.
    pub topic: *const c_char,
    /// Its name; empty if it has none.
    pub name: *const c_char,
    /// The name of its executor; empty if that has none, or if the publisher's thread delivers.
    pub executor: *const c_char,
    /// What it wants.
    pub filter: bh_filter,
    /// Not 0: it lags, and will be brought up to date from the cache.
    pub is_lagging: u32,
    /// How many events may wait.
    pub capacity: u64,
    /// Events that wait, with those that a turn has taken already.
    pub queued_len: u64,
    /// What its callback has received.
    pub delivered: u64,
    /// Deliveries that it has lost.
    pub lost: u64,
}

/// What a subscription wants.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_filter {
    /// Every event.
    BH_FILTER_ALL = 0,
    /// The events of one key.
    BH_FILTER_KEY = 1,
    /// The events that a pattern or a predicate accepts.
    BH_FILTER_PREDICATE = 2,
    /// The events with one value of an attribute.
    BH_FILTER_ATTRIBUTE = 3,
}

/// What a topic holds now and what it has done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_topic_stats {
    /// Keys with a last event.
    pub cached_count: u64,
    /// Subscriptions.
    pub subscriber_count: u64,
    /// Events published.
    pub published: u64,
    /// Events refused because of `key_limit`.
    pub refused: u64,
    /// Deliveries into the queues of subscriptions, with replays.
    pub delivered: u64,
    /// Deliveries lost to full queues.
    pub lost: u64,
    /// How often a publisher did not wait for room, because that would never have ended.
    pub refused_waits: u64,
    /// Deliveries that a newer event of the same key replaced.
    pub conflated: u64,
    /// Subscriptions that lag, once for each shard of the topic in which they do.
    pub lagging_count: u64,
    /// The longest queue of a subscription.
    pub slowest_queued_len: u64,
    /// Replaced events that are kept because a lookup may still be reading them.
    pub retired_count: u64,
}

/// Is told of one subscription; a result of 0 ends the list. The struct and its texts are valid until it returns.
pub type bh_subscription_each_fn = Option<
    unsafe extern "C-unwind" fn(stats: *const bh_subscription_stats, data: *mut c_void) -> i32,
>;

type SubscriptionCall =
    unsafe extern "C-unwind" fn(*const bh_subscription_stats, *mut c_void) -> i32;

/// Tells `each` of the subscriptions of a topic, that with the longest queue first, on this thread, until it returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_subscriptions(
    topic: *const bh_topic,
    each: bh_subscription_each_fn,
    data: *mut c_void,
) -> bh_result {
    tell(each, data, || {
        Ok(live(topic, "topic")?.topic.subscriptions())
    })
}

/// Tells `each` of the subscriptions of all topics of a runtime, as `bh_topic_subscriptions`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_subscriptions(
    runtime: *const bh_runtime,
    each: bh_subscription_each_fn,
    data: *mut c_void,
) -> bh_result {
    tell(each, data, || {
        Ok(live(runtime, "runtime")?.runtime.subscriptions())
    })
}

/// What the topic holds now and what it has done.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_get_stats(
    topic: *const bh_topic,
    out: *mut bh_topic_stats,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write((&live(topic, "topic")?.topic.stats()).into());
        Ok(())
    })
}

/// Copies the name to `text`, which has room for `size` bytes, and ends it with a NUL; returns the length of the whole name.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_name(topic: *const bh_topic, text: *mut c_char, size: usize) -> usize {
    quietly(0, || {
        let name = live(topic, "topic").map_or("", |topic| topic.topic.name());
        copy_text(name, text, size)
    })
}

fn tell(
    each: bh_subscription_each_fn,
    data: *mut c_void,
    list: impl FnOnce() -> Outcome<Vec<SubscriptionStats>>,
) -> bh_result {
    guard(|| {
        let each: Callback<SubscriptionCall> =
            Callback::new(each, Data::new(data, None)).ok_or_else(|| Failure::null("each"))?;
        let _ended = list()?.iter().any(|stats| !told(&each, stats));
        Ok(())
    })
}

/// Whether the list goes on.
fn told(each: &Callback<SubscriptionCall>, stats: &SubscriptionStats) -> bool {
    let texts = [&stats.topic, &stats.name, &stats.executor];
    let [topic, name, executor] = texts.map(|text| CString::new(text.as_str()).unwrap_or_default());
    let seen = bh_subscription_stats {
        topic: topic.as_ptr(),
        name: name.as_ptr(),
        executor: executor.as_ptr(),
        filter: stats.filter.into(),
        is_lagging: u32::from(stats.is_lagging),
        capacity: stats.capacity,
        queued_len: stats.queued_len,
        delivered: stats.delivered,
        lost: stats.lost,
    };
    each.call_with(&raw const seen) != 0
}

impl From<SubscriptionFilter> for bh_filter {
    fn from(filter: SubscriptionFilter) -> Self {
        match filter {
            SubscriptionFilter::All => Self::BH_FILTER_ALL,
            SubscriptionFilter::Key => Self::BH_FILTER_KEY,
            SubscriptionFilter::Predicate => Self::BH_FILTER_PREDICATE,
            SubscriptionFilter::Attribute => Self::BH_FILTER_ATTRIBUTE,
        }
    }
}

impl From<&TopicStats> for bh_topic_stats {
    fn from(stats: &TopicStats) -> Self {
        Self {
            cached_count: stats.cached_count,
            subscriber_count: stats.subscriber_count,
            published: stats.published,
            refused: stats.refused,
            delivered: stats.delivered,
            lost: stats.lost,
            refused_waits: stats.refused_waits,
            conflated: stats.conflated,
            lagging_count: stats.lagging_count,
            slowest_queued_len: stats.slowest_queued_len,
            retired_count: stats.retired_count,
        }
    }
}
