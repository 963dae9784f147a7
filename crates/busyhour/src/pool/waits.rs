//! Who waits for whom: finds the cycle before a thread goes to sleep for ever.
//!
//! An edge A → B says that A's current task cannot end before B makes
//! progress. It exists while A waits: in a synchronous push, for room in a
//! full queue, for a future, for a subscriber. A simulation has one more kind: a
//! task that waits by running somebody else on its own stack cannot end before
//! that one does.
//!
//! There is one list for the process, since a cycle may lead through several
//! pools. A thread takes its lock only when a task is about to block.

use std::sync::{Arc, Weak};

use super::{
    Cycle,
    context::current_entity,
    entity::{Entity, EntityRef},
};
use crate::sync::{Mutex, lazy_static, lock};

lazy_static! {
    // The waiting edges of all pools; few at any time.
    static ref EDGES: Mutex<Edges> = Mutex::new(Edges::default());
}

#[derive(Default)]
struct Edges {
    edges: Vec<Edge>,
    next_id: u64,
}

/// The waiter runs, so it lives. The awaited one is not kept from ending.
struct Edge {
    id: u64,
    waiter: Arc<dyn Entity>,
    awaited: Weak<dyn Entity>,
}

impl Edge {
    fn from(&self) -> usize {
        Arc::as_ptr(&self.waiter).addr()
    }

    /// The address is nobody else's while the edge exists.
    fn to(&self) -> usize {
        self.awaited.as_ptr().addr()
    }
}

/// Records that the entity whose task this thread runs waits for `awaited`,
/// unless that closes a cycle. Outside of an entity's task nothing is recorded.
pub(crate) fn wait_for(awaited: &Arc<dyn Entity>) -> Result<Waiting, Cycle> {
    match current_entity() {
        Some(waiter) => begin(waiter, Arc::downgrade(awaited)),
        None => Ok(Waiting { id: None }),
    }
}

/// As [`wait_for`], for an entity that is at hand in another form.
pub(super) fn wait_for_ref(awaited: EntityRef<'_>) -> Result<Waiting, Cycle> {
    match current_entity() {
        Some(waiter) => begin(waiter, Arc::downgrade(&awaited.to_arc())),
        None => Ok(Waiting { id: None }),
    }
}

fn begin(waiter: Arc<dyn Entity>, awaited: Weak<dyn Entity>) -> Result<Waiting, Cycle> {
    let mut all = lock(&EDGES);
    let id = all.next_id;
    let edge = Edge {
        id,
        waiter,
        awaited,
    };
    let Some(path) = path(&all.edges, edge.to(), edge.from()) else {
        all.edges.push(edge);
        all.next_id += 1;
        return Ok(Waiting { id: Some(id) });
    };
    drop(all);
    let waiters = std::iter::once(edge.waiter).chain(path);
    Err(Cycle(waiters.map(|entity| entity.name()).collect()))
}

/// The edge exists while this lives.
#[must_use]
pub(crate) struct Waiting {
    id: Option<u64>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut all = lock(&EDGES);
        // The latest waits end first, mostly.
        let position = all.edges.iter().rposition(|edge| edge.id == id);
        debug_assert!(position.is_some(), "an edge is removed once");
        let ended = position.map(|index| all.edges.swap_remove(index));
        drop(all);
        drop(ended);
    }
}

/// The entities on a way along the edges, from the one at the address `from`
/// to the one at `to`, which is left out.
fn path(edges: &[Edge], from: usize, to: usize) -> Option<Vec<Arc<dyn Entity>>> {
    if from != to && !edges.iter().any(|edge| edge.from() == from) {
        return None;
    }
    let mut ways: Vec<Vec<&Edge>> = vec![Vec::new()];
    while let Some(way) = ways.pop() {
        let last = way.last().map_or(from, |edge| edge.to());
        if last == to {
            return Some(way.iter().map(|edge| Arc::clone(&edge.waiter)).collect());
        }
        for edge in edges.iter().filter(|edge| edge.from() == last) {
            let mut longer = way.clone();
            longer.push(edge);
            ways.push(longer);
        }
    }
    None
}
