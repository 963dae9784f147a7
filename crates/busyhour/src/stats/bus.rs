use serde::Serialize;

/// What one topic holds and has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopicStats {
    /// Its unique name.
    pub name: String,
    /// Keys with a cached last value.
    pub cached_count: u64,
    /// Subscriptions.
    pub subscriber_count: u64,
    /// Events published.
    pub published: u64,
    /// Events refused because the cache held as many keys as it may.
    pub refused: u64,
    /// Deliveries put into subscribers' queues, those of replays included.
    pub delivered: u64,
    /// Deliveries lost by a declared overflow policy.
    pub lost: u64,
    /// Times that a publisher did not wait for room in a subscription that makes
    /// publishers wait, because nobody could have ended that: the subscription
    /// waits for the publisher, or its executor runs nothing more. The event was
    /// queued beyond the capacity, or was lost.
    pub refused_waits: u64,
    /// Deliveries replaced by a newer event of the same key before they left.
    pub conflated: u64,
    /// Subscriptions that lag and have yet to be brought up to date, counted
    /// once for each part of the topic in which they do.
    pub lagging_count: u64,
    /// The name of the subscription with the longest queue; empty when no
    /// event waits for any, or when it was given no name.
    pub slowest_subscriber: String,
    /// The length of that queue.
    pub slowest_queued_len: u64,
    /// Replaced events that wait for the end of a lookup that may be reading them.
    pub retired_count: u64,
}
