//! A hash map behind a mutex, and tokio's channel to a task on another thread.

use std::{collections::HashMap, sync::Mutex};

use kit::bus::{Bus, Received};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

pub struct Channel {
    runtime: Runtime,
    cache: Mutex<HashMap<u64, u64>>,
    sender: UnboundedSender<(u64, u64)>,
    subscriber: JoinHandle<Received>,
}

impl Channel {
    pub fn start(_keys: u64) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .expect("a runtime");
        let (sender, mut receiver) = unbounded_channel();
        let subscriber = runtime.spawn(async move {
            let mut received = Received::default();
            while let Some((_, value)) = receiver.recv().await {
                received.count += 1;
                received.sum += value;
            }
            received
        });
        Self {
            runtime,
            cache: Mutex::default(),
            sender,
            subscriber,
        }
    }
}

impl Bus for Channel {
    fn publish(&mut self, key: u64, value: u64) {
        self.cache.lock().unwrap().insert(key, value);
        self.sender
            .send((key, value))
            .expect("the subscriber is there");
    }

    fn drain(self, _updates: u64) -> (Received, u64) {
        drop(self.sender);
        let received = self
            .runtime
            .block_on(self.subscriber)
            .expect("a subscriber");
        let sum = self.cache.lock().unwrap().values().sum();
        (received, sum)
    }
}
