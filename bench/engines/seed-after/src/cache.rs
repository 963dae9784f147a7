//! Seed 2, after: the event type has its own hash table; keys are hashed once,
//! and hashes are compared before the bytes. One queue leads to the
//! subscriber's thread.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hash, Hasher},
    sync::{Arc, Condvar, Mutex, RwLock},
    thread::{self, JoinHandle},
};

use kit::bus::{Bus, Received};

pub struct HashedCache {
    table: RwLock<HashMap<Device, Arc<Event>, BuildHasherDefault<Stored>>>,
    queue: Arc<Queue>,
    subscriber: JoinHandle<Received>,
}

/// A device's name with its hash in front.
#[derive(Clone)]
struct Device {
    hash: u64,
    name: String,
}

struct Event {
    device: Device,
    value: u64,
}

#[derive(Default)]
struct Queue {
    events: Mutex<VecDeque<Option<Arc<Event>>>>,
    arrived: Condvar,
}

impl Device {
    fn new(key: u64) -> Self {
        let name = format!("SIP/device-{key:06}");
        // The hash function of the original: times 33, xor.
        let hash = name.bytes().fold(5381u64, |hash, byte| {
            hash.wrapping_mul(33) ^ u64::from(byte)
        });
        Self { hash, name }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.name == other.name
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Passes the stored hash on, mixed so that its low bits choose buckets well.
#[derive(Default)]
struct Stored(u64);

impl Hasher for Stored {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a device hashes as one number")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl HashedCache {
    pub fn start(_keys: u64) -> Self {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        let subscriber = thread::spawn(move || theirs.receive_all());
        Self {
            table: RwLock::default(),
            queue,
            subscriber,
        }
    }
}

impl Queue {
    fn push(&self, event: Option<Arc<Event>>) {
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

    fn pop(&self) -> Option<Arc<Event>> {
        let mut events = self.events.lock().unwrap();
        loop {
            if let Some(event) = events.pop_front() {
                return event;
            }
            events = self.arrived.wait(events).unwrap();
        }
    }
}

impl Bus for HashedCache {
    fn publish(&mut self, key: u64, value: u64) {
        let event = Arc::new(Event {
            device: Device::new(key),
            value,
        });
        self.table
            .write()
            .unwrap()
            .insert(event.device.clone(), Arc::clone(&event));
        self.queue.push(Some(event));
    }

    fn drain(self, _updates: u64) -> (Received, u64) {
        self.queue.push(None);
        let received = self.subscriber.join().unwrap();
        let sum = self
            .table
            .read()
            .unwrap()
            .values()
            .map(|event| event.value)
            .sum();
        (received, sum)
    }
}
