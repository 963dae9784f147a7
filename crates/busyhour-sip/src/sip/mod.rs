//! SIP messages (RFC 3261), read in place and written in one pass.

mod error;
mod limits;
mod name;
mod method;
mod status;
mod text;
mod values;
mod read;
mod build;

pub use build::forward::{LastRoute, RequestEdit, ResponseEdit};
pub use build::request::RequestBuilder;
pub use build::response::ResponseBuilder;
pub use error::ParseError;
pub use limits::Limits;
pub use method::Method;
pub use name::HeaderName;
pub use read::access::{Elements, Headers};
pub use read::contacts::{ContactIter, Contacts};
pub use read::frame::{Frame, StreamFramer};
pub use read::message::{Message, Start};
pub use read::message_index::MessageIndex;
pub use read::validate::Essentials;
pub use read::vias::ViaIter;
pub use status::Status;
pub use text::digits::{push_socket_address, write_hex};
pub use text::lex::{ListIter, unescape};
pub use text::write::{HeaderValue, Output, SliceOutput};
pub use values::address::Address;
pub use values::contact::{Contact, Quality};
pub use values::cseq::CSeq;
pub use values::digest::{DigestChallenge, DigestCredentials};
pub use values::event::{Event, SubscriptionState};
pub use values::media::MediaRange;
pub use values::params::{ParamIter, Params};
pub use values::uri::{Host, Scheme, SipUri, Uri};
pub use values::via::{RequestedPort, Via};
