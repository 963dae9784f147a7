//! Watchers: subscriptions to the state of a device, and the NOTIFYs they get
//! (RFC 6665, presence RFC 3856, dialog RFC 4235).
//!
//! Everything here is pure. A [`Subscription`] hears of requests, responses,
//! states and the time, and is asked what to send ([`Subscription::poll`]) and
//! when to be asked again ([`Subscription::deadline`]).
//!
//! At most one NOTIFY of a subscription is on its way. While it is, newer
//! states replace each other, and the last one follows as soon as the watcher
//! has answered: so a watcher hears states in order, and always the last one.

mod policy;
mod state;
mod package;
mod xml;
mod pidf;
mod dialog_info;
mod subscribe;
mod dialog;
mod subscription;
mod outstanding;
mod answer;

pub use answer::write_accepted;
pub use dialog::Dialog;
pub use package::Package;
pub use policy::Policy;
pub use state::{DeviceState, Reachable};
pub use subscribe::Subscribe;
pub use subscription::{End, Subscription, Transmission};
