//! Tests of the stores: every acknowledged change is there again, whatever happened
//! to the server meanwhile. Tests that need a database server are among the tests of
//! the server.

#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod backup;
mod bindings;
mod call_records;
mod journal;
#[path = "../model/journal.rs"]
mod journal_model;
#[path = "../../../busyhour-server/tests/support/random.rs"]
mod random;
mod sample;
mod simulated;
mod sqlite;
mod suite;
#[path = "../../../busyhour-server/tests/support/waiting.rs"]
mod waiting;

/// Helpers that the tests of the server use as well.
mod support {
    pub(crate) use super::{random, waiting::wait_until};
}
