//! The usual publish: nothing has to be asked but where the key is.

use super::*;
use crate::{
    bus::{cache::SlotTenure, delivery::Answers},
    sync::SpinGuard,
};

/// What came of a first visit to the lock.
pub(in crate::bus) enum Visited<'a, E: Event> {
    /// The event is the last one of its key, and nobody hears of it.
    Published {
        version: u64,
        /// Since which version the key has its slot.
        born: u64,
        /// To be dropped.
        swept: Swept<E>,
    },
    /// Nothing has happened yet.
    Loud(Visit<'a, E>),
    /// Nothing has happened.
    InVain,
}

/// A visit to the lock that is not over: others than this node have spoken, or
/// somebody may hear the event.
pub(in crate::bus) struct Visit<'a, E: Event> {
    state: SpinGuard<'a, ShardState<E>>,
    /// Where the key is; none where nothing is cached.
    seat: Option<SlotTenure>,
}

impl<E: Event> Shard<E> {
    /// Publishes where only this node has spoken, the key has a last value and
    /// nobody listens.
    #[inline(always)]
    pub(in crate::bus) fn visit(
        &self,
        topic: &TopicInner<E>,
        (hash, event): (u64, &mut Incoming<E>),
    ) -> Visited<'_, E> {
        self.share_early(&mut event.given);
        let Some((table, given)) = self.table.as_ref().zip(event.given.get()) else {
            let state = self.state.lock();
            return Visited::Loud(Visit { state, seat: None });
        };
        table.prefetch(hash);
        let key = given.event().key();
        let Some(seat) = pinned(|pin| table.find(hash, key, pin)) else {
            return in_vain();
        };
        let mut state = self.state.lock();
        if !state.is_quiet() {
            let seat = Some(seat);
            return Visited::Loud(Visit { state, seat });
        }
        debug_assert_eq!(state.listeners.newest_lag(), 0, "nobody is there to lag");
        let ShardState {
            writer: Some(writer),
            published,
            ..
        } = &mut *state
        else {
            return in_vain();
        };
        let Some(slot) = table.live_slot(writer, hash, seat) else {
            return in_vain();
        };
        let Some(given) = event.given.take() else {
            return in_vain();
        };
        let (given, overdue) = writer.share(given);
        event.given.put(overdue);
        *published += 1;
        let (version, born) = (slot.replace(writer, given), seat.born);
        let swept = writer.sweep_values();
        drop(state);
        note_change(topic.id());
        Visited::Published {
            version,
            born,
            swept,
        }
    }

    /// Publishes in the visit that has begun, for which nothing is kept of what
    /// was found out. `false` where nothing has happened, since it is a case for
    /// [`Self::publish`]: the key has no last value, the user's code has to say
    /// who wants the event, or somebody has no room.
    #[inline(always)]
    pub(in crate::bus) fn publish_in(
        &self,
        Visit { state, seat }: Visit<'_, E>,
        topic: &TopicInner<E>,
        (hash, event): (u64, &mut Incoming<E>),
        result: &mut PublishResult<E>,
    ) -> bool {
        match seat.filter(|_| state.nodes.is_some()) {
            Some(seat) => self.publish_folded(state, topic, (hash, event, seat), result),
            None => self.publish_heard(state, topic, (hash, event, seat), result),
        }
    }

    /// The same where only this node has spoken.
    #[inline(always)]
    fn publish_heard(
        &self,
        mut state: SpinGuard<'_, ShardState<E>>,
        topic: &TopicInner<E>,
        (hash, event, seat): (u64, &mut Incoming<E>, Option<SlotTenure>),
        result: &mut PublishResult<E>,
    ) -> bool {
        let place = seat.and_then(|seat| self.live_place(&state, hash, seat));
        let is_there = place.is_some() || self.table.is_none();
        if !is_there || state.nodes.is_some() || !state.is_ready(hash, place) {
            return false;
        }
        let Some(shared) = self.share(&mut state, &mut event.given) else {
            return false;
        };
        state.published += 1;
        let change = (hash, shared, place, &mut event.copy);
        let leavings = self.change(&mut state, topic, change, None, Answers::NONE, result);
        drop(state);
        self.clean_up(topic, leavings, result);
        true
    }

    #[inline(always)]
    pub(super) fn live_place(
        &self,
        state: &ShardState<E>,
        hash: u64,
        seat: SlotTenure,
    ) -> Option<SlotPosition> {
        let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
        table
            .place_of(writer, hash, seat)
            .filter(SlotPosition::is_live)
    }
}

impl<E: Event> ShardState<E> {
    /// Whether only this node has spoken, and to nobody.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.nodes.is_none() && self.is_unheard()
    }

    /// Whether nobody listens and nothing is forwarded.
    #[inline(always)]
    pub(super) fn is_unheard(&self) -> bool {
        self.listeners.is_empty() && self.forwards.is_empty()
    }

    /// Whether it is known without a question who wants an event of this key,
    /// and they have room.
    #[inline(always)]
    pub(super) fn is_ready(&self, hash: u64, place: Option<SlotPosition>) -> bool {
        self.listeners.are_ready(self.place(hash, place))
    }
}

#[cold]
fn in_vain<'a, E: Event>() -> Visited<'a, E> {
    Visited::InVain
}
