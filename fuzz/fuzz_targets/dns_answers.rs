//! Any bytes as what DNS answers: a name leads only where it may, after few questions; and kept
//! answers are those that a naive cache would keep.
#![no_main]

#[path = "../../crates/busyhour-proxy/tests/dns/any_answers.rs"]
mod any_answers;
#[path = "../../crates/busyhour-proxy/tests/dns/zone.rs"]
mod zone;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_answers::hold(bytes));
