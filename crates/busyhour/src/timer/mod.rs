//! Timers: a pure queue and a service that delivers into serializers.
//!
//! [`Queue`] keeps values in the exact order of their deadlines and takes `now`
//! from its owner.

mod queue;
mod slots;

pub use queue::Queue;
pub use slots::Handle;
