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

use std::sync::Arc;

use super::{
    Cycle,
    context::current_entity,
    entity::{Entity, EntityRef},
};
use crate::sync::{Mutex, lazy_static, lock};

lazy_static! {
    // The waiting edges of all pools; few at any time.
    static ref EDGES: Mutex<Vec<Edge>> = Mutex::new(Vec::new());
}

#[derive(Clone)]
struct Edge {
    waiter: Arc<dyn Entity>,
    awaited: Arc<dyn Entity>,
}

impl Edge {
    fn is(&self, other: &Self) -> bool {
        is(&self.waiter, &other.waiter) && is(&self.awaited, &other.awaited)
    }
}

/// Records that the entity whose task this thread runs waits for `awaited`,
/// unless that closes a cycle. Outside of an entity's task nothing is recorded.
pub(crate) fn wait_for(awaited: &Arc<dyn Entity>) -> Result<Waiting, Cycle> {
    match current_entity() {
        Some(waiter) => begin(waiter, Arc::clone(awaited)),
        None => Ok(Waiting { edge: None }),
    }
}

/// As [`wait_for`], for an entity that is at hand in another form.
pub(super) fn wait_for_ref(awaited: EntityRef<'_>) -> Result<Waiting, Cycle> {
    match current_entity() {
        Some(waiter) => begin(waiter, awaited.to_arc()),
        None => Ok(Waiting { edge: None }),
    }
}

fn begin(waiter: Arc<dyn Entity>, awaited: Arc<dyn Entity>) -> Result<Waiting, Cycle> {
    let mut edges = lock(&EDGES);
    if let Some(path) = path(&edges, &awaited, &waiter) {
        drop(edges);
        return Err(cycle(&waiter, &path));
    }
    let edge = Edge { waiter, awaited };
    edges.push(edge.clone());
    Ok(Waiting { edge: Some(edge) })
}

/// The edge exists while this lives.
#[must_use]
pub(crate) struct Waiting {
    edge: Option<Edge>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ending) = self.edge.take() else {
            return;
        };
        let mut edges = lock(&EDGES);
        let position = edges.iter().position(|edge| edge.is(&ending));
        debug_assert!(position.is_some(), "an edge is removed once");
        let ended = position.map(|index| edges.swap_remove(index));
        drop(edges);
        drop(ended);
    }
}

/// The entities on a way from `from` to `to` along the edges, both included.
fn path(
    edges: &[Edge],
    from: &Arc<dyn Entity>,
    to: &Arc<dyn Entity>,
) -> Option<Vec<Arc<dyn Entity>>> {
    let mut ways = vec![vec![Arc::clone(from)]];
    while let Some(way) = ways.pop() {
        let Some(last) = way.last() else { continue };
        if is(last, to) {
            return Some(way);
        }
        for edge in edges.iter().filter(|edge| is(&edge.waiter, last)) {
            let mut longer = way.clone();
            longer.push(Arc::clone(&edge.awaited));
            ways.push(longer);
        }
    }
    None
}

/// `path` ends with the waiter; the cycle is told from the waiter on.
fn cycle(waiter: &Arc<dyn Entity>, path: &[Arc<dyn Entity>]) -> Cycle {
    let others = path.iter().filter(|entity| !is(entity, waiter));
    let names = std::iter::once(waiter).chain(others);
    Cycle(names.map(|entity| entity.name()).collect())
}

fn is(one: &Arc<dyn Entity>, other: &Arc<dyn Entity>) -> bool {
    Arc::ptr_eq(one, other)
}
