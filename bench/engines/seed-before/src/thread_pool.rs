//! Seed 5, before: a thread pool with one queue of work, and a second queue
//! through which the pool manages itself: each pushed task causes two entries,
//! and the control thread passes the work on.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex},
    thread,
};

use kit::tasks;

type Task = Box<dyn FnOnce() + Send>;

/// An entry of the control queue.
enum Control {
    TaskPushed(Task),
}

/// A queue with a lock and a condition, as a task processor has.
struct Queue<T> {
    tasks: Mutex<VecDeque<T>>,
    arrived: Condvar,
}

impl<T> Queue<T> {
    fn new() -> Self {
        Self {
            tasks: Mutex::new(VecDeque::new()),
            arrived: Condvar::new(),
        }
    }

    fn push(&self, task: T) {
        self.tasks.lock().unwrap().push_back(task);
        self.arrived.notify_one();
    }

    fn pop(&self) -> T {
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
    work: Queue<Task>,
    control: Queue<Control>,
}

impl Pool {
    pub fn start(workers: u64) -> Self {
        let pool = Arc::new(Inner {
            work: Queue::new(),
            control: Queue::new(),
        });
        let control = Arc::clone(&pool);
        thread::spawn(move || control.run_control());
        for _ in 0..workers {
            let worker = Arc::clone(&pool);
            thread::spawn(move || worker.run_work());
        }
        Self(pool)
    }
}

impl Inner {
    fn run_control(&self) {
        loop {
            let Control::TaskPushed(task) = self.control.pop();
            self.work.push(task);
        }
    }

    fn run_work(&self) {
        loop {
            self.work.pop()();
        }
    }
}

impl tasks::Pool for Pool {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        self.0.control.push(Control::TaskPushed(Box::new(task)));
    }
}
