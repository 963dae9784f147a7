//! `timers-shared` on a list of slots: the least that a service of timers costs whose memory is bounded, whose cancel
//! says whether it was in time, which delivers in order, and which runs and drops callbacks under no lock and inside a
//! catch. Order is made when timers are due, by a look at all of them; there is one executor, the driver's thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kit::{Args, timers};

type Callback = Box<dyn FnOnce() + Send>;

struct State {
    slots: Vec<Slot>,
    /// One more than the slot released last; 0 if there is none.
    released: u32,
    live: u64,
    added: u64,
    /// No timer is due before this.
    earliest_ns: u64,
    stops: bool,
}

struct Slot {
    /// Even while a timer is in it; each use has its own.
    stamp: u32,
    /// One more than the slot released before.
    next: u32,
    deadline_ns: u64,
    /// Which of all adds it was.
    number: u64,
    callback: Option<Callback>,
}

struct Service {
    state: Arc<(Mutex<State>, Condvar)>,
    origin: Instant,
}

struct Handle {
    slot: u32,
    stamp: u32,
}

pub fn run(args: &Args) {
    let state = State {
        slots: Vec::new(),
        released: 0,
        live: 0,
        added: 0,
        earliest_ns: u64::MAX,
        stops: false,
    };
    let service = Service {
        state: Arc::new((Mutex::new(state), Condvar::new())),
        origin: Instant::now(),
    };
    let driver = service.drive();
    timers::run_shared(args, &service);
    service.state.0.lock().unwrap().stops = true;
    service.state.1.notify_all();
    driver.join().unwrap();
}

impl Service {
    fn drive(&self) -> JoinHandle<()> {
        let (state, origin) = (Arc::clone(&self.state), self.origin);
        thread::spawn(move || {
            let (lock, earlier) = &*state;
            let mut state = lock.lock().unwrap();
            while !state.stops {
                let now_ns = origin.elapsed().as_nanos() as u64;
                if state.earliest_ns > now_ns {
                    let wait = Duration::from_nanos(state.earliest_ns - now_ns);
                    state = earlier.wait_timeout(state, wait).unwrap().0;
                    continue;
                }
                let due = state.take_due(now_ns);
                drop(state);
                due.into_iter().for_each(|callback| {
                    let _ = catch_unwind(AssertUnwindSafe(callback));
                });
                state = lock.lock().unwrap();
            }
        })
    }
}

impl State {
    fn take_due(&mut self, now_ns: u64) -> Vec<Callback> {
        let live = |slot: &Slot| slot.stamp.is_multiple_of(2);
        let mut due: Vec<u32> = (0..self.slots.len() as u32).collect();
        due.retain(|slot| {
            let slot = &self.slots[*slot as usize];
            live(slot) && slot.deadline_ns <= now_ns
        });
        due.sort_unstable_by_key(|slot| {
            let slot = &self.slots[*slot as usize];
            (slot.deadline_ns, slot.number)
        });
        let callbacks = due.iter().filter_map(|slot| self.release(*slot)).collect();
        let left = self.slots.iter().filter(|slot| live(slot));
        self.earliest_ns = left.map(|slot| slot.deadline_ns).min().unwrap_or(u64::MAX);
        callbacks
    }

    fn release(&mut self, slot: u32) -> Option<Callback> {
        let entry = &mut self.slots[slot as usize];
        entry.stamp += 1;
        entry.next = self.released;
        self.released = slot + 1;
        self.live -= 1;
        entry.callback.take()
    }

    fn claim(&mut self, deadline_ns: u64, callback: Callback) -> Option<Handle> {
        if self.live == CAPACITY {
            return None;
        }
        (self.live, self.added) = (self.live + 1, self.added + 1);
        let (number, callback) = (self.added, Some(callback));
        let Some(slot) = self.released.checked_sub(1) else {
            self.slots.push(Slot {
                stamp: 0,
                next: 0,
                deadline_ns,
                number,
                callback,
            });
            let slot = self.slots.len() as u32 - 1;
            return Some(Handle { slot, stamp: 0 });
        };
        let entry = &mut self.slots[slot as usize];
        self.released = entry.next;
        entry.stamp += 1;
        (entry.deadline_ns, entry.number) = (deadline_ns, number);
        entry.callback = callback;
        let stamp = entry.stamp;
        Some(Handle { slot, stamp })
    }
}

impl timers::SharedTimers for Service {
    type Handle = Handle;

    fn add(&self, deadline_ns: u64, _id: u64) -> Handle {
        // A minute later, so that none is due during the measurement.
        let at = deadline_ns + timers::WINDOW_NS;
        let callback: Callback = Box::new(|| ());
        let mut state = self.state.0.lock().unwrap();
        let handle = state.claim(at, callback);
        let is_next = at < state.earliest_ns;
        state.earliest_ns = state.earliest_ns.min(at);
        drop(state);
        if is_next {
            self.state.1.notify_one();
        }
        handle.expect("there is room")
    }

    fn cancel(&self, handle: Handle) -> bool {
        let mut state = self.state.0.lock().unwrap();
        let callback = match state.slots.get(handle.slot as usize) {
            Some(slot) if slot.stamp == handle.stamp => state.release(handle.slot),
            _ => None,
        };
        drop(state);
        let was_in_time = callback.is_some();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(callback)));
        was_in_time
    }

    fn len(&self) -> u64 {
        self.state.0.lock().unwrap().live
    }
}

const CAPACITY: u64 = 4_000_000;
