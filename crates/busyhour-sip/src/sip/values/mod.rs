//! What stands in a header: a URI, parameters, an address, a Via, …, each
//! read from its text.

pub(in crate::sip) mod uri;
pub(in crate::sip) mod uri_compare;
pub(in crate::sip) mod params;
pub(in crate::sip) mod address;
pub(in crate::sip) mod contact;
pub(in crate::sip) mod via_params;
pub(in crate::sip) mod via;
pub(in crate::sip) mod cseq;
pub(in crate::sip) mod event;
pub(in crate::sip) mod media;
pub(in crate::sip) mod digest;
