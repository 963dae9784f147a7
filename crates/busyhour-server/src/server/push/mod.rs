//! Waking telephones that sleep (RFC 8599): a telephone names the service that wakes it in its
//! contact, with `pn-provider`, `pn-prid` and `pn-param`. When it is called, the service is asked
//! to wake it, the call waits, and goes to the contact that the telephone registers then, beside
//! those that ring already.
//!
//! A telephone is awake if its connection stands, or if it has registered within the last
//! `awake_seconds` (10 unless set); then nobody is woken. Meanwhile the caller gets a 100 and nothing more: a 180 would say
//! that a telephone rings (RFC 3261 §21.1.2), and a 183 that there is progress to tell; neither is
//! true before the telephone has the INVITE.

pub(super) mod pushes;
mod access_token;
mod push_config;
mod push_request;
mod push_target;
mod service_token;
mod wake_budgets;

pub use push_config::{AppleKey, PushConfig, PushMistake, PushService, ServiceAccount};
pub use pushes::PushStats;
