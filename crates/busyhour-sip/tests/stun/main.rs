//! STUN on the SIP port, with any bytes.

#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod properties;

#[test]
fn the_shared_property_holds_for_any_bytes() {
    any_bytes::hold_for("stun_message", 50_000, properties::hold);
}
