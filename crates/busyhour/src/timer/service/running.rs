//! Which timers' callbacks this thread is in, and who waits for whose end.

use crate::{
    sync::{Mutex, lazy_static, lock, thread_local},
    timer::handle::TimerHandle,
};
use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicUsize, Ordering},
};

// The model checker's macro knows no constant initialiser.
thread_local! {
    #[allow(clippy::missing_const_for_thread_local)]
    static RUNNING: RefCell<Vec<TimerHandle>> = RefCell::new(Vec::new());
    #[allow(clippy::missing_const_for_thread_local)]
    static LANE: Cell<Option<usize>> = Cell::new(None);
}

/// The number of the calling thread, given in the order of their first use.
pub(super) fn thread_index() -> usize {
    LANE.with(|lane| {
        let number = lane
            .get()
            .unwrap_or_else(|| LANES.fetch_add(1, Ordering::Relaxed));
        lane.set(Some(number));
        number
    })
}

static LANES: AtomicUsize = AtomicUsize::new(0);

/// Notes that this thread is in the callback of `handle` while the guard lives.
/// Callbacks nest where a wait helps by running other tasks.
///
/// A thread that ends may drop deliveries after its own variables: it waits for
/// nobody any more, so there is nothing to note.
pub(super) fn enter(handle: TimerHandle) -> Entered {
    let _ended = RUNNING.try_with(|running| running.borrow_mut().push(handle));
    Entered
}

/// The callbacks that this thread is in, the outermost first.
fn inside() -> Vec<TimerHandle> {
    let inside = RUNNING.try_with(|running| running.borrow().clone());
    inside.unwrap_or_default()
}

pub(in crate::timer) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        let _ended = RUNNING.try_with(|running| running.borrow_mut().pop());
    }
}

lazy_static! {
    // The waits for the end of a callback that go on now, kept to refuse one
    // that could never end. One list for the process, since a circle may lead
    // through several services; locked only by who is about to wait.
    static ref WAITS: Mutex<Vec<WaitEdge>> = Mutex::new(Vec::new());
}

#[derive(Debug)]
struct WaitEdge {
    /// The callbacks that the waiting thread is in.
    inside: Vec<TimerHandle>,
    for_end_of: TimerHandle,
}

/// Registers a wait of this thread for the end of `target`'s callback; `None`
/// if that in turn waits, through whatever chain, for a callback that this
/// thread is in.
pub(super) fn wait_for(target: TimerHandle) -> Option<CallbackWait> {
    let inside = inside();
    let mut waits = lock(&WAITS);
    if reaches(&waits, target, &inside) {
        return None;
    }
    waits.push(WaitEdge {
        inside,
        for_end_of: target,
    });
    Some(CallbackWait { target })
}

/// Follows `target` from wait to wait. Each callback is in one thread, which
/// waits for one other at most, so the chain has no forks; and it has no
/// circle, since the wait that would close one is refused.
fn reaches(waits: &[WaitEdge], target: TimerHandle, inside: &[TimerHandle]) -> bool {
    let mut next = Some(target);
    while let Some(target) = next {
        if inside.contains(&target) {
            return true;
        }
        let wait = waits.iter().find(|wait| wait.inside.contains(&target));
        next = wait.map(|wait| wait.for_end_of);
    }
    false
}

/// A registered wait.
pub(in crate::timer) struct CallbackWait {
    target: TimerHandle,
}

impl Drop for CallbackWait {
    fn drop(&mut self) {
        let inside = inside();
        let mut waits = lock(&WAITS);
        let own = |wait: &WaitEdge| wait.for_end_of == self.target && wait.inside == inside;
        let index = waits.iter().position(own);
        debug_assert!(index.is_some(), "a wait is registered until it ends");
        if let Some(index) = index {
            waits.swap_remove(index);
        }
    }
}
