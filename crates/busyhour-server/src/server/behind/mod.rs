//! Registration at a server behind this one (`[[registrar]]`): the short refreshes of telephones
//! end here, and one long registration of each address of record goes on.
//!
//! **What is promised.** A telephone gets its 200 when its binding is durable here, as always; it
//! does not wait for the registrar behind, which is told within moments. If that one refuses the
//! address, the telephone's next refresh is refused as well (403), and so is a telephone that comes
//! within a minute after. If it could not be told for longer than `keep_seconds`, refreshes get 503.
//! So no telephone believes for longer than its own registration lasts that it is registered where
//! it is not.
//!
//! **Order.** A device tells under its lock that it has its first contact, or none any more, so the
//! [table](busyhour_registrar::upstream::UpstreamTable) knows what is so. Everything else of one
//! registrar is done on one serializer: what is stored and what is sent keep the order in which the
//! table decided. A refresh that changes neither takes no lock here: it loads one flag.
//!
//! **Crashes.** Whether an address has a telephone follows from its bindings, so it needs no row:
//! it is durable in the transaction of the binding itself. What the registrar behind may have is
//! stored before a request leaves.

pub(super) mod upstream;
mod register_request;
mod registrar_config;
mod upstream_stats;

pub(crate) use registrar_config::mistakes as registrar_mistakes;
pub use registrar_config::{RegistrarConfig, RegistrarMistake};
pub use upstream_stats::{RegistrarView, UpstreamStats};
