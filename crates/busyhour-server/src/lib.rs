#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod console;
mod json;
mod lock;
mod percent_encoding;
pub mod server;
pub mod config;
pub mod net;
pub mod web;
pub mod logs;
pub mod cli;
