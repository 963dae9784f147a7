//! DNS: who asks it, what is kept of its answers, and who waits for them.
//!
//! A lookup is everything that one next hop needs to know (RFC 3263): some questions, one
//! after the other. Its state is what it has learned so far; each answer lets the pure
//! `busyhour_proxy::dns::locate` go one step on. A question that two lookups have is asked
//! once. The lock is held for such a step, and never while somebody is asked or told.

mod resolver;
pub(super) mod lookups;

pub use resolver::{AnswerListener, NoResolver, Resolver};
