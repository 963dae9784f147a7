//! The dialogs that pass through a proxy: each rule with its section, a naive model, and
//! whole telephones with loss and crashes.

#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod rig;
mod setup;
mod within;
mod liveness;
mod bounds;
mod route_token;
mod token_properties;
mod messages;
mod message_properties;
mod model;
mod telephones;
