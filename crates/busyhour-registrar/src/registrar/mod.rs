//! The registrar: which contacts an address of record has, and until when
//! (RFC 3261 §10.3).

mod policy;
mod advertised;
mod contact;
mod binding;
mod refusal;
mod domain;
mod address;
mod outbound;
mod probes;
mod registration;
mod sips;
mod bindings;
mod update;
mod removal;
mod answer;
mod date;
mod iax2;

pub(crate) use address::datagram_address;
pub use address::{address_of_record, numeric_address, user_of};
pub use advertised::{Advertised, NotAdvertised, NotSubnet, Subnet};
pub use answer::{ALLOW_EVENTS, CONTACTS_LEN_MAX, DATAGRAM_LEN_MAX, write_answer, write_refusal};
pub use binding::{Binding, BindingChange, BindingId, EndedBinding, Lease, Now};
pub use bindings::{Bindings, Expired, REMOVED_FOR, Restored};
pub use contact::{Contact, ContactParts, Reach};
pub use date::HttpDate;
pub use domain::{Domains, Tenant, UserNames};
pub use iax2::Iax2Registration;
pub use outbound::{Extensions, FLOW_TIMER_S, FlowKey, SILENCE_MAX};
pub use policy::{RegistrationPolicy, granted_seconds, seconds};
pub use probes::{Pace, Probe, Probes};
pub use refusal::{Refusal, decoded_body};
pub(crate) use registration::check_require_beside;
pub use registration::{
    ContactRequest, EVENTLIST, RECIPIENT_LIST, Registration, RequestedContact, SUPPORTED,
    check_require,
};
pub use update::{Tally, Update};
