/// Why the buffer pool refused a call. A refusal changes nothing except a
/// counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The allocation would exceed the budget.
    #[error(
        "no room for a buffer of {requested_bytes} bytes: \
         {used_bytes} of the budget of {budget_bytes} bytes are in use"
    )]
    OverBudget {
        /// The requested length.
        requested_bytes: usize,
        /// The bytes that are charged to the budget now.
        used_bytes: u64,
        /// The budget in bytes.
        budget_bytes: u64,
    },
    /// The length exceeds what any budget would allow.
    #[error("a buffer of {requested_bytes} bytes is longer than the longest possible, {max_bytes}")]
    TooLong {
        /// The requested length.
        requested_bytes: usize,
        /// The maximum length.
        max_bytes: usize,
    },
    /// The length is 0; a buffer that is held only by its address needs at
    /// least one byte.
    #[error("a buffer without bytes has no address to find it by")]
    Empty,
    /// The address is outside the pool's memory.
    #[error("address {address:#x} is not in this pool")]
    Foreign {
        /// The given address.
        address: usize,
    },
    /// The address is in the pool's memory, but no live buffer has a byte
    /// there: it was released, truncated, or is still being written.
    #[error("no live buffer has a byte at {address:#x}")]
    NotLive {
        /// The given address.
        address: usize,
    },
    /// The buffer is live, but has no pin by address to remove.
    #[error("the buffer at {address:#x} is not pinned by address")]
    NotPinned {
        /// The given address.
        address: usize,
    },
    /// The buffer's counter of pins or handles is full.
    #[error("the buffer at {address:#x} has too many pins")]
    TooManyPins {
        /// The given address.
        address: usize,
    },
    /// The bytes are not part of the buffer to be sliced.
    #[error("the bytes are not part of the buffer")]
    NotInside,
    /// The pool has the maximum number of owners.
    #[error("a pool can tell 65535 owners apart, and has that many")]
    TooManyOwners,
    /// The operating system refused to reserve the pool's address space.
    #[error("the address space for a budget of {budget_bytes} bytes can not be reserved")]
    NoAddressSpace {
        /// The requested budget.
        budget_bytes: u64,
    },
}
