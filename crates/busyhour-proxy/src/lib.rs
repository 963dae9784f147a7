#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod keyed_hash;
mod transaction;
mod routing;
mod proxy;
pub mod dialogs;
pub mod dns;

pub use proxy::*;
pub use routing::{Identity, LoopDetection, RequestRefusal, Routing};
pub use transaction::TransactionTimers;
