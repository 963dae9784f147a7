//! Tests of the stores: every acknowledged change is there again, whatever happened
//! to the server meanwhile. Tests that need a database server are among the tests of
//! the server.

mod backup;
mod call_records;
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
