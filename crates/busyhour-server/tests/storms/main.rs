//! The load tool, by `busyhour storm` against real servers.

#[path = "../support/mod.rs"]
mod support;
mod calls;
mod iax2;
mod watchers;
