//! Performance Co-Pilot: its tools see the server, the server reads its daemon and its archives.

#[path = "../../../busyhour-pcp/tests/archive/maker.rs"]
#[allow(dead_code)] // others use the rest
mod maker;
#[path = "../../../busyhour-pcp/tests/archive/pmcd.rs"]
#[allow(dead_code)] // others use the rest
mod pmcd;
#[path = "../support/mod.rs"]
mod support;
mod archives;
mod pmcd_source;
mod tools;

use support::ports;
