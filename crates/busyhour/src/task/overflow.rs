/// What a bounded queue does with one more item when it is full.
///
/// Whatever is lost is counted where it is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overflow {
    /// Refuse the new item; the producer hears of it.
    #[default]
    Reject,
    /// Make the producer wait for room.
    ///
    /// Consumers that produce for each other may come to wait for each other.
    /// That is found, and one of them goes on, on serializers only: callbacks
    /// on the pool itself or on the producer's thread then wait for ever.
    Block,
    /// Drop the oldest waiting item to make room.
    DropOldest,
    /// Keep only the newest item of each key, in the place of the older one,
    /// whether it is full or not; refuse a new key when even so there is no room.
    Conflate,
}
