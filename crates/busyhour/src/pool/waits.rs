//! Who waits for whom: finds the cycle before a thread goes to sleep for ever.
//!
//! An edge A → B says that A's current task cannot end before B makes
//! progress. It exists while A waits in a synchronous push (or for room in a
//! full queue). A simulation has one more kind: a task that waits by running
//! somebody else on its own stack cannot end before that one does.

use std::sync::Arc;

use super::{Cycle, entity::Entity};
use crate::sync::{Mutex, lock};

/// The waiting edges of one pool; few at any time.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Vec<Edge>>);

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

impl Waits {
    /// Records that `waiter` waits for `awaited`, unless that closes a cycle.
    pub(crate) fn begin(
        &self,
        waiter: Option<Arc<dyn Entity>>,
        awaited: Arc<dyn Entity>,
    ) -> Result<Waiting<'_>, Cycle> {
        let mut edges = lock(&self.0);
        let Some(waiter) = waiter else {
            let edge = None;
            return Ok(Waiting { waits: self, edge });
        };
        if let Some(path) = path(&edges, &awaited, &waiter) {
            return Err(cycle(&waiter, &path));
        }
        let edge = Edge { waiter, awaited };
        edges.push(edge.clone());
        let edge = Some(edge);
        Ok(Waiting { waits: self, edge })
    }

    fn end(&self, ending: &Edge) {
        let mut edges = lock(&self.0);
        let position = edges.iter().position(|edge| edge.is(ending));
        let ended = position.map(|index| edges.swap_remove(index));
        drop(edges);
        drop(ended);
    }
}

/// The edge exists while this lives.
#[must_use]
pub(crate) struct Waiting<'a> {
    waits: &'a Waits,
    edge: Option<Edge>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(edge) = &self.edge {
            self.waits.end(edge);
        }
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
