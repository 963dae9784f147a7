use std::fmt;

/// Why the buffer pool refused a call. A refusal changes nothing except a
/// counter.
///
/// ```
/// use busyhour::buffer::{BufferPool, Error};
///
/// let buffers = BufferPool::builder().build()?;
/// let elsewhere = [0_u8; 4];
/// let address = elsewhere.as_ptr().addr();
/// assert_eq!(buffers.pin(elsewhere.as_ptr()), Err(Error::Foreign { address }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The allocation would exceed the budget.
    OverBudget {
        /// The requested length.
        requested_bytes: usize,
        /// The bytes that are charged to the budget now.
        used_bytes: u64,
        /// The budget in bytes.
        budget_bytes: u64,
    },
    /// The length exceeds what any budget would allow.
    TooLong {
        /// The requested length.
        requested_bytes: usize,
        /// The maximum length.
        max_bytes: usize,
    },
    /// The length is 0; a buffer that is held only by its address needs at
    /// least one byte.
    Empty,
    /// The address is outside the pool's memory.
    Foreign {
        /// The given address.
        address: usize,
    },
    /// The address is in the pool's memory, but no live buffer has a byte
    /// there: it was released, truncated, or is still being written.
    NotLive {
        /// The given address.
        address: usize,
    },
    /// The buffer is live, but has no pin by address to remove.
    NotPinned {
        /// The given address.
        address: usize,
    },
    /// The buffer's counter of pins or handles is full.
    TooManyPins {
        /// The given address.
        address: usize,
    },
    /// The bytes are not part of the buffer to be sliced.
    NotInside,
    /// The pool has the maximum number of owners.
    TooManyOwners,
    /// The operating system refused to reserve the pool's address space.
    NoAddressSpace {
        /// The requested budget.
        budget_bytes: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverBudget {
                requested_bytes,
                used_bytes,
                budget_bytes,
            } => write!(
                f,
                "no room for a buffer of {requested_bytes} bytes: {used_bytes} of the budget of {budget_bytes} bytes are in use"
            ),
            Self::TooLong {
                requested_bytes,
                max_bytes,
            } => write!(
                f,
                "a buffer of {requested_bytes} bytes is longer than the longest possible, {max_bytes}"
            ),
            Self::Empty => f.write_str("a buffer without bytes has no address to find it by"),
            Self::Foreign { address } => write!(f, "address {address:#x} is not in this pool"),
            Self::NotLive { address } => write!(f, "no live buffer has a byte at {address:#x}"),
            Self::NotPinned { address } => {
                write!(f, "the buffer at {address:#x} is not pinned by address")
            }
            Self::TooManyPins { address } => {
                write!(f, "the buffer at {address:#x} has too many pins")
            }
            Self::NotInside => f.write_str("the bytes are not part of the buffer"),
            Self::TooManyOwners => {
                f.write_str("a pool can tell 65535 owners apart, and has that many")
            }
            Self::NoAddressSpace { budget_bytes } => write!(
                f,
                "the address space for a budget of {budget_bytes} bytes can not be reserved"
            ),
        }
    }
}

impl std::error::Error for Error {}
