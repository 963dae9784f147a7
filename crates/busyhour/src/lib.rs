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
// docs.rs names the feature of each item.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
// What the parts share has items that a part alone does not use.
#![cfg_attr(
    not(feature = "runtime"),
    allow(dead_code, unused_imports, unused_macros)
)]
#![deny(rustdoc::broken_intra_doc_links)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

#[cfg(all(feature = "buffer", not(unix)))]
compile_error!(
    "busyhour: the feature `buffer`, which `runtime` and the default features have, reserves memory as only Unix systems do. \
     Here the other parts can be had: `default-features = false, features = [\"bus\", \"keyed\", \"heap\"]`"
);

#[cfg(all(feature = "buffer", unix))]
pub mod buffer;
#[cfg(feature = "pool")]
pub mod task;
#[cfg(feature = "run-queue")]
pub mod run_queue;
#[cfg(feature = "pool")]
pub mod pool;
#[cfg(feature = "serializer")]
pub mod serializer;
#[cfg(feature = "keyed")]
pub mod keyed;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(feature = "timer")]
pub mod timer;
#[cfg(feature = "heap")]
pub mod heap;
#[cfg(all(feature = "runtime", unix))]
pub mod runtime;
pub mod clock;
#[cfg(any(feature = "buffer", feature = "pool"))]
pub mod stats;
#[cfg(all(test, not(any(loom, shuttle))))]
mod cost;
#[cfg(feature = "run-queue")]
mod ring;
mod sync;
#[cfg(all(feature = "tracing", feature = "pool"))]
mod trace;

/// The example of each README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So do those of the book's part about the library.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/book/src/library/tour.md")]
#[doc = include_str!("../../../docs/book/src/library/orders.md")]
#[doc = include_str!("../../../docs/book/src/library/presence.md")]
#[doc = include_str!("../../../docs/book/src/library/retry.md")]
#[doc = include_str!("../../../docs/book/src/library/overload.md")]
#[doc = include_str!("../../../docs/book/src/library/simulation.md")]
#[doc = include_str!("../../../docs/book/src/library/from-tokio.md")]
#[doc = include_str!("../../../docs/book/src/library/from-actors.md")]
#[doc = include_str!("../../../docs/book/src/library/from-akka.md")]
#[doc = include_str!("../../../docs/book/src/library/from-go.md")]
#[cfg_attr(
    all(feature = "metrics", feature = "tracing"),
    doc = include_str!("../../../docs/book/src/library/observing.md")
)]
struct Book;
