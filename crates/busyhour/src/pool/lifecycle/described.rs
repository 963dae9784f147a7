use std::sync::{Arc, Weak};

use crate::sync::{Mutex, lock};

/// Something that a description of the pool lists, as statistics of type `S`.
pub(crate) trait Describes<S>: Send + Sync {
    fn describe(&self) -> S;
}

/// Parts that a description lists, in the order of their creation. Keeps none of
/// them alive.
pub(crate) struct DescribedParts<S>(Mutex<Vec<Weak<dyn Describes<S>>>>);

impl<S> Default for DescribedParts<S> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<S> DescribedParts<S> {
    /// Adds a part, unless it is there.
    pub(crate) fn add(&self, part: &Weak<dyn Describes<S>>) {
        let mut parts = lock(&self.0);
        parts.retain(|known| known.strong_count() > 0);
        if !parts.iter().any(|known| Weak::ptr_eq(known, part)) {
            parts.push(Weak::clone(part));
        }
    }

    pub(crate) fn describe(&self) -> Vec<S> {
        let living: Vec<Arc<_>> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        living.iter().map(|part| part.describe()).collect()
    }
}
