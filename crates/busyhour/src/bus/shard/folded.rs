//! Publishing a key that another node has published too.

use super::*;
use crate::{
    bus::cache::{LiveSlot, SlotTenure},
    sync::SpinGuard,
};

/// The nodes' states of a key, and their fold.
struct Joined<E: Event> {
    parts: Parts<E>,
    whole: Held<Given<E>>,
}

impl<E: Event> Shard<E> {
    /// Publishes by taking the lock twice and folding the states in between.
    /// Returns `false`, with nothing changed, if another thread has changed
    /// something meanwhile or [`Self::publish`] must do it.
    ///
    /// Under the first lock it takes a reference to the list of states. While
    /// it holds that, no other list has the same address. So if the second time
    /// the list is the same, the fold is up to date.
    #[inline(never)]
    pub(super) fn publish_folded(
        &self,
        state: SpinGuard<'_, ShardState<E>>,
        topic: &TopicInner<E>,
        (hash, event, tenure): (u64, &Incoming<E>, SlotTenure),
        result: &mut PublishResult<E>,
    ) -> bool {
        let place = self.live_place(&state, hash, tenure);
        // Otherwise the second attempt would discard the fold.
        let place =
            place.filter(|place| state.has_no_receivers() || state.is_ready(hash, Some(*place)));
        let expected = place.and_then(|place| state.parts_of(place));
        drop(state);
        let Some((expected, event)) = expected.zip(event.given.get()) else {
            return false;
        };
        let Some(mut joined) = self.join(topic, &expected, event.event()) else {
            return false;
        };
        let mut state = self.state.lock();
        let slot = self.live_slot(&state, hash, tenure);
        let slot = slot
            .filter(|slot| state.has_no_receivers() || state.is_ready(hash, Some(slot.place())));
        let Some(slot) = slot else {
            drop(state);
            return keep_outdated(expected, joined, result);
        };
        let old = match state.replace_parts(tenure, &expected, joined.parts) {
            Ok(old) => old,
            Err(parts) => {
                drop(state);
                joined.parts = parts;
                return keep_outdated(expected, joined, result);
            }
        };
        let last = slot.place().version();
        let leavings = self.put_folded(&mut state, topic, (hash, &mut joined.whole, slot), result);
        state.forget_change(Some(last));
        drop(state);
        self.clean_up(topic, leavings, result);
        joined.whole.drop_overdue();
        drop(expected);
        self.empty(old);
        true
    }

    #[inline(always)]
    fn live_slot(
        &self,
        state: &ShardState<E>,
        hash: u64,
        tenure: SlotTenure,
    ) -> Option<LiveSlot<'_, E>> {
        let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
        table.live_slot(writer, hash, tenure)
    }

    /// Makes the folded event the last one of its key.
    #[inline(always)]
    fn put_folded(
        &self,
        state: &mut ShardState<E>,
        topic: &TopicInner<E>,
        (hash, whole, slot): (u64, &mut Held<Given<E>>, LiveSlot<'_, E>),
        result: &mut PublishResult<E>,
    ) -> Leavings<E> {
        let has_no_receivers = state.has_no_receivers();
        let Some(whole) = self.share(state, whole) else {
            unreachable!("what was folded has just been put there");
        };
        state.published += 1;
        let place = slot.place();
        if let Some(writer) = state.writer.as_mut().filter(|_| has_no_receivers) {
            (result.version, result.born) = (slot.replace(writer, (whole, None)), place.born);
            return Leavings::of(writer.sweep());
        }
        let mut copy = EventCopy::NONE;
        let change = (hash, whole, Some(place), &mut copy);
        self.change(state, topic, change, None, Answers::NONE, result)
    }

    /// Runs user code. No lock may be held.
    fn join(&self, topic: &TopicInner<E>, expected: &Parts<E>, event: &E) -> Option<Joined<E>> {
        let folding = topic.folding()?;
        let emptied = self.emptied.lock().take();
        let emptied = emptied.unwrap_or_else(Emptied::new);
        let (parts, whole) = folding.join_local(expected, event, emptied)?;
        let mut whole = Held::new(Given::Plain(whole));
        self.share_early(&mut whole);
        Some(Joined { parts, whole })
    }

    /// Drops the states and keeps the memory of the list for the next one.
    fn empty(&self, parts: Parts<E>) {
        if let Some(emptied) = Emptied::from_parts(parts) {
            let other = self.emptied.lock().replace(emptied);
            drop(other);
        }
    }
}

impl<E: Event> Leavings<E> {
    fn of(swept: Swept<E>) -> Self {
        Self {
            swept,
            uncached: Held::EMPTY,
            of_nodes: None,
            is_forwarded: false,
        }
    }
}

impl<E: Event> ShardState<E> {
    /// Sets the list of nodes' states if the old list is still `expected`;
    /// otherwise returns the new one.
    fn replace_parts(
        &mut self,
        tenure: SlotTenure,
        expected: &Parts<E>,
        parts: Parts<E>,
    ) -> Result<Parts<E>, Parts<E>> {
        match &mut self.nodes {
            Some(nodes) => nodes.parts.replace(tenure.born, expected, parts),
            None => Err(parts),
        }
    }
}

/// Keeps an outdated fold until the event has been published, so that a panic
/// of a state's own `Drop` cannot prevent that.
#[cold]
fn keep_outdated<E: Event>(
    expected: Parts<E>,
    joined: Joined<E>,
    result: &mut PublishResult<E>,
) -> bool {
    let Joined { parts, mut whole } = joined;
    result.drop_parts_later([expected, parts]);
    let whole = whole.take().map(|whole| whole.share(None).0);
    result.drop_later(whole.map(Item::Event));
    false
}
