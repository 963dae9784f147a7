/// What a bounded queue does with a new item when it is full.
///
/// Each lost item is counted by the queue that lost it.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool, task::Overflow};
/// use std::sync::{Arc, Mutex};
///
/// let pool = TaskPool::simulated(1, Clock::simulated(Default::default()));
/// let ran = |policy: Overflow| {
///     let narrow = pool.serializer("narrow").capacity(2).overflow(policy).build().unwrap();
///     let ran = Arc::new(Mutex::new(Vec::new()));
///     for number in 0..4 {
///         let ran = Arc::clone(&ran);
///         _ = narrow.push_keyed(number % 2, move || ran.lock().unwrap().push(number));
///     }
///     while pool.step() {}
///     ran.lock().unwrap().clone()
/// };
/// assert_eq!(ran(Overflow::Reject), [0, 1]);
/// assert_eq!(ran(Overflow::DropOldest), [2, 3]);
/// assert_eq!(ran(Overflow::Block), [0, 1, 2, 3]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overflow {
    /// Reject the new item; the producer gets an error or a count.
    #[default]
    Reject,
    /// Make the producer wait for room.
    ///
    /// Consumers that produce for each other may wait for each other. On
    /// serializers such a cycle is found, and one of them continues; callbacks
    /// on the pool itself or on the producer's thread would wait for ever.
    Block,
    /// Drop the oldest waiting item to make room.
    DropOldest,
    /// Keep only the newest item of each key, in the place of the older one,
    /// whether or not the queue is full; reject an item with a new key if there
    /// is no room.
    Conflate,
}
