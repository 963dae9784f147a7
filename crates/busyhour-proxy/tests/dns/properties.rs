//! Whatever DNS answers, a name is located after few questions, and nothing is tried twice.

use crate::{any_answers, any_bytes};

#[test]
fn any_answers_are_used_soundly() {
    any_bytes::hold_for("dns_answers", 20_000, any_answers::hold);
}
