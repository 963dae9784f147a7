//! Seed 2, before: the cache of events is a plain list, which is searched from
//! the front with string comparisons. One queue leads to the subscriber's
//! thread.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
};

use kit::bus::{Bus, Received};

pub struct LinearCache {
    entries: Mutex<Vec<Event>>,
    queue: Arc<Queue>,
    subscriber: JoinHandle<Received>,
}

/// The name of a device and its last state.
#[derive(Clone)]
struct Event {
    device: String,
    value: u64,
}

#[derive(Default)]
struct Queue {
    events: Mutex<VecDeque<Option<Event>>>,
    arrived: Condvar,
}

impl LinearCache {
    pub fn start(_keys: u64) -> Self {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        let subscriber = thread::spawn(move || theirs.receive_all());
        Self {
            entries: Mutex::default(),
            queue,
            subscriber,
        }
    }
}

impl Queue {
    fn push(&self, event: Option<Event>) {
        self.events.lock().unwrap().push_back(event);
        self.arrived.notify_one();
    }

    fn receive_all(&self) -> Received {
        let mut received = Received::default();
        while let Some(event) = self.pop() {
            received.count += 1;
            received.sum += event.value;
        }
        received
    }

    fn pop(&self) -> Option<Event> {
        let mut events = self.events.lock().unwrap();
        loop {
            if let Some(event) = events.pop_front() {
                return event;
            }
            events = self.arrived.wait(events).unwrap();
        }
    }
}

impl Bus for LinearCache {
    fn publish(&mut self, key: u64, value: u64) {
        let event = Event {
            device: format!("SIP/device-{key:06}"),
            value,
        };
        let mut entries = self.entries.lock().unwrap();
        match entries
            .iter_mut()
            .find(|entry| entry.device == event.device)
        {
            Some(entry) => *entry = event.clone(),
            None => entries.push(event.clone()),
        }
        drop(entries);
        self.queue.push(Some(event));
    }

    fn drain(self, _updates: u64) -> (Received, u64) {
        self.queue.push(None);
        let received = self.subscriber.join().unwrap();
        let sum = self
            .entries
            .lock()
            .unwrap()
            .iter()
            .map(|entry| entry.value)
            .sum();
        (received, sum)
    }
}
