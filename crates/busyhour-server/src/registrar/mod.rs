//! The registrar: which contacts an address of record has, and until when
//! (RFC 3261 §10.3).
//!
//! Everything here is pure. [`Registration::read`] reads a REGISTER,
//! [`Bindings::update`] turns it into the next set of bindings and the changes
//! to be stored, and [`write_answer`] writes the 200 that may leave once they
//! are. Time comes in as a [`Now`]; nothing goes out but values.
//!
//! A binding that its device takes back is not forgotten at once: it stays as
//! a removed lease for [`REMOVED_FOR`], so that a late duplicate of the
//! registration that made it is recognised by its CSeq and revives nothing.

mod policy;
mod advertised;
mod contact;
mod binding;
mod refusal;
mod address;
mod outbound;
mod probes;
mod registration;
mod sips;
mod bindings;
mod update;
mod answer;
mod date;
mod iax2;

pub use address::{Domains, address_of_record};
pub(crate) use address::{datagram_address, user_of};
pub use advertised::{Advertised, NotAdvertised};
pub use answer::{ALLOW_EVENTS, DATAGRAM_LEN_MAX, write_answer, write_refusal};
pub use binding::{Binding, BindingChange, BindingId, EndedBinding, Lease, Now};
pub use bindings::{Bindings, Expired, REMOVED_FOR, Restored};
pub use contact::{Contact, ContactParts};
pub use date::HttpDate;
pub use iax2::Iax2Registration;
pub use outbound::{Extensions, FLOW_TIMER_S, FlowKey, SILENCE_MAX};
pub use policy::{Policy, granted_seconds, seconds};
pub use probes::{Probe, Probes};
pub use refusal::Refusal;
pub use registration::{ContactRequest, Registration, RequestedContact, SUPPORTED, check_require};
pub use update::{Tally, Update};
