//! The event state compositor (RFC 3903): what a PUBLISH asks, and the
//! publications that are kept.

pub(in crate::watch) mod publish;
mod ended_dialogs;
mod removed_publications;
pub(in crate::watch) mod publications;
