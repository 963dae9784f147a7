/// Why the buffer pool refused. A refusal changes nothing but a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The allocation would exceed the budget.
    #[error(
        "no room for a buffer of {requested_bytes} bytes: \
         {used_bytes} of the budget of {budget_bytes} bytes are in use"
    )]
    OverBudget {
        /// The length asked for.
        requested_bytes: usize,
        /// What is charged to the budget now.
        used_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
    /// No budget would allow the allocation.
    #[error("a buffer of {requested_bytes} bytes is longer than the longest possible, {max_bytes}")]
    TooLong {
        /// The length asked for.
        requested_bytes: usize,
        /// The longest length.
        max_bytes: usize,
    },
    /// A buffer that is known by address alone needs at least one byte.
    #[error("a buffer without bytes has no address to find it by")]
    Empty,
    /// The address is outside the pool's memory.
    #[error("address {address:#x} is not in this pool")]
    Foreign {
        /// The address asked for.
        address: usize,
    },
    /// The address is in the pool's memory, and no live buffer has a byte there:
    /// it was released, cut off, or is still being written.
    #[error("no live buffer has a byte at {address:#x}")]
    NotLive {
        /// The address asked for.
        address: usize,
    },
    /// The buffer is live, but has no pin by address that could be taken off.
    #[error("the buffer at {address:#x} is not pinned by address")]
    NotPinned {
        /// The address asked for.
        address: usize,
    },
    /// The buffer's counter of pins or handles is full.
    #[error("the buffer at {address:#x} has too many pins")]
    TooManyPins {
        /// The address asked for.
        address: usize,
    },
    /// The bytes are not part of the buffer that should be sliced.
    #[error("the bytes are not part of the buffer")]
    NotInside,
    /// All numbers for owners are given out.
    #[error("a pool can tell 65535 owners apart, and has that many")]
    TooManyOwners,
    /// The operating system refused to reserve the pool's address space.
    #[error("the address space for a budget of {budget_bytes} bytes can not be reserved")]
    NoAddressSpace {
        /// The budget asked for.
        budget_bytes: u64,
    },
}
