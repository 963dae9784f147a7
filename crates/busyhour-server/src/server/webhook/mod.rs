//! Webhooks: what changes, posted to URLs.
//!
//! Each webhook reads the stream of changes as any other reader does, in a task of the pool, and
//! posts one batch after the other: the next one leaves when the one before was taken, so what is
//! told of one subject comes in its order. While a batch is under way or waits for its next
//! attempt, changes wait where they wait for every reader: 1,024 in its queue, and then among the
//! last 16,384 that are kept. What is not kept any more is lost, counted, and told in the next
//! batch. So a receiver that is slow, or dead, takes the same memory as one that reads, and holds
//! up nobody.

pub(super) mod webhooks;
mod attempts;
mod batch;
mod delivery;
mod secret;
mod view;
mod webhook_config;

pub use secret::WebhookSecret;
pub use view::{WebhookStats, WebhookTestResult, WebhookView};
pub use webhook_config::{WebhookConfig, WebhookEntry, WebhookMistake};
pub use webhooks::WebhookRefusal;
