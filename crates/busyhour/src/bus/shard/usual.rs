//! The usual publish: nothing has to be asked but where the key is.

use super::*;
use crate::{
    bus::{answers::Answers, listener::Kind, table::Seat},
    sync::SpinGuard,
};

impl<E: Event> Shard<E> {
    /// Publishes in one try, for which nothing is kept of what was found out.
    /// `false` where nothing has happened, since it is a case for
    /// [`Self::publish`]: the key has no last value, another node has spoken,
    /// the user's code has to say who wants the event, or somebody has no room.
    #[inline(always)]
    pub(in crate::bus) fn publish_usual(
        &self,
        topic: &Hub<E>,
        (hash, event): (u64, &mut Held<Given<E>>),
        tally: &mut Tally<E>,
    ) -> bool {
        self.share_early(event);
        let Some((table, given)) = self.table.as_ref().zip(event.get()) else {
            let state = self.state.lock();
            return self.publish_heard(state, topic, (hash, event, None), tally);
        };
        table.prefetch(hash);
        let key = given.event().key();
        let Some(seat) = pinned(|pin| table.find(hash, key, pin)) else {
            return unusual();
        };
        let mut state = self.state.lock();
        if !state.is_quiet() {
            let place = self.live_place(&state, hash, seat);
            return place.is_some()
                && self.publish_heard(state, topic, (hash, event, place), tally);
        }
        debug_assert_eq!(state.listeners.newest_lag(), 0, "nobody is there to lag");
        let State {
            writer: Some(writer),
            published,
            ..
        } = &mut *state
        else {
            return unusual();
        };
        let Some(slot) = table.live_slot(writer, hash, seat) else {
            return unusual();
        };
        let Some(given) = event.take() else {
            return unusual();
        };
        let (given, overdue) = writer.share(given);
        event.put(overdue);
        *published += 1;
        (tally.version, tally.born) = (slot.replace(writer, given), seat.born);
        let swept = writer.sweep();
        drop(state);
        note_change(topic.id());
        swept.drop_all();
        true
    }

    /// The same where somebody may hear it.
    #[inline(never)]
    fn publish_heard(
        &self,
        mut state: SpinGuard<'_, State<E>>,
        topic: &Hub<E>,
        (hash, event, place): (u64, &mut Held<Given<E>>, Option<Place>),
        tally: &mut Tally<E>,
    ) -> bool {
        if !state.is_usual(hash, place) {
            return false;
        }
        let Some(event) = self.share(&mut state, event) else {
            return false;
        };
        state.published += 1;
        let change = (hash, event, place);
        let leavings = self.change(&mut state, topic, change, None, Answers::NONE, tally);
        drop(state);
        self.clean_up(topic, leavings, tally);
        true
    }

    #[inline(always)]
    fn live_place(&self, state: &State<E>, hash: u64, seat: Seat) -> Option<Place> {
        let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
        table.place_of(writer, hash, seat).filter(Place::is_live)
    }
}

impl<E: Event> State<E> {
    /// Whether only this node has spoken, nobody listens, and nothing is
    /// forwarded.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.nodes.is_none() && self.listeners.is_empty() && self.forwards.is_empty()
    }

    #[inline(always)]
    fn is_usual(&self, hash: u64, place: Option<Place>) -> bool {
        let place = self.place(hash, place);
        self.nodes.is_none()
            && self.listeners.are_known(place)
            && !(self.listeners.may_be_full() && self.is_full(place))
    }

    #[inline(always)]
    fn is_full(&self, place: listener::Place) -> bool {
        let full = self.listeners.find_full(place, Kind::Event, Answers::NONE);
        full.is_some()
    }
}

/// Nothing has happened.
#[cold]
fn unusual() -> bool {
    false
}
