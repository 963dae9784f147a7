//! The event packages, from received to sent datagrams, in virtual time:
//! message waiting, publications, hints, and what watchers of each are sent.

mod compressed;
#[path = "../support/exchange.rs"]
mod exchange;
mod hints;
mod lists;
#[path = "../../../busyhour-registrar/tests/watch/panel.rs"]
mod panel;
mod lossy;
mod messages;
mod presence;
mod publish;
#[path = "../sim/random.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod random;
mod registration;
mod rules;
mod watcher_info;
mod world;
