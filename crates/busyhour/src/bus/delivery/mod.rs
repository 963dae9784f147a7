//! The path of events from a subscription's mailbox to its callback or stream.

mod subscription;
mod stream;
mod attribute;
mod answers;
mod mailbox;
mod queue;
mod offer;
mod item;
mod items;
mod change;
mod lag;
mod consumer;
mod quantum;
mod room_waiters;
mod adaptive_spin;

pub(in crate::bus) use answers::Answers;
pub use attribute::Attribute;
pub(in crate::bus) use attribute::Probe;
pub(in crate::bus) use change::{ChangeKind, ShardChange};
pub(in crate::bus) use consumer::Subscriber;
pub(in crate::bus) use item::{Item, Queued};
pub(in crate::bus) use items::Items;
pub(in crate::bus) use lag::{Lag, ToFetch};
pub(in crate::bus) use offer::Offer;
pub(in crate::bus) use room_waiters::RoomWait;
pub use stream::EventStream;
pub use subscription::{Subscription, SubscriptionBuilder};
