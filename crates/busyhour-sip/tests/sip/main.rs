//! The SIP message layer, tested with the situations of RFC 3261, 3581, 4475
//! and 5118.

mod message;
mod response;
mod forward;
mod uri;
mod torture_valid;
mod torture_invalid;
mod torture_ipv6;
mod content;
mod frame;
mod unread;
mod against_ezk;
#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod properties;
mod seeds;
mod values;
