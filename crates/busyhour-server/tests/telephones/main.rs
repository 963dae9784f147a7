//! Telephones and tools of other projects, without a screen: baresip, linphonec,
//! twinkle-console, sipp and sipsak. They register, watch and publish; they call, hear each
//! other, hold, fork and transfer, and a watcher of their dialogs sees each call begin and
//! end.
//!
//! If a machine has only loopback addresses, linphone assumes that there is no network, and
//! sends nothing.

#[path = "../support/mod.rs"]
mod support;

mod baresip;
mod browser;
mod browsing;
mod calling;
mod forking;
mod lamp;
mod linphone;

mod publishing;
mod registering;
mod scenarios;
mod site;
mod tone;
mod transferring;
mod twinkle;
