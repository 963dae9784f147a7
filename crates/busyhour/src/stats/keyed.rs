/// Statistics of a [`Keyed`](crate::keyed::Keyed).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KeyedStats {
    /// Keys that there are.
    pub key_count: u64,
    /// Keys that were made.
    pub created: u64,
    /// Keys that were evicted.
    pub evicted: u64,
    /// Pushes that were refused because there were too many keys.
    pub refused: u64,
}
