//! A task: a closure small enough to live inside the queue slot.
