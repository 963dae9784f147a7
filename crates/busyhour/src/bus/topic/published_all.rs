use super::Published;

/// The result of a [`Topic::publish_all_if`](crate::bus::Topic::publish_all_if): the sums for
/// all its events.
///
/// ```
/// use busyhour::bus::{Event, Topic};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let ticks = Topic::builder("ticks").cached().key_limit(2).build();
/// let _watch = ticks.subscribe().start(|_| ());
/// let published = ticks.publish_all_if([1, 2, 3, 1].map(Tick), |_, _| false);
/// assert_eq!((published.count, published.refused, published.delivered), (2, 1, 2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a loss is the publisher's to know"]
pub struct PublishedAll {
    /// Events that were published. The others were refused or may not replace the last value of
    /// their key.
    pub count: u64,
    /// See [`Published::delivered`].
    pub delivered: u64,
    /// See [`Published::lost`].
    pub lost: u64,
    /// Events whose key is new to a topic that has no room for it; see [`Published::refused`].
    pub refused: u64,
}

impl PublishedAll {
    pub(in crate::bus) fn add(&mut self, published: Published) {
        match published.refused {
            true => self.refused += 1,
            false => self.count += 1,
        }
        self.delivered += published.delivered;
        self.lost += published.lost;
    }
}
