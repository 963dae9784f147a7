//! SIP messages (RFC 3261), read in place and written in one pass.
//!
//! [`Message::parse`] checks the frame of a datagram (start line, header
//! lines, body length) and remembers where each header lies; nothing is copied
//! and a usual request needs no allocation. What a header *means* is read when
//! it is asked for, so a registrar pays only for the headers it looks at:
//!
//! ```
//! use busyhour_server::proto::sip::{Contacts, Message, Method, ResponseBuilder, Status};
//!
//! let datagram = b"REGISTER sip:example.org SIP/2.0\r\n\
//!     Via: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bK1;rport\r\n\
//!     From: <sip:alice@example.org>;tag=a1\r\n\
//!     To: <sip:alice@example.org>\r\n\
//!     Call-ID: 1@192.0.2.7\r\n\
//!     CSeq: 7 REGISTER\r\n\
//!     m: <sip:alice@192.0.2.7>;expires=60\r\n\
//!     l: 0\r\n\r\n";
//! let request = Message::parse(datagram)?;
//! assert_eq!(request.method(), Some(Method::Register));
//! assert_eq!(request.cseq()?.number, 7);
//! let Contacts::List(contacts) = request.contacts()? else { panic!("a list") };
//! let contact = contacts.into_iter().next().expect("one contact");
//! assert_eq!(contact?.expires(), Some(60));
//!
//! let mut answer = Vec::new();
//! let source = "192.0.2.7:40000".parse().expect("an address");
//! ResponseBuilder::new(&mut answer, &request, Status::OK, Some(source))
//!     .to_tag("b2")
//!     .finish();
//! assert!(answer.starts_with(b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.7:5060"));
//! # Ok::<(), busyhour_server::proto::sip::ParseError>(())
//! ```
//!
//! What was found goes to another thread as a [`MessageIndex`], which borrows nothing.
//!
//! A message that [`Message::parse`] refuses can often still be answered:
//! [`Message::salvage`] reads what a 400 needs.

mod error;
mod limits;
mod lex;
mod name;
mod method;
mod message;
mod message_index;
mod header_index;
mod access;
mod frame;
mod validate;
mod uri;
mod uri_compare;
mod params;
mod digits;
mod address;
mod contact;
mod via;
mod cseq;
mod event;
mod media;
mod digest;
mod status;
mod write;
mod response;
mod request;

pub use access::{Contacts, Elements, Headers};
pub use address::Address;
pub use contact::{Contact, ContactIter, Quality};
pub use cseq::CSeq;
pub use digest::{DigestChallenge, DigestCredentials};
pub(crate) use digits::write_hex;
pub use error::ParseError;
pub use event::{Event, SubscriptionState};
pub use frame::{Frame, StreamFramer};
pub use lex::{ListIter, unescape};
pub use limits::Limits;
pub use media::MediaRange;
pub use message::{Message, Start};
pub use message_index::MessageIndex;
pub use method::Method;
pub use name::HeaderName;
pub use params::{ParamIter, Params};
pub use request::RequestBuilder;
pub use response::ResponseBuilder;
pub use status::Status;
pub use uri::{Host, Scheme, SipUri, Uri};
pub use validate::Essentials;
pub use via::{RequestedPort, Via, ViaIter};
pub use write::{HeaderValue, Output, SliceOutput};
