//! Names of serializers: unique while their owner lives.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use super::entity::Entity;
use crate::{
    stats::SerializerStats,
    sync::{Mutex, lock},
};

/// Every named entity of a pool. Holds none of them alive.
#[derive(Default)]
pub(crate) struct Registry(Mutex<BTreeMap<String, Weak<dyn Entity>>>);

impl Registry {
    /// Gives `name` to what `make` builds; `None` when a living entity has it.
    pub(crate) fn claim<E: Entity>(
        &self,
        name: &str,
        make: impl FnOnce() -> Arc<E>,
    ) -> Option<Arc<E>> {
        let mut names = lock(&self.0);
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

    /// Forgets a name whose entity is gone; a successor of the same name stays.
    pub(crate) fn release(&self, name: &str) {
        let mut names = lock(&self.0);
        if names
            .get(name)
            .is_some_and(|entity| entity.strong_count() == 0)
        {
            names.remove(name);
        }
    }

    /// The living entities in the order of their names.
    pub(crate) fn living(&self) -> Vec<Arc<dyn Entity>> {
        lock(&self.0).values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn stats(&self) -> Vec<SerializerStats> {
        let living = self.living();
        living.iter().map(|entity| entity.stats()).collect()
    }
}
