//! Agents play devices, watchers, callers and callees. An agent is a pure state machine: it takes
//! the time and datagrams, and returns datagrams.

pub(crate) mod register;
pub(crate) mod pending;
pub(crate) mod registering_agent;
pub(crate) mod sip_agent;
pub(crate) mod iax2_pending;
pub(crate) mod iax2_agent;
pub(crate) mod lamps;
pub(crate) mod watch_agent;
pub(crate) mod call_request;
pub(crate) mod caller_agent;
pub(crate) mod callee_agent;

#[cfg(test)]
mod sip_agent_tests;
#[cfg(test)]
mod iax2_agent_tests;
#[cfg(test)]
mod call_tests;
