//! The event server from datagram to datagram, in virtual time: message
//! waiting, publications, hints, and what watchers are told of each.

mod hints;
mod lossy;
mod messages;
mod publish;
mod registration;
mod rules;
mod world;
