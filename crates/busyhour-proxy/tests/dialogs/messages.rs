//! Any messages in any order.

use crate::{any_bytes, message_properties};

#[test]
fn any_messages_leave_nothing() {
    any_bytes::hold_for("dialog_messages", 3_000, message_properties::hold);
}
