//! How much of a message is read before it is refused.

/// Bounds on one message, so that a parse costs a bounded time and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whole message in bytes; never above 65,535, the largest offset the
    /// header index can hold.
    pub message_bytes: usize,
    /// One header line with its folded continuations, in bytes.
    pub line_bytes: usize,
    /// Header lines; never above 250, what the header index can number.
    pub headers: usize,
    /// Body in bytes.
    pub body_bytes: usize,
}

impl Default for Limits {
    /// A full datagram, lines of 8 KiB, 128 headers.
    fn default() -> Self {
        Self {
            message_bytes: u16::MAX as usize,
            line_bytes: 8 * 1024,
            headers: 128,
            body_bytes: u16::MAX as usize,
        }
    }
}
