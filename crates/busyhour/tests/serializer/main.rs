//! What serializers promise.

mod corners;
mod exclusive;
mod executor;
mod order;
mod room;
mod stats;
mod template;
