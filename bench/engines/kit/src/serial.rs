//! A simple serializer over any pool, for pools without one: a queue with a
//! lock, and at most one task in the pool that empties it.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::tasks::{Pool, Serial};

type Task = Box<dyn FnOnce() + Send>;

pub struct Serializer<P: Pool> {
    pool: &'static P,
    tasks: Mutex<VecDeque<Task>>,
    is_scheduled: AtomicBool,
}

impl<P: Pool> Serializer<P> {
    pub fn new(pool: &'static P) -> Self {
        Self {
            pool,
            tasks: Mutex::default(),
            is_scheduled: AtomicBool::new(false),
        }
    }

    fn run(&self) {
        loop {
            let task = self.tasks.lock().unwrap().pop_front();
            match task {
                Some(task) => task(),
                None if self.rest() => return,
                None => {}
            }
        }
    }

    /// Whether the serializer has become idle: nothing was pushed meanwhile.
    fn rest(&self) -> bool {
        self.is_scheduled.store(false, Ordering::SeqCst);
        self.tasks.lock().unwrap().is_empty() || self.is_scheduled.swap(true, Ordering::SeqCst)
    }
}

impl<P: Pool> Serial for Serializer<P> {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        self.tasks.lock().unwrap().push_back(Box::new(task));
        if !self.is_scheduled.swap(true, Ordering::SeqCst) {
            self.pool.push(move || self.run());
        }
    }
}
