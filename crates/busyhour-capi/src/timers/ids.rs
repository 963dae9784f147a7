use super::{bh_timer, bh_timers};
use crate::edge::{Failure, Outcome};
use crate::edge::{guard, live};
use crate::{edge::Out, result::bh_result};
use busyhour::timer::TimerHandle;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Ints that identify timers, for programs that keep them in an `int`.
#[derive(Default)]
pub(crate) struct TimerIds {
    state: Mutex<IdState>,
}

#[derive(Default)]
struct IdState {
    /// By id, less one.
    slots: Vec<IdSlot>,
    /// Released ids, the one released first in front.
    free: VecDeque<i32>,
}

#[derive(Default)]
struct IdSlot {
    /// How often the id was reserved: tells one use from the next.
    serial: u64,
    timer: Option<TimerHandle>,
}

/// Releases its id when it is dropped: with the callback of the timer.
pub(super) struct IdGuard {
    ids: Arc<TimerIds>,
    id: i32,
}

/// One use of an id.
#[derive(Clone, Copy)]
pub(super) struct IdTicket {
    id: i32,
    serial: u64,
}

/// The timer with this int; `BH_NOT_FOUND` once it is over.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_by_id(
    timers: *const bh_timers,
    id: i32,
    out: *mut bh_timer,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let handle = live(timers, "timers")?.ids.get(id);
        let handle =
            handle.ok_or_else(|| Failure::not_found(format!("no timer has the id {id}")))?;
        out.write(bh_timer::new(handle));
        Ok(())
    })
}

impl TimerIds {
    pub(super) fn reserve(self: &Arc<Self>) -> Outcome<IdGuard> {
        let mut state = self.lock();
        let id = match state.free.pop_front() {
            Some(id) => id,
            None => state.grow()?,
        };
        state.slot(id).serial += 1;
        let ids = Arc::clone(self);
        Ok(IdGuard { ids, id })
    }

    fn get(&self, id: i32) -> Option<TimerHandle> {
        let state = self.lock();
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        state.slots.get(index)?.timer
    }

    fn lock(&self) -> MutexGuard<'_, IdState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdState {
    fn grow(&mut self) -> Outcome<i32> {
        let full = |_| Failure::new(bh_result::BH_FULL, "every int identifies a timer");
        let id = i32::try_from(self.slots.len() + 1).map_err(full)?;
        self.slots.push(IdSlot::default());
        Ok(id)
    }

    fn slot(&mut self, id: i32) -> &mut IdSlot {
        &mut self.slots[id as usize - 1]
    }
}

impl IdGuard {
    pub(super) fn ticket(&self) -> IdTicket {
        IdTicket {
            id: self.id,
            serial: self.ids.lock().slot(self.id).serial,
        }
    }
}

impl Drop for IdGuard {
    fn drop(&mut self) {
        let mut state = self.ids.lock();
        state.slot(self.id).timer = None;
        state.slot(self.id).serial += 1;
        state.free.push_back(self.id);
    }
}

impl IdTicket {
    pub(super) fn id(self) -> i32 {
        self.id
    }

    /// Notes the timer, unless it is over already.
    pub(super) fn set(self, ids: &TimerIds, timer: TimerHandle) {
        let mut state = ids.lock();
        let slot = state.slot(self.id);
        if slot.serial == self.serial {
            slot.timer = Some(timer);
        }
    }
}
