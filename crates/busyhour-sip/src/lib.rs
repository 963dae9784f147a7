#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod sip;
pub mod stun;
pub mod sdp;
pub mod session;
pub mod auth;
mod flow;
pub mod hep;

pub use flow::{Flow, Transport, UnknownTransport, source_of};
pub use sip::*;
