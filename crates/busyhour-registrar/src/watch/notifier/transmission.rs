//! What a subscription sends.

use busyhour::buffer::Buffer;

/// There is no buffer for a NOTIFY. It is owed still, and tried again at
/// `Subscription::deadline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no buffer for a NOTIFY")]
pub struct NoBuffer;

/// A datagram to be sent.
#[derive(Debug, Clone)]
pub struct Transmission {
    /// A whole NOTIFY.
    pub datagram: Buffer,
    /// It was sent before.
    pub is_again: bool,
}
