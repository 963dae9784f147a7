//! What partitions have comes into memory, and leaves it; and when this begins.

pub(super) mod partition_inbox;
mod partition_loader;
mod readiness;
pub(super) mod served_partitions;
