/// Statistics of a table of keys.
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

/// A table of keys, for lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KeyTableStats {
    /// The name of the template of its serializers.
    pub name: String,
    /// How many keys there may be.
    pub max_keys: u64,
    /// What there is, and what has been done.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub keys: KeyedStats,
}
