//! The real program: its commands, its configuration, and what it does with files and signals.

#[path = "../support/mod.rs"]
mod support;
mod database;
mod device;
mod expiry;
mod lifecycle;
mod mistakes;
mod packaging;
mod pipes;
mod reference;
mod tokens;
mod workers;
