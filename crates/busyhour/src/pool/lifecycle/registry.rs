//! The registry of serializers: names are unique while their owner lives.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use crate::{
    pool::entity::Entity,
    stats::SerializerStats,
    sync::{Mutex, lock},
};

/// Every named entity of a pool, and the suspended ones without a name: a
/// shutdown finds all others in a queue. Keeps none of them alive.
#[derive(Default)]
pub(crate) struct EntityRegistry {
    names: Mutex<BTreeMap<String, Weak<dyn Entity>>>,
    /// How many entities are above their high watermark, named or not.
    pub(crate) high_count: AtomicUsize,
    /// How many numbers were given to entities that share a name.
    number_count: AtomicU64,
    /// By address.
    suspended: Mutex<BTreeMap<usize, Suspended>>,
}

struct Suspended {
    entity: Weak<dyn Entity>,
    /// Calls of `suspend` without their `resume` yet.
    count: u32,
}

impl EntityRegistry {
    /// A number from 1 on that no other entity has.
    pub(crate) fn next_number(&self) -> u64 {
        self.number_count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Gives `name` to what `make` builds; `None` if a living entity has the
    /// name.
    pub(crate) fn claim<E: Entity>(
        &self,
        name: &str,
        make: impl FnOnce() -> Arc<E>,
    ) -> Option<Arc<E>> {
        let mut names = lock(&self.names);
        if names
            .get(name)
            .is_some_and(|entity| entity.strong_count() > 0)
        {
            return None;
        }
        let entity = make();
        let as_entity: Arc<dyn Entity> = entity.clone();
        names.insert(name.to_owned(), Arc::downgrade(&as_entity));
        Some(entity)
    }

    /// Forgets a name whose entity was dropped; a new entity with the same name
    /// stays.
    pub(crate) fn release(&self, name: &str) {
        let mut names = lock(&self.names);
        if names
            .get(name)
            .is_some_and(|entity| entity.strong_count() == 0)
        {
            names.remove(name);
        }
    }

    /// The living entity with this name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Entity>> {
        lock(&self.names).get(name).and_then(Weak::upgrade)
    }

    /// The living entities in the order of their names.
    pub(crate) fn living(&self) -> Vec<Arc<dyn Entity>> {
        lock(&self.names)
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Lists an entity without a name that is suspended.
    pub(crate) fn suspend(&self, entity: &Arc<dyn Entity>) {
        let mut suspended = lock(&self.suspended);
        let entry = suspended.entry(address(entity));
        let entity = Arc::downgrade(entity);
        entry.or_insert(Suspended { entity, count: 0 }).count += 1;
    }

    /// Removes it again, after as many calls.
    pub(crate) fn resume(&self, entity: &Arc<dyn Entity>) {
        let mut suspended = lock(&self.suspended);
        if let Some(entry) = suspended.get_mut(&address(entity)) {
            entry.count -= 1;
            if entry.count == 0 {
                suspended.remove(&address(entity));
            }
        }
    }

    /// The suspended entities without a name.
    pub(crate) fn suspended(&self) -> Vec<Arc<dyn Entity>> {
        let suspended = lock(&self.suspended);
        suspended
            .values()
            .filter_map(|suspended| suspended.entity.upgrade())
            .collect()
    }

    pub(crate) fn stats(&self) -> Vec<SerializerStats> {
        let living = self.living();
        living.iter().map(|entity| entity.stats()).collect()
    }
}

fn address(entity: &Arc<dyn Entity>) -> usize {
    Arc::as_ptr(entity).addr()
}
