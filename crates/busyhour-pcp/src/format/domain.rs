use crate::Instance;
use busyhour::clock::UnixTime;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// An instance domain over time. Kept as the changes that the archive holds,
/// so that many small deltas stay small.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domain {
    changes: Vec<Change>,
}

/// One record about a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) at: UnixTime,
    /// A full record replaces what was before, a delta changes it.
    pub(crate) is_full: bool,
    pub(crate) added: Vec<Instance>,
    pub(crate) removed: Vec<i32>,
}

impl Domain {
    pub(crate) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The instances at `time`, in the order of their identifiers.
    ///
    /// Those of the first record when `time` is before it, because the first
    /// samples are often a moment older than the domain's description.
    pub fn at(&self, time: UnixTime) -> Vec<Instance> {
        let mut present = HashMap::new();
        for (index, change) in self.changes.iter().enumerate() {
            if change.at > time && index > 0 {
                break;
            }
            change.apply(&mut present);
        }
        let mut instances: Vec<Instance> = present.into_values().cloned().collect();
        instances.sort_by_key(|instance| instance.id);
        instances
    }

    /// Every instance that ever existed, in the order of appearance. An instance that
    /// changed its name has its last name.
    pub(crate) fn all(&self) -> Arc<[Instance]> {
        let mut names = HashMap::new();
        let added = || self.changes.iter().flat_map(|change| &change.added);
        for instance in added() {
            names.insert(instance.id, &instance.name);
        }
        let mut seen = HashSet::new();
        added()
            .filter(|instance| seen.insert(instance.id))
            .map(|instance| Instance {
                id: instance.id,
                name: names[&instance.id].clone(),
            })
            .collect()
    }
}

impl Change {
    fn apply<'a>(&'a self, present: &mut HashMap<i32, &'a Instance>) {
        if self.is_full {
            present.clear();
        }
        for id in &self.removed {
            present.remove(id);
        }
        for instance in &self.added {
            present.insert(instance.id, instance);
        }
    }
}
