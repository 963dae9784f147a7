//! Any messages in any order.

#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;

#[test]
fn any_messages_leave_nothing() {
    any_bytes::hold_for("dialog_messages", 3_000, crate::message_properties::hold);
}
