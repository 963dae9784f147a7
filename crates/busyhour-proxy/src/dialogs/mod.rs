#![doc = include_str!("README.md")]

mod policy;
mod party;
mod route_token;
mod tag;
mod side;
mod hold;
mod session_timer;
mod dialog;
mod record;
mod call;
mod actions;
mod probe;
mod stats;
mod table;
mod setup;
mod within;
mod expiry;

pub use actions::{CallEvent, DialogActions, EndedFlow, ReplacedDialog};
pub use party::{KnownSender, Party, Role};
pub use policy::DialogPolicy;
pub use probe::{Probe, ProbeId, ProbeOutcome};
pub use record::{CallOutcome, CallRecord, LiveCall, MediaFailure, MediaSides};
pub use route_token::{RouteToken, RouteTokens, TokenRefusal};
pub use setup::CallHandle;
pub use stats::DialogStats;
pub use table::Dialogs;
pub use within::{Carried, DialogRequest};

/// The longest Call-ID of a call that is tracked, in bytes. Refuse an INVITE with a longer one: it
/// would be in no list, have no record and count against no bound.
pub const CALL_ID_LEN_MAX: usize = 256;
/// The longest tag of a caller that is tracked, in bytes; the same holds for it. That of a callee
/// may be longer, and is then kept in part.
pub const TAG_LEN_MAX: usize = 128;
/// The longest URI that is kept of a party, in bytes; a longer one is left out.
pub const URI_LEN_MAX: usize = 256;
/// The longest display name that is kept of a party, in bytes; a longer one is left out.
pub const DISPLAY_LEN_MAX: usize = 64;
