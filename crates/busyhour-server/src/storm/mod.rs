//! `busyhour storm`: the load of the busy hour, made on one thread or a few.
//!
//! ```text
//! pace ──► engine ──► outbox ──► socket     every batch is one system call
//!            ▲  ▲
//!   timers ──┘  └──── inbox  ◄── socket
//! ```
//!
//! The engines, one a protocol, are pure: they take the time and datagrams and
//! give datagrams, so their rules (retransmission as RFC 3261 §17.1.2 has it,
//! digest and call tokens, what counts as an answer) are tested without a socket. The driver moves
//! bytes. Latency runs from the moment a registration was *due*, so a server
//! that stalls the storm can't hide the wait.

mod args;
mod pattern;
mod users;
mod register;
mod pending;
mod ledger;
mod machine;
mod engine;
mod iax2_pending;
mod iax2_engine;
mod tally;
mod pace;
mod batch;
mod socket;
mod driver;
mod watch_engine;
mod watch_driver;
mod journal;
mod process;
mod progress;
mod report;
mod run;

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod iax2_engine_tests;

pub use args::{Kind, Protocol, Storm};
pub use pattern::{Pattern, PatternError};
pub use report::{Report, ServerUse, WatchUse};
pub use run::StormError;
