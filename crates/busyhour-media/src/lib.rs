#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

pub mod bencode;
mod body;
mod command;
mod description;
mod obstacle;
mod passing;
mod relays;
mod relayed_call;
mod table;

pub use description::{DESCRIPTION_BYTES_MAX, Description};
pub use obstacle::Obstacle;
pub use passing::{MediaActions, MediaWish, Outcome, Passing, Ready, Verdict};
pub use relays::{MediaCounters, MediaStats, RelayConfig, RelayState, Relays};
pub use table::MediaTable;
