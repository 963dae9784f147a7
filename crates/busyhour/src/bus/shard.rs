use super::{
    Event, Origin,
    answers::Answers,
    consumer::Subscriber,
    epoch::pinned,
    fold::{Basis, Emptied, Folded, Parts, part},
    how::{How, Which},
    hub::Hub,
    item::Item,
    items::Items,
    known::{Known, Part, note_change},
    listener::{self, Lag, Listeners},
    nodes::Nodes,
    outbox::{Outbox, Parcel},
    panics::{Held, Panics},
    shared::{Given, Shared},
    table::{Change, Place, Put, Stale, Swept, Table, Writer},
    tally::{ShardStats, Tally},
};
use crate::sync::{CachePadded, SpinLock, thread};
use std::{collections::BTreeMap, mem, sync::Arc, vec};

mod catch_up;
mod folded;
mod forwarding;
mod lookup;
mod state;
mod usual;

pub(super) use usual::{Visit, Visited};

/// A part of a topic: the keys whose hash falls to it, and who listens.
///
/// One lock covers the change of the cache and the offer to the subscribers.
/// That is what makes both see the events of a key in one order, and what
/// lets a subscriber change from catching up to following without a gap.
/// Lookups take no lock, and no user's code runs under it: what only that can
/// say is found out before, see [`Known`].
pub(super) struct Shard<E: Event> {
    state: CachePadded<SpinLock<State<E>>>,
    /// Read by lookups; none when the topic is not cached.
    table: Option<Table<E>>,
    /// Memory for the parts of a key, from the last ones that were replaced.
    emptied: SpinLock<Option<Emptied<E>>>,
}

struct State<E: Event> {
    /// This shard's index in the topic.
    index: usize,
    writer: Option<Writer<E>>,
    listeners: Listeners<E>,
    /// Topics on which everything happens as well.
    forwards: Vec<Arc<Hub<E>>>,
    outbox: Outbox<E>,
    /// What other nodes say; none while they have said nothing.
    nodes: Option<Box<Nodes<E>>>,
    published: u64,
    refused: u64,
}

/// What came of one try under the lock.
enum Tried<E: Event> {
    /// It is done, or there was nothing to do.
    Done(Leavings<E>),
    Unchanged,
    /// The table has changed since the search.
    Stale,
    /// Something has to be found out first, with no lock held.
    Unknown,
    /// Nothing happened: this subscriber makes publishers wait for room.
    Full(Arc<Subscriber<E>>),
}

/// What a change leaves to be done when the lock has been left.
struct Leavings<E: Event> {
    swept: Swept<E>,
    /// The event, where nothing is cached.
    uncached: Held<Shared<E>>,
    /// None while only this node has spoken.
    of_nodes: Option<Box<OfNodes<E>>>,
    is_forwarded: bool,
}

/// What a change leaves of what nodes have said.
struct OfNodes<E: Event> {
    parts: Option<Parts<E>>,
    folded: Option<Folded<E>>,
    nodes: Option<Box<Nodes<E>>>,
}

impl<E: Event> Shard<E> {
    pub(super) fn new(index: usize, cached: bool) -> Self {
        let (table, writer) = cached.then(Table::new).unzip();
        let state = State {
            index,
            writer,
            listeners: Listeners::new(),
            forwards: Vec::new(),
            outbox: Outbox::new(),
            nodes: None,
            published: 0,
            refused: 0,
        };
        Self {
            state: CachePadded(SpinLock::new(state)),
            table,
            emptied: SpinLock::new(None),
        }
    }

    /// The table and the right to write it.
    fn cache<'a>(&'a self, state: &'a mut State<E>) -> Option<(&'a Table<E>, &'a mut Writer<E>)> {
        self.table.as_ref().zip(state.writer.as_mut())
    }

    /// Searches for the key, with no lock held.
    #[inline(always)]
    fn look(&self, hash: u64, key: &E::Key, known: &mut Known<E>) {
        if let Some(table) = &self.table {
            pinned(|pin| table.look(hash, key, pin, &mut known.seen));
        }
    }

    /// The key's place in the table, if that is still what was seen.
    #[inline(always)]
    fn place(&self, state: &State<E>, hash: u64, known: &Known<E>) -> Result<Option<Place>, Stale> {
        match self.table.as_ref().zip(state.writer.as_ref()) {
            Some((table, writer)) => table.place(writer, hash, &known.seen),
            None => Ok(None),
        }
    }

    /// Does `look` under the lock, with the key's place in the table.
    fn with_place<R>(
        &self,
        (hash, key): (u64, &E::Key),
        look: impl Fn(&mut State<E>, Option<Place>) -> R,
    ) -> R {
        let mut known = Known::new();
        loop {
            self.look(hash, key, &mut known);
            let mut state = self.state.lock();
            if let Ok(place) = self.place(&state, hash, &known) {
                return look(&mut state, place);
            }
        }
    }

    /// Caches the event and offers it to its subscribers. When `how` allows
    /// to wait, it does nothing if one of them makes publishers wait and has
    /// no room.
    #[inline(never)]
    pub(super) fn publish(
        &self,
        topic: &Hub<E>,
        (hash, event): (u64, &mut Held<Given<E>>),
        how: How,
        known: &mut Known<E>,
        tally: &mut Tally<E>,
    ) -> Result<(), Arc<Subscriber<E>>> {
        self.prefetch(hash);
        if let Some(event) = event.get() {
            self.look(hash, event.event().key(), known);
        }
        self.share_early(event);
        loop {
            match self.try_publish(topic, (hash, event), how, known, tally) {
                Tried::Done(leavings) => {
                    self.clean_up(topic, leavings, tally);
                    return Ok(());
                }
                Tried::Unchanged => return Ok(()),
                Tried::Full(full) => return Err(full),
                in_vain => self.find_out(topic, (hash, event), how, known, in_vain),
            }
        }
    }

    /// Runs the user's code for what a try in vain has to know.
    #[cold]
    #[inline(never)]
    fn find_out(
        &self,
        topic: &Hub<E>,
        (hash, event): (u64, &Held<Given<E>>),
        how: How,
        known: &mut Known<E>,
        in_vain: Tried<E>,
    ) {
        let Some(event) = event.get().map(Given::event) else {
            return;
        };
        let is_stale = matches!(in_vain, Tried::Stale);
        known.ask(topic.id(), |known| {
            if is_stale {
                return self.look(hash, event.key(), known);
            }
            let origin = how.part().unwrap_or(topic.local());
            let part = Some(Part::Says(origin, event));
            let about = (event.key(), Some(event));
            known.find_out(topic.folding(), about, part, None);
        });
    }

    /// Sends for what the cache has at this hash.
    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        if let Some(table) = &self.table {
            table.prefetch(hash);
        }
    }

    fn try_publish(
        &self,
        topic: &Hub<E>,
        (hash, held): (u64, &mut Held<Given<E>>),
        how: How,
        known: &mut Known<E>,
        tally: &mut Tally<E>,
    ) -> Tried<E> {
        let mut state = self.state.lock();
        let Ok(place) = self.place(&state, hash, known) else {
            return Tried::Stale;
        };
        if topic.has_all_keys() && self.table.is_some() && !place.is_some_and(|it| it.is_live()) {
            state.refused += 1;
            tally.refused = true;
            return Tried::Unchanged;
        }
        if how.origin.is_some() || state.nodes.is_some() {
            let place = (hash, held, place);
            return self.try_with_others(&mut state, topic, place, how, known, tally);
        }
        if known.unfold() {
            return Tried::Unknown;
        }
        let (where_, kind) = (state.place(hash, place), listener::Kind::Event);
        if let Some(obstacle) = state.obstacle(where_, kind, how, known) {
            return obstacle;
        }
        let Some(event) = self.share(&mut state, held) else {
            return Tried::Unchanged;
        };
        state.published += 1;
        let (change, answers) = ((hash, event, place), &known.answers);
        Tried::Done(self.change(&mut state, topic, change, None, answers, tally))
    }

    /// Makes the event one that can be shared before the lock is taken, where
    /// that asks the allocator, since nothing is replaced in a topic without a
    /// cache, or moves more than a little.
    #[inline(always)]
    fn share_early(&self, held: &mut Held<Given<E>>) {
        if self.table.is_none() || Given::<E>::IS_LARGE {
            let given = held.take().map(Given::into_shared);
            held.put(given);
        }
    }

    /// Takes the event, as one that can be shared, and leaves one in its place
    /// that was replaced before and is to be dropped.
    #[inline(always)]
    fn share(&self, state: &mut State<E>, held: &mut Held<Given<E>>) -> Option<Shared<E>> {
        let given = held.take()?;
        let (event, overdue) = match &mut state.writer {
            Some(writer) => writer.share(given),
            None => given.share(None),
        };
        held.put(overdue);
        Some(event)
    }

    /// Publishes where not only this node has spoken.
    #[cold]
    #[inline(never)]
    fn try_with_others(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, held, place): (u64, &mut Held<Given<E>>, Option<Place>),
        how: How,
        known: &mut Known<E>,
        tally: &mut Tally<E>,
    ) -> Tried<E> {
        if let Some(basis) = self.basis(state, topic, place, how) {
            if known.folded(basis).is_none() {
                return Tried::Unknown;
            }
        } else if known.unfold() {
            return Tried::Unknown;
        }
        let (where_, kind) = (state.place(hash, place), listener::Kind::Event);
        if let Some(obstacle) = state.obstacle(where_, kind, how, known) {
            return obstacle;
        }
        let folded = known.take_folded();
        let whole = folded.as_ref().and_then(|folded| folded.event.clone());
        let Some(whole) = whole.or_else(|| self.share(state, held)) else {
            return Tried::Unchanged;
        };
        state.published += 1;
        let change = (hash, whole, place);
        Tried::Done(self.change_by(state, topic, change, (how.origin, folded), known, tally))
    }

    /// From what the state of all nodes is to be made, if there is another
    /// one's.
    fn basis(
        &self,
        state: &State<E>,
        topic: &Hub<E>,
        place: Option<Place>,
        how: How,
    ) -> Option<Basis<E>> {
        let folding = topic.folding()?;
        let parts = place.and_then(|place| state.parts_of(place));
        if parts.is_none() && how.part().is_none_or(|origin| origin == folding.local) {
            return None;
        }
        let own = place.filter(|place| parts.is_none() && place.is_live());
        let cache = self.table.as_ref().zip(state.writer.as_ref());
        let local = own.zip(cache);
        let local = local.and_then(|(place, (table, writer))| table.event(writer, place));
        Some(Basis { parts, local })
    }

    /// Makes the event the last one of its key and tells everybody. Who spoke
    /// is named if it was another node.
    #[inline(always)]
    fn change(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, event, place): (u64, Shared<E>, Option<Place>),
        speaker: Option<Origin>,
        answers: &Answers<E>,
        tally: &mut Tally<E>,
    ) -> Leavings<E> {
        let change = listener::Change::Event(&event);
        let where_ = state.place(hash, place);
        (state.listeners).offer(where_, &change, speaker, tally, answers);
        let is_forwarded = state.forward(topic, &change, speaker);
        let newest_lag = state.listeners.newest_lag();
        let mut uncached = Held::EMPTY;
        let swept = match self.cache(state) {
            None => {
                uncached.put(Some(event));
                Swept::NOTHING
            }
            Some((table, writer)) => {
                let (put, born) = table.put(writer, (hash, place), event, newest_lag);
                if put == Put::NewKey {
                    topic.count_key();
                }
                (tally.version, tally.born) = (writer.version(), born);
                writer.sweep()
            }
        };
        Leavings {
            swept,
            uncached,
            of_nodes: None,
            is_forwarded,
        }
    }

    /// The same where not only this node has spoken.
    #[cold]
    #[inline(never)]
    fn change_by(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, event, place): (u64, Shared<E>, Option<Place>),
        (speaker, folded): (Option<Origin>, Option<Folded<E>>),
        known: &Known<E>,
        tally: &mut Tally<E>,
    ) -> Leavings<E> {
        let last = place.map(|place| place.version());
        let change = (hash, event, place);
        let mut leavings = self.change(state, topic, change, speaker, &known.answers, tally);
        state.forget_change(last);
        let parts = folded.as_ref().and_then(Folded::parts);
        let parts = parts.and_then(|parts| state.set_parts(tally.born, parts, topic.local()));
        let version = state.writer.as_ref().map_or(0, Writer::version);
        let nodes = self.note_change(state, version, speaker);
        leavings.of_nodes = OfNodes::boxed(parts, folded, nodes);
        leavings
    }

    /// Takes note of who makes a change that is kept, and forgets of other
    /// nodes if nothing is left of them.
    #[must_use]
    fn note_change(
        &self,
        state: &mut State<E>,
        version: u64,
        speaker: Option<Origin>,
    ) -> Option<Box<Nodes<E>>> {
        if self.table.is_some() && (speaker.is_some() || state.nodes.is_some()) {
            let nodes = state.nodes.get_or_insert_default();
            nodes.speakers.note(version, speaker);
        }
        state.nodes.take_if(|nodes| nodes.is_empty())
    }

    /// Drops what a change left, and passes on what is to be forwarded. No
    /// lock is held.
    #[inline(always)]
    fn clean_up(&self, topic: &Hub<E>, leavings: Leavings<E>, tally: &mut Tally<E>) {
        note_change(topic.id());
        if leavings.is_forwarded {
            self.serve_outbox(tally);
        }
        match leavings.of_nodes {
            None => leavings.swept.drop_all(),
            Some(of_nodes) => of_nodes.drop_all(leavings.swept),
        }
        drop(leavings.uncached);
    }

    /// Takes away what a node says of the key and tells the subscribers;
    /// `false` when it has said nothing. When `how` allows to wait, it does
    /// nothing but to name a subscriber that makes publishers wait and has no
    /// room.
    pub(super) fn clear(
        &self,
        topic: &Hub<E>,
        (hash, key): (u64, &Arc<E::Key>),
        (which, how): (&Which<'_, E>, How),
        known: &mut Known<E>,
        tally: &mut Tally<E>,
    ) -> Result<bool, Arc<Subscriber<E>>> {
        self.look(hash, key, known);
        loop {
            match self.try_clear(topic, (hash, key), (which, how), known, tally) {
                Tried::Done(leavings) => {
                    self.clean_up(topic, leavings, tally);
                    return Ok(true);
                }
                Tried::Unchanged => return Ok(false),
                Tried::Full(full) => return Err(full),
                Tried::Stale => known.ask(topic.id(), |known| self.look(hash, key, known)),
                Tried::Unknown => known.ask(topic.id(), |known| {
                    let origin = how.part().unwrap_or(topic.local());
                    let part = Some(Part::Withdraws(origin));
                    known.find_out(topic.folding(), (key, None), part, which.is_wanted());
                }),
            }
        }
    }

    fn try_clear(
        &self,
        topic: &Hub<E>,
        (hash, key): (u64, &Arc<E::Key>),
        (which, how): (&Which<'_, E>, How),
        known: &mut Known<E>,
        tally: &mut Tally<E>,
    ) -> Tried<E> {
        let mut state = self.state.lock();
        let Ok(place) = self.place(&state, hash, known) else {
            return Tried::Stale;
        };
        let Some(place) = place.filter(Place::is_live) else {
            return Tried::Unchanged;
        };
        match self.is_meant(&state, place, which, known) {
            None => return Tried::Unknown,
            Some(false) => return Tried::Unchanged,
            Some(true) => {}
        }
        let left = match state.withdrawal(topic, place, how) {
            Withdrawal::Unchanged => return Tried::Unchanged,
            Withdrawal::OfKey if known.unfold() => return Tried::Unknown,
            Withdrawal::OfKey => None,
            Withdrawal::OfPart(basis) => {
                let Some(folded) = known.folded(basis) else {
                    return Tried::Unknown;
                };
                folded.event.clone()
            }
        };
        let kind = match &left {
            Some(_) => listener::Kind::Event,
            None => listener::Kind::Cleared,
        };
        let where_ = state.place(hash, Some(place));
        if let Some(obstacle) = state.obstacle(where_, kind, how, known) {
            return obstacle;
        }
        if let Some(event) = left {
            let folded = known.take_folded();
            let change = (hash, event, Some(place));
            let by = (how.origin, folded);
            return Tried::Done(self.change_by(&mut state, topic, change, by, known, tally));
        }
        Tried::Done(self.remove_key(&mut state, topic, (hash, key, place), how, known, tally))
    }

    /// Whether the key is in the state in which it is to be cleared; `None`
    /// when that is to be asked first.
    fn is_meant(
        &self,
        state: &State<E>,
        place: Place,
        which: &Which<'_, E>,
        known: &mut Known<E>,
    ) -> Option<bool> {
        match which {
            Which::Any => Some(true),
            Which::Version(version) => Some(place.version() == *version),
            Which::SaidBy(origin) => Some(state.speaker(place.version()) == *origin),
            Which::Matching(_) => {
                let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
                known.matches(table.event(writer, place)?)
            }
        }
    }

    fn remove_key(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, key, place): (u64, &Arc<E::Key>, Place),
        how: How,
        known: &mut Known<E>,
        tally: &mut Tally<E>,
    ) -> Leavings<E> {
        let change = listener::Change::Cleared(key);
        let where_ = state.place(hash, Some(place));
        let speaker = how.origin;
        (state.listeners).offer(where_, &change, speaker, tally, &known.answers);
        let is_forwarded = state.forward(topic, &change, speaker);
        let newest_lag = state.listeners.newest_lag();
        let (mut version, mut swept, mut has_grave) = (0, Swept::NOTHING, false);
        if let Some((table, writer)) = self.cache(state) {
            has_grave = table.clear(writer, place, newest_lag);
            (version, swept) = (writer.version(), writer.sweep());
        }
        topic.forget_key();
        (tally.version, tally.born) = (version, place.born);
        state.forget_change(Some(place.version()));
        let parts = state.nodes.as_mut();
        let parts = parts.and_then(|nodes| nodes.parts.remove(place.born));
        // Whoever is told of it later is told by whom.
        let nodes = self.note_change(state, version, speaker.filter(|_| has_grave));
        Leavings {
            swept,
            uncached: Held::EMPTY,
            of_nodes: OfNodes::boxed(parts, known.take_folded(), nodes),
            is_forwarded,
        }
    }
}

/// What a clear takes away.
enum Withdrawal<E> {
    /// The node has said nothing.
    Unchanged,
    /// The whole key: nobody else has a state of it.
    OfKey,
    /// One node's part.
    OfPart(Basis<E>),
}

impl<E: Event> OfNodes<E> {
    fn boxed(
        parts: Option<Parts<E>>,
        folded: Option<Folded<E>>,
        nodes: Option<Box<Nodes<E>>>,
    ) -> Option<Box<Self>> {
        let is_any = parts.is_some() || folded.is_some() || nodes.is_some();
        is_any.then(|| {
            Box::new(Self {
                parts,
                folded,
                nodes,
            })
        })
    }

    #[cold]
    fn drop_all(self, swept: Swept<E>) {
        let mut panics = Panics::default();
        panics.drop(self.folded);
        panics.drop(self.parts);
        panics.drop(self.nodes);
        panics.drop(swept);
    }
}

/// Changes in the order in which they were made. Drops them one by one, so that
/// one that panics takes no other along.
struct Changes<E>(vec::IntoIter<Change<E>>);

impl<E> Changes<E> {
    fn in_order(mut changes: Vec<Change<E>>) -> Self {
        changes.sort_unstable_by_key(Change::version);
        Self(changes.into_iter())
    }

    fn as_slice(&self) -> &[Change<E>] {
        self.0.as_slice()
    }
}

impl<E> Iterator for Changes<E> {
    type Item = Change<E>;

    fn next(&mut self) -> Option<Change<E>> {
        self.0.next()
    }
}

impl<E> Drop for Changes<E> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        for change in self.0.by_ref() {
            panics.drop(change);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::bus::Topic;

    #[derive(Clone)]
    struct Tick(u32);

    impl Event for Tick {
        type Key = u32;

        fn key(&self) -> &u32 {
            &self.0
        }
    }

    fn knows_others(topic: &Topic<Tick>) -> bool {
        let mut shards = topic.0.shards().iter();
        shards.any(|shard| shard.state.lock().nodes.is_some())
    }

    /// Nothing is kept of other nodes of whom nothing is left, so the next
    /// publish passes them by again.
    #[test]
    fn others_leave_nothing_behind() {
        let there = Origin(2);
        let plain = Topic::builder("plain").cached().build();
        let fold = |parts: &[(Origin, Tick)]| parts[0].1.clone();
        let folding = Topic::builder("folding").fold(Origin(1), fold).build();
        for topic in [plain, folding] {
            let _ = topic.publish(Tick(1));
            let _ = topic.publish_from(there, Tick(1));
            let _ = topic.publish_from(there, Tick(2));
            assert!(knows_others(&topic));
            let _ = topic.clear_from(there, &1);
            let _ = topic.publish(Tick(1));
            assert_eq!(topic.forget_origin(there).key_count, 1);
            let _ = topic.publish(Tick(1));
            assert!(!knows_others(&topic));
        }
    }

    /// The speaker of a key that is gone is kept only while somebody who lags
    /// is to be told.
    #[test]
    fn a_buried_key_takes_its_speaker_along() {
        let topic = Topic::builder("graves").cached().small().build();
        let later =
            crate::pool::TaskPool::simulated(1, crate::clock::Clock::simulated(Default::default()));
        let _watch = topic
            .subscribe()
            .replay()
            .capacity(1)
            .on(&later)
            .start(|_| ());
        while later.step() {}
        for key in 0..8 {
            let _ = topic.publish_from(Origin(2), Tick(key));
        }
        while later.step() {}
        for key in 0..8 {
            let _ = topic.clear_from(Origin(2), &key);
        }
        assert!(knows_others(&topic), "a laggard is to be told who cleared");
        while later.step() {}
        assert!(!knows_others(&topic));
    }
}
