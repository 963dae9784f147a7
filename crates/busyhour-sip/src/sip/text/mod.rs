//! Characters in and out: the lexer, digits, and where what is written goes.

pub(in crate::sip) mod lex;
pub(in crate::sip) mod digits;
pub(in crate::sip) mod write;
