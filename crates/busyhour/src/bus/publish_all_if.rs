//! Publishing many events under a condition.
//!
//! A publish to a key that nobody has touched lately waits for memory twice: for the key's slot, and
//! then for the last event, whose address is in the slot. So the slots of a portion of events are asked
//! for first, then their last events, and then each event is published as it would be alone.

use super::{Event, PublishedAll, cache::pinned, topic_inner::TopicInner};

impl<E: Event> TopicInner<E> {
    pub(super) fn publish_all_if(
        &self,
        events: impl Iterator<Item = E>,
        may_replace: &impl Fn(&E, &E) -> bool,
    ) -> PublishedAll {
        let mut all = PublishedAll::default();
        let mut events = events.fuse();
        let mut portion = Vec::with_capacity(events.size_hint().0.clamp(1, PORTION));
        loop {
            for event in events.by_ref().take(PORTION) {
                let (shard, hash) = self.locate(event.key());
                self.shards()[shard].prefetch(hash);
                portion.push(((shard, hash), event));
            }
            if portion.is_empty() {
                return all;
            }
            if portion.len() > 1 {
                pinned(|pin| {
                    let places = portion.iter().map(|(place, _)| *place);
                    places.for_each(|(shard, hash)| self.shards()[shard].prefetch_last(hash, pin));
                });
            }
            for (place, event) in portion.drain(..) {
                if self.is_idle() {
                    all.count += 1;
                    continue;
                }
                let published = self.publish_located_if(place, event, may_replace);
                published.into_iter().for_each(|it| all.add(it));
            }
        }
    }
}

/// About as many lines as a processor fetches at once.
const PORTION: usize = 16;
