//! What the operator allows.

/// What a device has to prove, and the bounds of one table of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether a device must prove that it receives at its address.
    pub call_tokens: CallTokens,
    /// Anybody may register without a password, by the operator's explicit choice.
    pub is_open: bool,
    /// Calls at a time, of all tables of a server.
    pub calls_max: usize,
    /// Calls at a time from one IPv4 address or IPv6 network of 64 bits.
    pub calls_per_source_max: usize,
    /// Ended calls whose late duplicates are still recognised.
    pub records_max: usize,
}

/// Whether a call needs a call token (Asterisk's security note AST-2009-006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallTokens {
    /// Yes: a device that does not know call tokens is refused.
    #[default]
    Required,
    /// Only of devices that say they know of them.
    Optional,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            call_tokens: CallTokens::Required,
            is_open: false,
            calls_max: 65_536,
            calls_per_source_max: 4_096,
            records_max: 65_536,
        }
    }
}
