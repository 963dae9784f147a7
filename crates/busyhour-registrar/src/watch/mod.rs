//! Watchers: subscriptions to the state of a device, and the NOTIFYs they get
//! (RFC 6665, presence RFC 3856, dialog RFC 4235, message waiting RFC 3842,
//! registration RFC 3680), also of lists of resources (RFC 4662, RFC 5367), and who watches
//! (RFC 3857); and what devices publish about themselves (RFC 3903).
//!
//! Everything here is pure. [`Publications`] are the soft state of one device; a
//! [`Subscription`] takes requests, responses, states and the time, and tells what to
//! send ([`Subscription::poll`]) and when to poll again ([`Subscription::deadline`]).
//!
//! At most one NOTIFY of a subscription is on its way. While it is, newer states
//! replace each other, and the last one follows as soon as the watcher has answered,
//! though not sooner than [`notify_interval`](field@WatchPolicy::notify_interval) allows: so a watcher
//! receives states in order, and always the last one.

mod policy;
mod body;
mod stored;
mod list;
mod device_dialogs;
mod compositor;
mod notifier;
mod shared;
mod watcher_list;

pub use body::call_names::{CallNames, DialogIdentity};
pub use body::dialog_element::{
    DialogChange, DialogDirection, DialogEnd, DialogInfo, DialogState, DialogStep,
};
pub use body::document::{Document, Unreadable};
pub use body::elements::Elements;
pub use body::line::LineState;
pub use body::message_summary::{Mailbox, MessageCounts, MessageSummary};
pub use body::package::Package;
pub use body::reginfo::{Registered, RegistrationState};
pub use body::state::{DeviceState, ExtensionState, Published, Reachable, State, Told};
pub use body::watcher_info::{ListedWatcher, WatcherEvent, WatcherInfo};
pub use compositor::publications::{
    EndedPublications, Granted, Keep, Plan, Publications, PublishStep, Restorable,
};
pub use compositor::publish::{Publish, write_published};
pub use device_dialogs::DeviceDialogs;
pub use list::expansion::{Entry, TooManyResources, expand};
pub use list::list_form::ListForm;
pub use list::list_view::RESOURCE_BYTES;
pub use list::recipients::read_recipients;
pub use list::resource_list::{
    ListEntry, ListedResource, ResourceList, ResourceStanding, ResourceStates,
};
pub use notifier::answer::write_accepted;
pub use notifier::dialog::Dialog;
pub use notifier::notify_len::NotifyLen;
pub use notifier::notify_values::End;
pub use notifier::rates::{NotifyRate, NotifyRates};
pub use notifier::subscribe::Subscribe;
pub use notifier::subscription::Subscription;
pub use notifier::transmission::{NoBuffer, Transmission};
pub use policy::WatchPolicy;
pub use stored::{NotRestored, RunNumber};
pub use watcher_list::WatcherList;
