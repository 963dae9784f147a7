//! **Busyhour: the server core that stays flat through the busy hour.**
//!
//! Timers, ordered task dispatch, an adaptive run queue, an event bus with
//! last-value cache and pinned packet buffers, as one runtime:
//!
//! ```text
//! socket ──► buffer ──► task ──► run queue ──► worker ──► serializer ──► bus topic ──► subscriber's serializer
//!           (pinned)            (adaptive)               (per-key order)  (last value)            ▲
//!                                                                                       timer ────┘
//! ```
//!
//! A packet lands in a pinned [`buffer`] and is parsed in place. The work
//! becomes a [`task`] on the [`serializer`] of its device; a serializer with
//! work waits in a worker's [`run_queue`] until the [`pool`] runs it. The task
//! changes a state on a [`bus`] topic, which keeps the last value by key and
//! tells its subscribers, each on a serializer of its own. A [`timer`] ends it.
//! The [`runtime`] wires them, and can run all of it in virtual time from a
//! seed.
//!
//! ```
//! use std::time::Duration;
//! use busyhour::{bus::{Delivery, Event}, runtime::Runtime};
//!
//! #[derive(Debug, Clone)]
//! struct Presence { device: &'static str, online: bool }
//!
//! impl Event for Presence {
//!     type Key = &'static str;
//!     fn key(&self) -> &&'static str { &self.device }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::simulated(7);
//! let presence = runtime.topic::<Presence>("presence").cached().build();
//! let watcher = runtime.serializer("watcher").build()?;
//! let _subscription = presence.subscribe().replay().on(&watcher).start(|delivery| {
//!     if let Delivery::Event(event, _) = delivery {
//!         println!("{} is {}", event.device, if event.online { "online" } else { "offline" });
//!     }
//! });
//!
//! let device = runtime.serializer("device").build()?;
//! _ = presence.publish(Presence { device: "alice", online: true });
//! let topic = presence.clone();
//! let offline = move || _ = topic.publish(Presence { device: "alice", online: false });
//! runtime.timers().after(Duration::from_secs(3600), &device, offline);
//!
//! let simulation = runtime.simulation().unwrap();
//! simulation.run_for(Duration::from_secs(3601)); // an hour passes at once
//! assert!(!presence.get(&"alice").unwrap().online);
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees of every component: each bounded queue or table documents its
//! bound and counts what it refuses or loses; a panic in a task ends only that
//! task; after unsubscribe or cancel no callback follows. The modules describe
//! further behaviour.
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

pub mod buffer;
pub mod task;
pub mod run_queue;
pub mod pool;
pub mod serializer;
pub mod keyed;
pub mod bus;
pub mod timer;
pub mod heap;
pub mod runtime;
pub mod clock;
pub mod stats;
#[cfg(all(test, not(any(loom, shuttle))))]
mod cost;
mod ring;
mod sync;

/// The example of each README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
struct Readme;
