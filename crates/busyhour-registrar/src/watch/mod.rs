//! Watchers: subscriptions to the state of a device, and the NOTIFYs they get
//! (RFC 6665, presence RFC 3856, dialog RFC 4235, message waiting RFC 3842,
//! registration RFC 3680); and what devices publish about themselves (RFC 3903).
//!
//! Everything here is pure. [`Publications`] are the soft state of one device; a
//! [`Subscription`] takes requests, responses, states and the time, and tells what to
//! send ([`Subscription::poll`]) and when to poll again ([`Subscription::deadline`]).
//!
//! At most one NOTIFY of a subscription is on its way. While it is, newer states
//! replace each other, and the last one follows as soon as the watcher has answered,
//! though not sooner than [`WatchPolicy::notify_interval`] allows: so a watcher
//! receives states in order, and always the last one.

mod policy;
mod line;
mod message_summary;
mod state;
mod package;
mod xml;
mod pidf;
mod dialog_info;
mod reginfo;
mod elements;
mod document;
mod publish;
mod publications;
mod subscribe;
mod next_hop;
mod dialog;
mod subscription;
mod outstanding;
mod stored;
mod answer;

pub use answer::write_accepted;
pub use dialog::Dialog;
pub use document::Document;
pub use elements::Elements;
pub use line::LineState;
pub use message_summary::{Mailbox, MessageCounts, MessageSummary};
pub use package::Package;
pub use policy::WatchPolicy;
pub use publications::{
    EndedPublications, Granted, Keep, Plan, Publications, PublishStep, Published, Restorable,
};
pub use publish::{Publish, Unreadable, write_published};
pub use reginfo::{Registered, RegistrationState};
pub use state::{DeviceState, ExtensionState, Reachable, State, Told};
pub use stored::NotRestored;
pub use subscribe::Subscribe;
pub use subscription::{End, NoBuffer, Subscription, Transmission};
