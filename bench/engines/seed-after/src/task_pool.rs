//! Seed 5, after: a pool of task processors, each with its own queue and
//! thread; tasks are put directly into the queues, in turn.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use kit::tasks;

type Task = Box<dyn FnOnce() + Send>;

/// One task processor: a queue, a lock, a condition.
#[derive(Default)]
struct Processor {
    tasks: Mutex<VecDeque<Task>>,
    arrived: Condvar,
}

impl Processor {
    fn push(&self, task: Task) {
        self.tasks.lock().unwrap().push_back(task);
        self.arrived.notify_one();
    }

    fn pop(&self) -> Task {
        let mut tasks = self.tasks.lock().unwrap();
        loop {
            if let Some(task) = tasks.pop_front() {
                return task;
            }
            tasks = self.arrived.wait(tasks).unwrap();
        }
    }
}

/// A pool, which its threads share.
pub struct Pool(Arc<Inner>);

struct Inner {
    processors: Vec<Processor>,
    turn: AtomicUsize,
}

impl Pool {
    pub fn start(workers: u64) -> Self {
        let processors = (0..workers).map(|_| Processor::default()).collect();
        let pool = Arc::new(Inner {
            processors,
            turn: AtomicUsize::new(0),
        });
        for index in 0..pool.processors.len() {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.run(index));
        }
        Self(pool)
    }
}

impl Inner {
    fn run(&self, index: usize) -> ! {
        loop {
            self.processors[index].pop()();
        }
    }
}

impl tasks::Pool for Pool {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed);
        self.0.processors[turn % self.0.processors.len()].push(Box::new(task));
    }
}
