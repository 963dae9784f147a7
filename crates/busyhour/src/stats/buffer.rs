/// Statistics of the buffer pool: what it holds now and what it has done.
///
/// ```
/// use busyhour::buffer::BufferPool;
///
/// let buffers = BufferPool::builder().build()?;
/// let held = buffers.copy_from(b"REGISTER")?;
/// assert_eq!((buffers.stats().live_count, buffers.stats().allocated), (1, 1));
/// drop(held);
/// assert_eq!(buffers.stats().live_count, 0);
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BufferStats {
    /// Buffers handed out and not yet released.
    pub live_count: u64,
    /// Bytes held by live buffers, rounding included.
    pub live_bytes: u64,
    /// Bytes charged to the budget: live ones, and what threads keep for their
    /// next allocations.
    pub used_bytes: u64,
    /// The highest value of `used_bytes`.
    pub used_bytes_high_water: u64,
    /// The budget in bytes; allocation beyond it is refused.
    pub budget_bytes: u64,
    /// Bytes backed by memory: live, kept, or idle for the next burst.
    pub resident_bytes: u64,
    /// Buffers handed out since the start.
    pub allocated: u64,
    /// Those of them that [`find`](crate::buffer::BufferPool::find) handed out,
    /// held by a pin.
    pub found: u64,
    /// Buffers to which a pin by address was added, each counted once. To count
    /// every pin and unpin would add a twentieth to their instructions.
    pub pinned: u64,
    /// Allocations refused because of the budget.
    pub refused: u64,
    /// Pins and unpins refused because the address was not that of a live,
    /// pinned buffer.
    pub foreign_addresses: u64,
}
