//! Typed topics with a last-value cache, replay without a gap, and bounded,
//! serial delivery.
//!
//! A [`Topic`] carries the events of one type. Each event has a key; a cached
//! topic keeps the last event of each key, so that a subscriber who comes late
//! can be told the state of everything first ([`SubscriptionBuilder::replay`])
//! and every change after that.
//!
//! # Guarantees
//!
//! - *Order by key.* The events of one key reach every subscriber, and the
//!   cache, in one and the same order.
//! - *No gap and no double.* A subscription with replay hears of each cached
//!   key once and then of every later change, whatever is published meanwhile.
//! - *Every loss is counted and announced.* A queue is bounded; what its
//!   declared [`Overflow`](crate::task::Overflow) costs is returned to the
//!   publisher in [`Published::lost`] and told to the subscriber as
//!   [`Delivery::Lost`]. With replay the subscription is then brought up to
//!   date from the cache.
//! - *No later callback.* When [`Subscription::unsubscribe`] has returned, the
//!   callback never runs again.
//!
//! There is no order between events of different keys.
//!
//! # Examples
//!
//! ```
//! use busyhour::bus::{Delivery, Event, Name, Topic};
//! use std::sync::mpsc;
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct DeviceState { device: Name, in_use: bool }
//!
//! impl Event for DeviceState {
//!     type Key = Name;
//!     fn key(&self) -> &Name { &self.device }
//! }
//!
//! let states = Topic::builder("device-state").cached().build();
//! let device = Name::new("SIP/door");
//! _ = states.publish(DeviceState { device: device.clone(), in_use: true });
//!
//! let (sender, receiver) = mpsc::channel();
//! let watcher = states.subscribe().key(device.clone()).replay().start(move |delivery| {
//!     if let Delivery::Event(state, _) = delivery {
//!         sender.send(state.in_use).unwrap();
//!     }
//! });
//! _ = states.publish(DeviceState { device: device.clone(), in_use: false });
//! assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [true, false]);
//! assert!(!states.get(&device).unwrap().in_use);
//! watcher.unsubscribe();
//! ```

mod topic;
mod topic_inner;
mod message;
mod name;
mod record;
mod shard;
mod cache;
mod nodes;
mod index;
mod delivery;
mod publish_options;
mod publish_result;
mod panics;
#[cfg(all(test, not(any(loom, shuttle))))]
mod cost;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, shuttle))]
mod schedules;

pub use delivery::{Attribute, EventStream, Subscription, SubscriptionBuilder};
pub use message::Message;
pub use name::Name;
pub use nodes::NodeId;
pub use record::{BitField, DecodeError, Element, ElementId, Limits, Record, Value};
pub use topic::{
    Forward, ForwardError, Published, Registry, Removed, Router, Topic, TopicBuilder, TtlError,
};

use std::hash::Hash;

/// Something that can be published on a [`Topic`].
///
/// `Clone`, `Drop`, [`key`](Self::key), and the key's `Eq`, `Hash`, `Clone` and
/// `Drop` run under no lock: they may use the bus, and what they cost is paid
/// by the thread that called. A panic in them passes to the caller; so does the
/// bus's own if they change the topic's very key whenever they are asked. The topic
/// keeps an event behind a shared pointer, so it copies none to deliver it; but
/// one of at most 64 bytes that needs no drop is cloned when it is published, if
/// the topic has subscriptions, and the first of them gets the clone.
///
/// # Examples
///
/// ```
/// use busyhour::bus::Event;
///
/// #[derive(Clone)]
/// struct Waiting { mailbox: u32, messages: u32 }
///
/// impl Event for Waiting {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.mailbox }
/// }
///
/// let waiting = Waiting { mailbox: 7, messages: 2 };
/// assert_eq!((waiting.key(), waiting.messages), (&7, 2));
/// ```
pub trait Event: Clone + Send + Sync + 'static {
    /// What the event is about: one last value is kept, and one order, per key.
    type Key: Eq + Hash + Clone + Send + Sync + 'static;

    /// The key of this event; the same at every call.
    fn key(&self) -> &Self::Key;
}

/// What a subscription hears.
#[derive(Debug)]
pub enum Delivery<'a, E: Event> {
    /// An event, replayed from the cache or published, and the node it started
    /// on: who published it, and for one state made of several nodes' by a
    /// [fold](TopicBuilder::fold), who spoke last.
    Event(&'a E, NodeId),
    /// The key was removed and has no last value any more; and the node that
    /// removed it.
    Removed(&'a E::Key, NodeId),
    /// Everything the cache held has been told: after the replay, and each
    /// time a subscription that lagged is up to date again.
    Replayed,
    /// So many deliveries were lost since the last notice of this kind.
    Lost(u64),
}
