//! Any messages in any order, forwarded by the proxy: nothing panics in the table of
//! dialogs, and nothing is left when nothing more is heard.
#![no_main]

#[path = "../../crates/busyhour-proxy/tests/dialogs/message_properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
