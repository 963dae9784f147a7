//! State machines that register and watch: they take times and messages, and
//! return messages.

pub(crate) mod register;
pub(crate) mod pending;
pub(crate) mod machine;
pub(crate) mod engine;
pub(crate) mod iax2_pending;
pub(crate) mod iax2_engine;
pub(crate) mod watch_engine;

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod iax2_engine_tests;
