//! Requests and responses, written in one pass.

pub(in crate::sip) mod top_via;
pub(in crate::sip) mod response;
pub(in crate::sip) mod refusal;
pub(in crate::sip) mod request;
pub(in crate::sip) mod forward;
pub(in crate::sip) mod hop;
