/// Statistics of a table of keys.
///
/// ```
/// use busyhour::{keyed::Keyed, runtime::Runtime};
///
/// let runtime = Runtime::simulated(7);
/// let template = runtime.serializer("room").template().unwrap();
/// let rooms = Keyed::<u32>::builder(&template, runtime.timers()).max_keys(1).build();
/// rooms.push(&1, |()| ()).unwrap();
/// assert!(rooms.push(&2, |()| ()).is_err());
/// assert_eq!((rooms.stats().key_count, rooms.stats().refused), (1, 1));
/// ```
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
///
/// ```
/// use busyhour::{keyed::Keyed, runtime::Runtime};
///
/// let runtime = Runtime::simulated(7);
/// let template = runtime.serializer("room").template().unwrap();
/// let rooms = Keyed::<u32>::builder(&template, runtime.timers()).max_keys(50).build();
/// rooms.push(&1, |()| ()).unwrap();
/// let table = &runtime.pool().key_table_stats()[0];
/// assert_eq!((&*table.name, table.max_keys, table.keys.key_count), ("room", 50, 1));
/// ```
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
