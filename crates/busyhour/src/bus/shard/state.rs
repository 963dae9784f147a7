//! Short steps for the holder of a shard's lock.

use super::*;

impl<E: Event> ShardState<E> {
    #[inline(always)]
    pub(super) fn place(
        &self,
        hash: u64,
        place: Option<SlotPosition>,
    ) -> shard_subscribers::ListPosition {
        let version = self.writer.as_ref().map_or(0, CacheWriter::version);
        let next = self
            .writer
            .as_ref()
            .map_or(0, |writer| writer.version() + 1);
        shard_subscribers::ListPosition {
            shard: self.index,
            hash,
            born: place.map_or(next, |place| place.born),
            version,
        }
    }

    /// What prevents the change now: an open question, or a subscriber without
    /// room.
    #[inline(always)]
    pub(super) fn obstacle(
        &self,
        place: shard_subscribers::ListPosition,
        kind: ChangeKind,
        options: PublishOptions,
        known: &mut Known<E>,
    ) -> Option<Attempt<E>> {
        if self.listeners.may_ask() && !self.listeners.ask(place, kind, &mut known.answers) {
            return Some(Attempt::Unknown);
        }
        if options.may_wait && self.listeners.may_be_full() {
            let full = self.listeners.find_full(place, kind, &known.answers);
            return full.map(Attempt::Full);
        }
        None
    }

    /// Queues the change for the topics this one is forwarded to; returns
    /// whether there are any.
    #[inline(always)]
    pub(super) fn forward(
        &mut self,
        topic: &TopicInner<E>,
        change: &ShardChange<'_, E>,
        origin: Option<NodeId>,
    ) -> bool {
        let origin = origin.unwrap_or(topic.local());
        for to in &self.forwards {
            let (to, item) = (Arc::clone(to), change.to_item());
            self.outbox.push(ForwardedChange { to, item, origin });
        }
        !self.forwards.is_empty()
    }

    /// The nodes' states of the key, if another node has published it.
    pub(super) fn parts_of(&self, place: SlotPosition) -> Option<Parts<E>> {
        self.nodes.as_ref()?.parts.of(place.born).cloned()
    }

    /// Sets the nodes' states of a key; returns the old ones.
    pub(super) fn set_parts(
        &mut self,
        born: u64,
        parts: &Parts<E>,
        local: NodeId,
    ) -> Option<Parts<E>> {
        let nodes = self.nodes.get_or_insert_default();
        match parts.iter().all(|(origin, _)| *origin == local) {
            true => nodes.parts.remove(born),
            false => nodes.parts.set(born, SharedEvent::clone(parts)),
        }
    }

    /// Forgets the origin of a change that another one has followed.
    pub(super) fn forget_change(&mut self, last: Option<u64>) {
        if let (Some(nodes), Some(version)) = (&mut self.nodes, last) {
            if !nodes.origins.is_empty() {
                nodes.origins.forget(version);
            }
        }
    }

    /// The node that made the change, if it was another one.
    pub(super) fn origin_of_version(&self, version: u64) -> Option<NodeId> {
        self.nodes.as_ref()?.origins.of(version)
    }

    /// The origins of those changes that other nodes made, by version.
    pub(super) fn remote_origins_of(
        &self,
        versions: impl Iterator<Item = u64>,
    ) -> BTreeMap<u64, NodeId> {
        if self.nodes.is_none() {
            return BTreeMap::new();
        }
        let spoken = |version| Some((version, self.origin_of_version(version)?));
        versions.filter_map(spoken).collect()
    }

    /// What to remove of a key when a node removes its state.
    pub(super) fn withdrawal(
        &self,
        topic: &TopicInner<E>,
        place: SlotPosition,
        options: PublishOptions,
    ) -> Withdrawal<E> {
        let Some(folding) = topic.folding() else {
            return Withdrawal::OfKey;
        };
        let origin = options.part().unwrap_or(folding.local);
        match self.parts_of(place) {
            None if origin == folding.local => Withdrawal::OfKey,
            Some(parts) if part(&parts, origin).is_some() => Withdrawal::OfPart(Basis {
                parts: Some(parts),
                local: None,
            }),
            _ => Withdrawal::Unchanged,
        }
    }
}
