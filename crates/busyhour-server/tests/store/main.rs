//! PostgreSQL: acknowledged changes are there again, whatever happened to the
//! server or the database meanwhile.

#[path = "../support/mod.rs"]
mod support;

#[path = "../../../busyhour-store/tests/store/call_records.rs"]
mod call_records;
mod across_nodes;
mod cluster;
mod connections;
mod direct_paths;
mod followed_settings;
mod live_states;
mod mixed_versions;
mod moved_requests;
mod moved_watchers;
#[path = "../../../busyhour-cluster/tests/nats/server.rs"]
#[allow(dead_code)] // it is for the tests of NATS
mod nats_server;
mod postgres;
mod postgres_ownership;
mod postgres_schema;
mod postgres_silent;
mod postgres_tls;
mod postgres_turn;
mod proxy;
#[path = "../../../busyhour-store/tests/store/sample.rs"]
mod sample;
mod shared_settings;
#[path = "../../../busyhour-store/tests/store/suite.rs"]
mod suite;

use support::{ports, wait_until};
