//! The usual publish: it must find out nothing but the slot of the key.

use super::*;
use crate::{
    bus::{cache::SlotTenure, delivery::Answers},
    sync::SpinGuard,
};

/// The result of an attempt to publish on the fast path.
pub(in crate::bus) enum FastPath<'a, E: Event> {
    /// The event is the last one of its key, and nobody receives it.
    Published {
        version: u64,
        /// The version at which the key got its slot.
        born: u64,
        /// Must be dropped without the lock.
        swept: Swept<E>,
    },
    /// Nothing has been changed, and the lock is still held.
    Locked(LockedPublish<'a, E>),
    /// Nothing has been changed; the general way must publish.
    NotApplicable,
}

/// A publish that still holds the shard's lock: another node has published
/// too, or the event may have receivers.
pub(in crate::bus) struct LockedPublish<'a, E: Event> {
    state: SpinGuard<'a, ShardState<E>>,
    /// The slot of the key; `None` if the topic has no cache.
    tenure: Option<SlotTenure>,
}

impl<E: Event> Shard<E> {
    /// Publishes if only this node has published, the key has a last value, and
    /// there is no subscriber and no forward.
    #[inline(always)]
    pub(in crate::bus) fn try_fast_path(
        &self,
        topic: &TopicInner<E>,
        (hash, event): (u64, &mut Incoming<E>),
    ) -> FastPath<'_, E> {
        self.share_early(&mut event.given);
        let Some((table, given)) = self.table.as_ref().zip(event.given.get()) else {
            let state = self.state.lock();
            return FastPath::Locked(LockedPublish {
                state,
                tenure: None,
            });
        };
        table.prefetch(hash);
        let key = given.event().key();
        let Some(tenure) = pinned(|pin| table.find(hash, key, pin)) else {
            return not_applicable();
        };
        let state = self.state.lock();
        self.publish_found(state, topic, (table, hash, tenure), event)
    }

    /// Publishes in the key's slot, which a search without a lock has found.
    #[inline(always)]
    fn publish_found<'a>(
        &'a self,
        mut state: SpinGuard<'a, ShardState<E>>,
        topic: &TopicInner<E>,
        (table, hash, tenure): (&CacheTable<E>, u64, SlotTenure),
        event: &mut Incoming<E>,
    ) -> FastPath<'a, E> {
        if !state.is_quiet() {
            let tenure = Some(tenure);
            return FastPath::Locked(LockedPublish { state, tenure });
        }
        debug_assert_eq!(state.listeners.newest_lag(), 0, "nobody is there to lag");
        let ShardState {
            writer: Some(writer),
            published,
            ..
        } = &mut *state
        else {
            return not_applicable();
        };
        let Some(slot) = table.live_slot(writer, hash, tenure) else {
            return not_applicable();
        };
        let Some(given) = event.given.take() else {
            return not_applicable();
        };
        let (given, overdue) = writer.share(given);
        event.given.put(overdue);
        *published += 1;
        let given = (given, event.copy.packed());
        let (version, born) = (slot.replace(writer, given), tenure.born);
        let swept = writer.sweep_values();
        drop(state);
        note_change(topic.id());
        FastPath::Published {
            version,
            born,
            swept,
        }
    }

    /// What the key's last value is, found without a lock: the condition is user code. A topic
    /// without a cache has none.
    #[inline(always)]
    pub(in crate::bus) fn judge(
        &self,
        (hash, key): (u64, &E::Key),
        may_replace: &impl Fn(&E) -> bool,
    ) -> Judged {
        match &self.table {
            None => Judged::May(Expected::Absent),
            Some(table) => {
                table.prefetch(hash);
                pinned(|pin| table.judge((hash, key), may_replace, pin))
            }
        }
    }

    /// Like [`Self::try_fast_path`], if the key's last value is still the expected one.
    #[inline(always)]
    pub(in crate::bus) fn try_fast_path_if(
        &self,
        topic: &TopicInner<E>,
        (hash, event): (u64, &mut Incoming<E>),
        expected: Expected,
    ) -> FastPath<'_, E> {
        let (Some(table), Expected::Version(tenure, _)) = (&self.table, expected) else {
            return not_applicable();
        };
        self.share_early(&mut event.given);
        let state = self.state.lock();
        match expected.is(self.live_place(&state, hash, tenure)) {
            true => self.publish_found(state, topic, (table, hash, tenure), event),
            false => not_applicable(),
        }
    }

    /// Publishes under the lock that is held, without a record of answers.
    /// Returns `false`, with nothing changed, if [`Self::publish`] must do it:
    /// the key has no last value, user code must decide which subscribers want
    /// the event, or a subscriber has no room.
    #[inline(always)]
    pub(in crate::bus) fn publish_in(
        &self,
        LockedPublish { state, tenure }: LockedPublish<'_, E>,
        topic: &TopicInner<E>,
        (hash, event): (u64, &mut Incoming<E>),
        result: &mut PublishResult<E>,
    ) -> bool {
        match tenure.filter(|_| state.nodes.is_some()) {
            Some(tenure) => self.publish_folded(state, topic, (hash, event, tenure), result),
            None => self.publish_heard(state, topic, (hash, event, tenure), result),
        }
    }

    /// Like [`Self::publish_in`], if only this node has published.
    #[inline(always)]
    fn publish_heard(
        &self,
        mut state: SpinGuard<'_, ShardState<E>>,
        topic: &TopicInner<E>,
        (hash, event, tenure): (u64, &mut Incoming<E>, Option<SlotTenure>),
        result: &mut PublishResult<E>,
    ) -> bool {
        let place = tenure.and_then(|tenure| self.live_place(&state, hash, tenure));
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
        tenure: SlotTenure,
    ) -> Option<SlotPosition> {
        let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
        table
            .place_of(writer, hash, tenure)
            .filter(SlotPosition::is_live)
    }
}

impl<E: Event> ShardState<E> {
    /// Whether only this node has published, and nobody receives events.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.nodes.is_none() && self.has_no_receivers()
    }

    /// Whether there is no subscriber and no forward.
    #[inline(always)]
    pub(super) fn has_no_receivers(&self) -> bool {
        self.listeners.is_empty() && self.forwards.is_empty()
    }

    /// Whether the subscribers that want an event of this key are known without
    /// asking user code, and have room.
    #[inline(always)]
    pub(super) fn is_ready(&self, hash: u64, place: Option<SlotPosition>) -> bool {
        self.listeners.are_ready(self.place(hash, place))
    }
}

#[cold]
fn not_applicable<'a, E: Event>() -> FastPath<'a, E> {
    FastPath::NotApplicable
}
