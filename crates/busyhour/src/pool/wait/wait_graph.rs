//! The wait graph: finds a cycle of waits before a thread goes to sleep for
//! ever.
//!
//! An edge A → B means that A's current task cannot end before B makes
//! progress. It exists while A waits: in a synchronous push, for room in a full
//! queue, for a future, for a subscriber. A simulation has one more kind: a
//! task that waits by running another task on its own stack cannot end before
//! that one does.
//!
//! Two things are no entity: a subscription whose turns run in a plain task or
//! on the thread that publishes, and a timer's callback. For these only the
//! thread that runs them now is known, if there is one; so an edge also stores
//! the thread of its waiter. A task that shuts a pool down waits for everything
//! that runs there: a thread that works for that pool and waits for the
//! serializer of that task would wait for itself.
//!
//! There is one graph for the process, since a cycle may lead through several
//! pools. A thread takes its lock only when a task is about to block.

use std::{
    cell::Cell,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    pool::{
        Cycle,
        context::{current_entity, current_pool},
        entity::{Entity, EntityRef},
        shared::Shared,
        wait::section::Section,
    },
    sync::{Mutex, lazy_static, lock, thread_token, zeroed_thread_local},
};

lazy_static! {
    // The waiting edges of all pools; few at any time.
    static ref WAIT_GRAPH: Mutex<WaitGraph> = Mutex::new(WaitGraph::default());
}

zeroed_thread_local! {
    static TURNS: Cell<u32>;
}

/// The number of serializers' tasks that are shutting a pool down.
static CLOSERS: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct WaitGraph {
    edges: Vec<Edge>,
    next_id: u64,
}

/// The waiter runs, so it is alive. The edge does not keep the awaited one
/// alive.
struct Edge {
    id: u64,
    thread: usize,
    /// `None` for a turn or callback that runs outside of any serializer.
    waiter: Option<Arc<dyn Entity>>,
    /// The exclusive section that waits, on no thread; the edge ends with it.
    section: Option<Weak<Section>>,
    awaited: WaitTarget,
}

enum WaitTarget {
    Entity(Weak<dyn Entity>),
    Turns(Arc<dyn Turns>),
    /// The end of everything that runs in the pool at this address.
    Quiet(usize),
}

/// A subscription, of which at most one turn runs at a time, or a timer.
pub(crate) trait Turns: Send + Sync {
    /// The [`thread_token`] of the thread that now runs its turn or callback.
    fn runner(&self) -> Option<usize>;
}

/// A thread that is about to wait.
struct Waiter {
    thread: usize,
    entity: Option<Arc<dyn Entity>>,
}

impl Waiter {
    /// What this thread runs, if other threads may wait for it: a task of an
    /// entity, a subscription's turn or a timer's callback.
    fn current() -> Option<Self> {
        let entity = current_entity();
        let thread = thread_token();
        (entity.is_some() || TURNS.try_with(Cell::get).is_ok_and(|turns| turns > 0))
            .then_some(Self { thread, entity })
    }

    fn is_thread(&self, thread: usize) -> bool {
        self.thread == thread
    }

    fn is_entity(&self, address: usize) -> bool {
        (self.entity.as_ref()).is_some_and(|entity| Arc::as_ptr(entity).addr() == address)
    }
}

impl Edge {
    fn is_from(&self, entity: usize) -> bool {
        (self.waiter.as_ref()).is_some_and(|waiter| Arc::as_ptr(waiter).addr() == entity)
    }

    fn name(&self) -> String {
        name(self.waiter.as_ref())
    }

    fn is_waiting(&self) -> bool {
        let section = self.section.as_ref();
        section.is_none_or(|section| section.strong_count() > 0)
    }
}

fn name(waiter: Option<&Arc<dyn Entity>>) -> String {
    waiter.map_or_else(|| "(task)".to_owned(), |waiter| waiter.name())
}

/// Records that this thread runs a subscription's turn, or a timer's callback,
/// while the guard lives.
pub(crate) fn in_turn() -> InTurn {
    change_turns(|turns| turns + 1);
    InTurn
}

#[must_use]
pub(crate) struct InTurn;

impl Drop for InTurn {
    fn drop(&mut self) {
        change_turns(|turns| turns - 1);
    }
}

/// Deliveries may be dropped by a thread whose own variables are gone already:
/// it waits for nothing any more.
fn change_turns(change: impl FnOnce(u32) -> u32) {
    let _gone = TURNS.try_with(|turns| turns.set(change(turns.get())));
}

/// Records that this thread's current task or turn waits for `awaited`, unless
/// that closes a cycle. Outside of an entity's task and of a turn nothing is
/// recorded.
pub(crate) fn wait_for(awaited: &Arc<dyn Entity>) -> Result<Waiting, Cycle> {
    if let Some(cycle) = cycle_by_shutdown(awaited) {
        return Err(cycle);
    }
    begin(|| WaitTarget::Entity(Arc::downgrade(awaited)))
}

/// Like [`wait_for`], with another form of reference.
pub(in crate::pool) fn wait_for_ref(awaited: EntityRef<'_>) -> Result<Waiting, Cycle> {
    begin(|| WaitTarget::Entity(Arc::downgrade(&awaited.to_arc())))
}

/// Like [`wait_for`], for the next turn of a subscription or the end of a
/// callback.
pub(crate) fn wait_for_turn(awaited: Arc<dyn Turns>) -> Result<Waiting, Cycle> {
    begin(|| WaitTarget::Turns(awaited))
}

/// Records that an exclusive section of `waiter` awaits the entity, unless that
/// closes a cycle.
pub(super) fn section_waits_for(
    section: &Arc<Section>,
    waiter: Arc<dyn Entity>,
    awaited: &Arc<dyn Entity>,
) -> Result<Waiting, Cycle> {
    let waiter = Waiter {
        thread: NO_THREAD,
        entity: Some(waiter),
    };
    let awaited = WaitTarget::Entity(Arc::downgrade(awaited));
    insert_unless_cycle(waiter, Some(Arc::downgrade(section)), || awaited)
}

/// Records that this thread's entity waits until nothing runs in the pool any
/// more.
pub(in crate::pool) fn wait_for_quiet(pool: &Shared) -> Closing {
    CLOSERS.fetch_add(1, Ordering::SeqCst);
    let entity = current_entity();
    let thread = thread_token();
    let waiter = entity.map(|entity| Waiter {
        thread,
        entity: Some(entity),
    });
    let awaited = WaitTarget::Quiet(address(pool));
    Closing {
        _waiting: waiter.map(|waiter| lock(&WAIT_GRAPH).insert(waiter, None, awaited)),
    }
}

/// The cycle, if `awaited` runs a task that shuts down the pool for which this
/// thread works: then neither of the two continues before the deadline. The
/// shutdown wakes threads that already wait, so that they check again.
pub(crate) fn cycle_by_shutdown(awaited: &Arc<dyn Entity>) -> Option<Cycle> {
    if CLOSERS.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let pool = current_pool().filter(|pool| !pool.lifecycle.is_open())?;
    let (target, pool) = (Arc::as_ptr(awaited).addr(), address(&pool));
    let closes = |edge: &Edge| {
        edge.is_from(target) && matches!(edge.awaited, WaitTarget::Quiet(closed) if closed == pool)
    };
    let is_closing = lock(&WAIT_GRAPH).edges.iter().any(closes);
    is_closing.then(|| Cycle(vec![name(current_entity().as_ref()), awaited.name()]))
}

fn address(pool: &Shared) -> usize {
    std::ptr::from_ref(pool).addr()
}

fn begin(awaited: impl FnOnce() -> WaitTarget) -> Result<Waiting, Cycle> {
    let Some(waiter) = Waiter::current() else {
        return Ok(Waiting { id: None });
    };
    insert_unless_cycle(waiter, None, awaited)
}

fn insert_unless_cycle(
    waiter: Waiter,
    section: Option<Weak<Section>>,
    awaited: impl FnOnce() -> WaitTarget,
) -> Result<Waiting, Cycle> {
    let (mut all, awaited) = (lock(&WAIT_GRAPH), awaited());
    let Some(path) = all.path(&awaited, &waiter) else {
        return Ok(all.insert(waiter, section, awaited));
    };
    drop(all);
    let mut names = vec![name(waiter.entity.as_ref())];
    names.extend(path);
    Err(Cycle(names))
}

/// The edge exists while this lives.
#[must_use]
pub(crate) struct Waiting {
    id: Option<u64>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut all = lock(&WAIT_GRAPH);
        // The latest waits mostly end first.
        let position = all.edges.iter().rposition(|edge| edge.id == id);
        debug_assert!(position.is_some(), "an edge is removed once");
        let ended = position.map(|index| all.edges.swap_remove(index));
        drop(all);
        drop(ended);
    }
}

/// While this lives, a task of this thread is shutting a pool down.
#[must_use]
pub(in crate::pool) struct Closing {
    _waiting: Option<Waiting>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        CLOSERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What no thread has as its token.
const NO_THREAD: usize = 0;

impl WaitGraph {
    fn insert(
        &mut self,
        waiter: Waiter,
        section: Option<Weak<Section>>,
        awaited: WaitTarget,
    ) -> Waiting {
        let id = self.next_id;
        self.next_id += 1;
        self.edges.push(Edge {
            id,
            thread: waiter.thread,
            waiter: waiter.entity,
            section,
            awaited,
        });
        Waiting { id: Some(id) }
    }

    /// The names of the waiters on a path along the edges from `awaited` to
    /// `waiter`, which is left out.
    fn path(&self, awaited: &WaitTarget, waiter: &Waiter) -> Option<Vec<String>> {
        let mut ways: Vec<Vec<&Edge>> = vec![Vec::new()];
        let mut seen = Vec::new();
        while let Some(way) = ways.pop() {
            let last = way.last().map_or(awaited, |edge| &edge.awaited);
            // The address belongs to no other object while the edge exists.
            let (entity, thread) = match last {
                WaitTarget::Entity(entity) => (Some(entity.as_ptr().addr()), None),
                WaitTarget::Turns(turns) => (None, turns.runner()),
                WaitTarget::Quiet(_) => (None, None),
            };
            let is_entity = entity.is_some_and(|entity| waiter.is_entity(entity));
            if is_entity || thread.is_some_and(|thread| waiter.is_thread(thread)) {
                return Some(way.iter().map(|edge| edge.name()).collect());
            }
            let goes_on = |edge: &&Edge| {
                entity.is_some_and(|entity| edge.is_from(entity)) || thread == Some(edge.thread)
            };
            let living = self.edges.iter().filter(|edge| edge.is_waiting());
            for edge in living.filter(goes_on) {
                if !seen.contains(&edge.id) {
                    seen.push(edge.id);
                    let mut longer = way.clone();
                    longer.push(edge);
                    ways.push(longer);
                }
            }
        }
        None
    }
}
