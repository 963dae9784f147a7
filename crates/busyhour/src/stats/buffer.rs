use serde::Serialize;

/// What the buffer pool holds and has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BufferStats {
    /// Buffers handed out and not yet released.
    pub live_count: u64,
    /// Bytes held by live buffers, rounding included.
    pub live_bytes: u64,
    /// Bytes charged to the budget: live ones, and what threads keep for their
    /// next allocations.
    pub used_bytes: u64,
    /// The highest `used_bytes` ever was.
    pub used_bytes_high_water: u64,
    /// The budget in bytes; allocation beyond it is refused.
    pub budget_bytes: u64,
    /// Bytes that have memory behind them: live, kept, or idle for the next burst.
    pub resident_bytes: u64,
    /// Buffers handed out since the start.
    pub allocated: u64,
    /// Allocations refused because of the budget.
    pub refused: u64,
    /// Pins and unpins refused because the address was not a live, pinned buffer's.
    pub foreign_addresses: u64,
}
