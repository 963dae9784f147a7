//! A message read in place: its headers as offsets, access to them by type, its
//! body in plain, and the frames of a stream.

pub(in crate::sip) mod message;
pub(in crate::sip) mod message_index;
pub(in crate::sip) mod header_index;
pub(in crate::sip) mod access;
pub(in crate::sip) mod contacts;
pub(in crate::sip) mod content;
pub(in crate::sip) mod vias;
pub(in crate::sip) mod frame;
pub(in crate::sip) mod validate;
pub(in crate::sip) mod unread_request;
pub(in crate::sip) mod refusal_ack;
