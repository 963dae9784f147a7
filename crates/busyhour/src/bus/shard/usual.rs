//! The usual publish: nothing has to be asked but where the key is.

use super::*;
use crate::bus::{answers::Answers, listener::Kind, table::Seat};

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
        self.prefetch(hash);
        let seat = self.seat(hash, event.get());
        if seat.is_none() && self.table.is_some() {
            return false;
        }
        self.share_early(event);
        let mut state = self.state.lock();
        let place = seat.and_then(|seat| self.live_place(&state, hash, seat));
        if place.is_none() && self.table.is_some() || !state.is_usual(hash, place) {
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

    /// Where the key of the event is. No lock may be held.
    #[inline(always)]
    fn seat(&self, hash: u64, event: Option<&Given<E>>) -> Option<Seat> {
        let (table, event) = self.table.as_ref().zip(event)?;
        let key = event.event().key();
        pinned(|pin| table.find(hash, key, pin))
    }

    #[inline(always)]
    fn live_place(&self, state: &State<E>, hash: u64, seat: Seat) -> Option<Place> {
        let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
        let place = table.place_of(writer, hash, seat);
        place.filter(Place::is_live)
    }
}

impl<E: Event> State<E> {
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
