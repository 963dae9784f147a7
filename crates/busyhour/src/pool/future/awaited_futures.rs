//! The futures whose handles wait. See README.md, "Waiting that ends".

use std::{collections::HashMap, sync::Weak};

use super::join::Joinable;
use crate::sync::{CachePadded, Mutex, lock};

/// By the address of the result cell, in a few stripes so that threads seldom
/// use the same one. A handle is listed from its first wait to its end.
#[derive(Default)]
pub(in crate::pool) struct AwaitedFutures([CachePadded<Stripe>; STRIPES]);

type Stripe = Mutex<HashMap<usize, Weak<dyn Joinable>>>;

impl AwaitedFutures {
    pub(in crate::pool) fn insert(&self, key: usize, future: Weak<dyn Joinable>) {
        lock(self.stripe(key)).insert(key, future);
    }

    pub(in crate::pool) fn remove(&self, key: usize) {
        lock(self.stripe(key)).remove(&key);
    }

    /// Wakes them all, with no lock held.
    pub(in crate::pool) fn wake_all(&self) {
        for stripe in &self.0 {
            let futures: Vec<_> = lock(stripe).values().cloned().collect();
            let living = futures.iter().filter_map(Weak::upgrade);
            living.for_each(|future| future.wake_now());
        }
    }

    fn stripe(&self, key: usize) -> &Stripe {
        // Result cells are larger than a cache line.
        &self.0[(key >> 6) % STRIPES]
    }
}

const STRIPES: usize = 8;
