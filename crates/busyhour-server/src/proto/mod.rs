//! Wire protocols as pure functions of bytes: no socket, clock or thread inside.

pub mod sip;
pub mod stun;
pub mod iax2;
