//! `timers-shared` on a heap as a service: closures that are handed to an executor when they are due, and a thread
//! that waits for the earliest deadline. What one writes around a heap and a mutex, no more: no labels, no
//! statistics, no waiting for a callback that runs.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Arc, Condvar, Mutex,
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kit::{Args, timers};

type Callback = Box<dyn FnOnce() + Send>;

/// What runs callbacks; shared by all timers.
trait Executor: Send + Sync {
    fn execute(&self, callback: Callback);
}

/// One worker behind a channel.
struct Worker(Mutex<Sender<Callback>>);

impl Executor for Worker {
    fn execute(&self, callback: Callback) {
        let _ = self.0.lock().unwrap().send(callback);
    }
}

#[derive(Default)]
struct State {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    next: u64,
    live: u64,
    stops: bool,
}

#[derive(Default)]
struct Slot {
    /// Says whether a handle is still that of this timer.
    generation: u64,
    work: Option<(Callback, Arc<dyn Executor>)>,
}

/// Cancelled timers stay in the heap until they come to the top.
struct Service {
    state: Arc<(Mutex<State>, Condvar)>,
    origin: Instant,
    executor: Arc<dyn Executor>,
}

struct Handle {
    slot: usize,
    generation: u64,
}

pub fn run(args: &Args) {
    let (sender, callbacks) = mpsc::channel::<Callback>();
    let worker = thread::spawn(move || callbacks.into_iter().for_each(|callback| callback()));
    let service = Service {
        state: Arc::default(),
        origin: Instant::now(),
        executor: Arc::new(Worker(Mutex::new(sender))),
    };
    let driver = service.drive();
    timers::run_shared(args, &service);
    service.state.0.lock().unwrap().stops = true;
    service.state.1.notify_all();
    driver.join().unwrap();
    drop(service);
    worker.join().unwrap();
}

impl Service {
    fn drive(&self) -> JoinHandle<()> {
        let (state, origin) = (Arc::clone(&self.state), self.origin);
        thread::spawn(move || {
            let (lock, earlier) = &*state;
            let mut state = lock.lock().unwrap();
            while !state.stops {
                let now_ns = origin.elapsed().as_nanos() as u64;
                match state.heap.peek() {
                    None => state = earlier.wait(state).unwrap(),
                    Some(Reverse((at, ..))) if *at > now_ns => {
                        let wait = Duration::from_nanos(at - now_ns);
                        state = earlier.wait_timeout(state, wait).unwrap().0;
                    }
                    Some(_) => {
                        let work = state.pop();
                        drop(state);
                        if let Some((callback, executor)) = work {
                            executor.execute(callback);
                        }
                        state = lock.lock().unwrap();
                    }
                }
            }
        })
    }
}

impl State {
    fn pop(&mut self) -> Option<(Callback, Arc<dyn Executor>)> {
        let Reverse((_, _, index)) = self.heap.pop()?;
        self.free.push(index);
        let slot = &mut self.slots[index];
        slot.generation += 1;
        let work = slot.work.take()?;
        self.live -= 1;
        Some(work)
    }
}

impl timers::SharedTimers for Service {
    type Handle = Handle;

    fn add(&self, deadline_ns: u64, _id: u64) -> Handle {
        // A minute later, so that none is due during the measurement.
        let at = deadline_ns + timers::WINDOW_NS;
        let work: (Callback, _) = (Box::new(|| ()), Arc::clone(&self.executor));
        let mut state = self.state.0.lock().unwrap();
        let index = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::default());
            state.slots.len() - 1
        });
        state.slots[index].work = Some(work);
        let generation = state.slots[index].generation;
        let was_first = state
            .heap
            .peek()
            .is_none_or(|Reverse((first, ..))| at < *first);
        state.next += 1;
        state.live += 1;
        let entry = Reverse((at, state.next, index));
        state.heap.push(entry);
        drop(state);
        if was_first {
            self.state.1.notify_one();
        }
        Handle {
            slot: index,
            generation,
        }
    }

    fn cancel(&self, handle: Handle) -> bool {
        let mut state = self.state.0.lock().unwrap();
        let slot = &mut state.slots[handle.slot];
        let work = match slot.generation == handle.generation {
            true => slot.work.take(),
            false => None,
        };
        state.live -= u64::from(work.is_some());
        drop(state);
        work.is_some()
    }

    fn len(&self) -> u64 {
        self.state.0.lock().unwrap().live
    }
}
