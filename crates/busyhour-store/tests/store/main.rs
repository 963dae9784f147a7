//! The stores: what was acknowledged is there again, whatever became of the
//! server in between. Those that need a database server are tests of the server.

#[path = "../../../busyhour-server/tests/support/random.rs"]
mod random;
mod sample;
mod simulated;
mod sqlite;
mod suite;
#[path = "../../../busyhour-server/tests/support/waiting.rs"]
mod waiting;

/// What the tests of the server use as well.
mod support {
    pub(crate) use super::{random, waiting::wait_until};
}
