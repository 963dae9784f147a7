//! Removing keys from a shard.

use super::*;

impl<E: Event> Shard<E> {
    /// Removes a node's state of the key and tells the subscribers; `false` if
    /// it has none. If `options` allow waiting and a subscriber with
    /// `Overflow::Block` has no room, nothing is changed and that subscriber
    /// is returned.
    pub(in crate::bus) fn remove(
        &self,
        topic: &TopicInner<E>,
        (hash, key): (u64, &Arc<E::Key>),
        (which, options): (&RemoveCondition<'_, E>, PublishOptions),
        known: &mut Known<E>,
        result: &mut PublishResult<E>,
    ) -> Result<bool, Arc<Subscriber<E>>> {
        self.look(hash, key, known);
        loop {
            match self.try_remove(topic, (hash, key), (which, options), known, result) {
                Attempt::Done(leavings) => {
                    self.clean_up(topic, leavings, result);
                    return Ok(true);
                }
                Attempt::Unchanged => return Ok(false),
                Attempt::Full(full) => return Err(full),
                Attempt::Stale => known.ask(topic.id(), |known| self.look(hash, key, known)),
                Attempt::Unknown => known.ask(topic.id(), |known| {
                    let origin = options.part().unwrap_or(topic.local());
                    let part = Some(Part::Withdraws(origin));
                    known.find_out(topic.folding(), (key, None), part, which.is_wanted());
                }),
            }
        }
    }

    fn try_remove(
        &self,
        topic: &TopicInner<E>,
        (hash, key): (u64, &Arc<E::Key>),
        (which, options): (&RemoveCondition<'_, E>, PublishOptions),
        known: &mut Known<E>,
        result: &mut PublishResult<E>,
    ) -> Attempt<E> {
        let mut state = self.state.lock();
        let Ok(place) = self.place(&state, hash, known) else {
            return Attempt::Stale;
        };
        let Some(place) = place.filter(SlotPosition::is_live) else {
            return Attempt::Unchanged;
        };
        match self.is_meant(&state, place, which, known) {
            None => return Attempt::Unknown,
            Some(false) => return Attempt::Unchanged,
            Some(true) => {}
        }
        let left = match state.withdrawal(topic, place, options) {
            Withdrawal::Unchanged => return Attempt::Unchanged,
            Withdrawal::OfKey if known.unfold() => return Attempt::Unknown,
            Withdrawal::OfKey => None,
            Withdrawal::OfPart(basis) => {
                let Some(folded) = known.folded(basis) else {
                    return Attempt::Unknown;
                };
                folded.event.clone()
            }
        };
        let kind = match &left {
            Some(_) => ChangeKind::Event,
            None => ChangeKind::Removed,
        };
        let where_ = state.place(hash, Some(place));
        if let Some(obstacle) = state.obstacle(where_, kind, options, known) {
            return obstacle;
        }
        if let Some(event) = left {
            let folded = known.take_folded();
            let change = (hash, event, Some(place));
            let by = (options.origin, folded);
            return Attempt::Done(self.change_by(&mut state, topic, change, by, known, result));
        }
        Attempt::Done(self.remove_key(
            &mut state,
            topic,
            (hash, key, place),
            options,
            known,
            result,
        ))
    }

    /// Whether the key satisfies the condition for its removal; `None` if the
    /// predicate must run first.
    fn is_meant(
        &self,
        state: &ShardState<E>,
        place: SlotPosition,
        which: &RemoveCondition<'_, E>,
        known: &mut Known<E>,
    ) -> Option<bool> {
        match which {
            RemoveCondition::Any => Some(true),
            RemoveCondition::Version(version) => Some(place.version() == *version),
            RemoveCondition::PublishedBy(origin) => {
                Some(state.origin_of_version(place.version()) == *origin)
            }
            RemoveCondition::Matching(_) => {
                let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
                known.matches(table.event(writer, place)?)
            }
        }
    }

    fn remove_key(
        &self,
        state: &mut ShardState<E>,
        topic: &TopicInner<E>,
        (hash, key, place): (u64, &Arc<E::Key>, SlotPosition),
        options: PublishOptions,
        known: &mut Known<E>,
        result: &mut PublishResult<E>,
    ) -> Leavings<E> {
        let mut change = ShardChange::Removed(key);
        let where_ = state.place(hash, Some(place));
        let origin = options.origin;
        (state.listeners).offer(where_, &mut change, origin, result, &known.answers);
        let is_forwarded = state.forward(topic, &change, origin);
        let newest_lag = state.listeners.newest_lag();
        let (mut version, mut swept, mut has_tombstone) = (0, Swept::NOTHING, false);
        if let Some((table, writer)) = self.cache(state) {
            has_tombstone = table.clear(writer, place, newest_lag);
            (version, swept) = (writer.version(), writer.sweep());
        }
        topic.forget_key();
        (result.version, result.born) = (version, place.born);
        state.forget_change(Some(place.version()));
        let parts = state.nodes.as_mut();
        let parts = parts.and_then(|nodes| nodes.parts.remove(place.born));
        // Laggards, who learn of the removal later, also learn the node.
        let nodes = self.note_change(state, version, origin.filter(|_| has_tombstone));
        Leavings {
            swept,
            uncached: Held::EMPTY,
            of_nodes: OfNodes::boxed(parts, known.take_folded(), nodes),
            is_forwarded,
        }
    }
}
