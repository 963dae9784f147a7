//! Typed topics with a last-value cache, replay without a gap, and bounded,
//! serial delivery.
//!
//! A [`Topic`] carries events of one type. Each event has a key. A cached topic
//! keeps the last event of each key, so that a late subscriber can first
//! receive the current state of every key ([`SubscriptionBuilder::replay`]) and
//! then every change.
//!
//! # Guarantees
//!
//! - *Order by key.* All subscribers, and the cache, receive the events of one
//!   key in the same order.
//! - *No gap and no double.* A subscription with replay receives each cached
//!   key once and then every later change, whatever is published meanwhile.
//! - *Every loss is counted and announced.* A queue is bounded; its declared
//!   [`Overflow`](crate::task::Overflow) decides what is lost when it is full.
//!   The publisher gets the number of losses in [`Published::lost`], and the
//!   subscriber gets it as [`Delivery::Lost`]. A subscription with replay is
//!   then brought up to date from the cache.
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
mod packing;
mod publish_all_if;
mod publish_if;
mod publish_options;
mod publish_result;
mod subscription_event;
mod listing;
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
pub use packing::Packing;
pub use record::{
    BitField, DecodeError, Element, ElementId, Limits, Record, RecordKey, RecordPattern, Value,
};
pub use subscription_event::SubscriptionEvent;
pub use topic::{
    Forward, ForwardError, Published, PublishedAll, Registry, Removed, Topic, TopicBuilder,
    TtlError, Watch, WatchClosed,
};

use std::hash::Hash;

/// Something that can be published on a [`Topic`].
///
/// `Clone`, `Drop`, [`key`](Self::key), and the key's `Eq`, `Hash`, `Clone` and
/// `Drop` run under no lock. They may use the bus, and the calling thread pays
/// for what they cost. A panic in them goes on to the caller. The bus itself
/// panics if this code changes the very key it is asked about, every time it is
/// asked. The topic keeps an event behind a shared pointer, so it does not copy
/// events to deliver them. There is one exception: an event of at most 64 bytes
/// that needs no drop is cloned when it is published, if the topic has
/// subscriptions, and the first of them gets the clone.
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
    /// The type of the key: the topic keeps one last value per key, and one
    /// order per key.
    type Key: Eq + Hash + Clone + Send + Sync + 'static;

    /// How events that are a few numbers are kept beside the keys of a cache; `None` for all others.
    const PACKING: Option<Packing<Self>> = None;

    /// The key of this event; must be the same at every call.
    fn key(&self) -> &Self::Key;
}

/// What a subscription receives.
///
/// ```
/// use busyhour::bus::{Delivery, Event, Topic};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let ticks = Topic::<Tick>::builder("ticks").cached().build();
/// let _subscription = ticks.subscribe().replay().start(|delivery| match delivery {
///     Delivery::Event(tick, _origin) => println!("{} is new", tick.0),
///     Delivery::Removed(key, _origin) => println!("{key} is gone"),
///     Delivery::Replayed => println!("that was all there is"),
///     Delivery::Lost(count) => println!("{count} did not come"),
/// });
/// _ = ticks.publish(Tick(1));
/// ```
#[derive(Debug)]
pub enum Delivery<'a, E: Event> {
    /// An event, replayed from the cache or published, and its origin: the node
    /// that published it. A state that a [fold](TopicBuilder::fold) made of
    /// several nodes' states has the node that published last.
    Event(&'a E, NodeId),
    /// The key was removed and has no last value any more; the node is the one
    /// that removed it.
    Removed(&'a E::Key, NodeId),
    /// Everything in the cache has been delivered: after the replay, and each
    /// time a lagging subscription is up to date again.
    Replayed,
    /// This many deliveries were lost since the last `Lost`.
    Lost(u64),
}
