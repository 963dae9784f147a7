//! Copies of SIP messages for people: traces of one device, and a capture server.

mod masking;
mod hep_sender;
mod trace_filter;
pub(super) mod message_tap;
pub(super) mod trace;
