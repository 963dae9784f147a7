//! The proxy by the rules of RFC 3261 §16 and §17, and of the RFCs that correct them.

mod support;
mod validation;
mod forwarding;
mod responses;
mod cancel;
mod fallbacks;
mod transactions;
mod limits;
mod torture;
mod simulation;
