//! Requests and responses, written in one pass.

pub(in crate::sip) mod response;
pub(in crate::sip) mod request;
