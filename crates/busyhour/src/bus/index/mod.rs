//! The index that finds the subscriptions that want a change.

pub(in crate::bus) mod shard_subscribers;
mod attributed;

pub(in crate::bus) use shard_subscribers::{ReadChanges, ShardSubscribers, SubscriberLag};
