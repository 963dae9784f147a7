//! The registrar's side of IAX2 (RFC 5456): calls, pure.

mod policy;
mod keys;
mod request;
mod actions;
mod stats;
mod reply;
mod sources;
mod records;
mod outstanding;
mod call;
mod table;
mod opening;
mod talking;

pub use actions::Actions;
pub use keys::Keys;
pub use policy::{CallTokens, Policy};
pub use records::RECORD_LIFE;
pub use request::{CallId, Credentials, Login, Request, RequestKind, RequestOutcome};
pub use stats::Iax2Stats;
pub use table::Calls;
