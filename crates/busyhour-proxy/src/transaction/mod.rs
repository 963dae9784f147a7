//! Client and server transactions (RFC 3261 §17, RFC 6026), each a state machine that
//! holds no message: it says what is to be sent again, and when it is over.

mod timers;
mod retransmission;
mod invite_client;
mod non_invite_client;
mod invite_server;
mod non_invite_server;
mod client;
mod server;

pub(crate) use client::{ClientReaction, ClientTimeout, ClientTransaction};
pub(crate) use non_invite_client::NonInviteClient;
pub(crate) use server::{ServerTimeout, ServerTransaction};
pub use timers::TransactionTimers;
