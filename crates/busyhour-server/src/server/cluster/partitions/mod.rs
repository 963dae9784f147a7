//! What partitions have comes into memory, and leaves it.

pub(super) mod partition_inbox;
mod partition_loader;
