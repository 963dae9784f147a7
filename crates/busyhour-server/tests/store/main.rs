//! PostgreSQL: what was acknowledged is there again, whatever became of the
//! server or the database in between.

#[path = "../support/mod.rs"]
mod support;

mod postgres;
mod postgres_silent;
mod postgres_tls;
mod postgres_turn;
mod proxy;
#[path = "../../../busyhour-store/tests/store/sample.rs"]
mod sample;
#[path = "../../../busyhour-store/tests/store/suite.rs"]
mod suite;
