//! Wire protocols as pure functions of bytes: no socket, clock or thread inside.

pub mod iax2;
