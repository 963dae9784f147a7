//! The proxy by the rules of RFC 3261 §16 and §17, and of the RFCs that correct them.

mod support;
mod validation;
mod forwarding;
mod responses;
mod cancel;
mod connections;
mod fallbacks;
mod late;
mod transactions;
mod limits;
mod session;
mod torture;
mod simulation;
#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod properties;

#[test]
fn any_bytes_are_forwarded_soundly_or_not_at_all() {
    any_bytes::hold_for("proxy_message", 4_000, properties::hold);
}
